"""A steady load at the workers' sockets: each commit begins at its own instant, answered or not those before.

Latency counts from the instant a commit was meant to begin, so that a stall shows in every commit it delayed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import msgspec

from harness.doors import UNCERTAIN
from harness.injection import Put, make_put, send_put
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.front.workers import WorkerHub

MAX_OUTSTANDING = 20_000
LOST_SECONDS = 60.0
PARTITIONS = 48
FIRST_NUMBER = 1_000_000
"""Documents of the load are numbered from here on."""

_AGAIN = UNCERTAIN | {ErrorCode.RESOURCE_EXHAUSTED}


class Sample(msgspec.Struct, frozen=True):
    """One commit: when it was meant to begin, and the seconds until its receipt."""

    begun: float
    seconds: float


class SteadyLoad:
    """`rate` commits of new documents of 200 bytes a second while the context is entered.

    A refused or lost commit is sent again with its id until it has its receipt; that counts as one latency.
    """

    def __init__(self, hubs: Sequence[WorkerHub], rate: float, shards: int) -> None:
        self.samples: list[Sample] = []
        self._hubs = list(hubs)
        self._pause = 1 / rate
        self._shards = shards
        self._under_way: set[asyncio.Task[None]] = set()
        self._pacing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._pacing = asyncio.create_task(self._pace())
        return self

    async def __aexit__(self, *_: Any) -> None:
        assert self._pacing is not None
        self._pacing.cancel()
        await asyncio.wait({self._pacing})
        async with asyncio.timeout(LOST_SECONDS):
            await asyncio.gather(*self._under_way)
        if not self._pacing.cancelled():
            self._pacing.result()

    def latencies(self, begin: float, end: float) -> list[float]:
        """Of the commits meant to begin between two instants that have their receipt."""
        return [sample.seconds for sample in self.samples if begin <= sample.begun < end]

    def longest_gap(self, begin: float, end: float) -> float:
        """The longest time without any receipt between two instants, in seconds."""
        instants = [sample.begun + sample.seconds for sample in self.samples]
        marks = [begin, *sorted(one for one in instants if begin < one < end), end]
        return max(after - before for before, after in pairwise(marks))

    async def _pace(self) -> None:
        number, due = FIRST_NUMBER, time.perf_counter()
        while True:
            due += self._pause
            put = make_put(number, PARTITIONS, self._shards)
            hub = self._hubs[number % len(self._hubs)]
            number += 1
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if len(self._under_way) >= MAX_OUTSTANDING:
                raise AssertionError("the nodes cannot keep up with the steady load")
            task = asyncio.create_task(self._commit(hub, put, due))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _commit(self, hub: WorkerHub, put: Put, due: float) -> None:
        await until_committed(hub, put)
        self.samples.append(Sample(due, time.perf_counter() - due))


async def until_committed(hub: WorkerHub, put: Put) -> None:
    """Send a put until it has its receipt."""
    async with asyncio.timeout(LOST_SECONDS):
        while True:
            try:
                await send_put(hub, put)
                return
            except KeyLoadError as error:
                if error.code not in _AGAIN:
                    raise
                await asyncio.sleep(0.01)


async def write_documents(hub: WorkerHub, count: int, text_bytes: int, shards: int, at_once: int = 8) -> None:
    """Write many documents of one size, a few at a time."""
    numbers = iter(range(count))

    async def write() -> None:
        for number in numbers:
            await until_committed(hub, make_put(number, PARTITIONS, shards, text_bytes))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(write())
