"""Whether the node can serve (CLU-27).

A barrier of the system shard every two seconds shows that the node still reaches a majority, also when
nobody calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from keyload.contract.errors import KeyLoadError
from keyload.front.workers import WorkerHub
from keyload.link import log

BARRIER_SECONDS = 2.0
FRESH_SECONDS = 10.0
AGAIN_SECONDS = 0.2
"""How soon a barrier is tried again that was not reached, as while a worker starts."""


class Readiness:
    """Ready is: shards replayed, discovery index warm, a barrier within the last 10 s, somebody who could be
    let in, not stopping.
    """

    def __init__(
        self,
        hub: WorkerHub,
        warm: Callable[[], bool],
        *,
        barrier_seconds: float = BARRIER_SECONDS,
        fresh_seconds: float = FRESH_SECONDS,
    ) -> None:
        self._hub = hub
        self._warm = warm
        self._barrier_seconds = barrier_seconds
        self._fresh_seconds = fresh_seconds
        self._stopping = False

    def ready(self) -> bool:
        """Whether the node takes part in routing now."""
        confirmed = self._hub.last_confirmed
        if self._stopping or confirmed is None or not self._hub.replayed or not self._warm():
            return False
        if self._hub.catalog.admits_nobody:
            return False
        return asyncio.get_running_loop().time() - confirmed <= self._fresh_seconds

    def stop(self) -> None:
        """Readiness is off from now on (CLU-30)."""
        self._stopping = True

    async def watch(self) -> None:
        """Ask for a barrier again and again, until cancelled."""
        lost = False
        while True:
            try:
                await self._hub.confirm()
                lost = False
            except KeyLoadError:
                if not lost:
                    log.event(log.Category.BARRIER_LOST)
                lost = True
            await asyncio.sleep(min(self._barrier_seconds, AGAIN_SECONDS) if lost else self._barrier_seconds)
