"""One confirmation of the catalog for all requests that wait (ARCHITECTURE reads, SEC-41, CLU-24).

A request may use a barrier only when it begins after the request arrived. So at most one barrier is in
flight, and whoever arrives meanwhile waits for the one that is forming behind it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from keyload.contract.errors import ErrorCode, KeyLoadError

GATHER_SECONDS = 0.002
"""Barriers begin at least so long after each other: under load one then serves several requests, at a
small price in waiting; a request that comes alone never waits for it.
"""

BarrierAnswer = Callable[[int | KeyLoadError], None]
"""Takes the confirmed catalog version, or why the barrier was not reached."""

_Waiters = deque[tuple[float, "asyncio.Future[int]"]]


class SharedBarrier:
    """`begin(answer)` starts one barrier and later calls `answer` exactly once."""

    def __init__(self, begin: Callable[[BarrierAnswer], None], wait_seconds: float) -> None:
        self._begin = begin
        self._wait_seconds = wait_seconds
        self._in_flight: _Waiters | None = None
        self._forming: _Waiters = deque()
        self._scheduled = False
        self._begun_at = 0.0

    def wait(self) -> asyncio.Future[int]:
        """A future of the confirmed catalog version; it fails with OwnershipLost when that is not reached
        (CLU-25), and as the barrier says.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        self._forming.append((loop.time() + self._wait_seconds, future))
        self._schedule(loop)
        return future

    def expire(self, now: float) -> None:
        """End every wait whose time is over."""
        for waiters in (self._in_flight, self._forming):
            while waiters and waiters[0][0] <= now:
                _settle(waiters.popleft()[1], lost())

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._in_flight is None and self._forming and not self._scheduled:
            self._scheduled = True
            begin_at = self._begun_at + GATHER_SECONDS
            if begin_at <= loop.time():
                loop.call_soon(self._launch)
            else:
                loop.call_at(begin_at, self._launch)

    def _launch(self) -> None:
        self._scheduled = False
        if self._in_flight is not None or not self._forming:
            return
        self._begun_at = asyncio.get_running_loop().time()
        self._in_flight, self._forming = self._forming, deque()
        self._begin(self._finish)

    def _finish(self, result: int | KeyLoadError) -> None:
        waiters, self._in_flight = self._in_flight or (), None
        for _, future in waiters:
            _settle(future, result)
        self._schedule(asyncio.get_running_loop())


def lost() -> KeyLoadError:
    """The failure of a read or barrier that got no answer in time."""
    return KeyLoadError(ErrorCode.OWNERSHIP_LOST, "The node did not reach its data in time.")


def _settle(future: asyncio.Future[int], result: int | KeyLoadError) -> None:
    if future.done():
        return
    if isinstance(result, KeyLoadError):
        future.set_exception(result)
    else:
        future.set_result(result)
