"""A follower that was down while 1 GiB was written (`apphost --measure=catchup`).

Three nodes at the workers' sockets, one data shard. The follower stops, 4,096 documents of 256 KiB are
written, it starts again. Measured: the time until it has applied everything, how long the shard kept a small
steady load waiting meanwhile, and the memory of both workers with what they start. Pages of mapped files are
told apart: the system takes them back when it needs the memory.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import msgspec
import psutil

from harness.background import DATA, SHARDS, until_caught_up
from harness.injection import InjectedNode, three_nodes
from harness.measured import Row, Table, below, nearest_rank
from harness.steady import SteadyLoad, write_documents
from keyload.worker.leadership import preferred_node

DOCUMENTS = 4096
DOCUMENT_BYTES = 256 << 10
RATE = 20.0
SETTLE_SECONDS = 5.0
SAMPLE_SECONDS = 0.05
MEGABYTE = 1 << 20
WANTED_MEGABYTES = 300.0
WANTED_GAP_SECONDS = 2.0


class Memory(msgspec.Struct, frozen=True):
    """Resident bytes: `own` of the processes themselves, `mapped` pages of files."""

    own: int
    mapped: int


def measure() -> Table:
    """One run."""
    with tempfile.TemporaryDirectory(prefix="keyload-catchup-") as name:
        return asyncio.run(_measure(Path(name)))


async def _measure(directory: Path) -> Table:
    async with three_nodes(directory, SHARDS) as nodes:
        leader, follower = nodes[preferred_node(DATA, (1, 2, 3)) - 1], nodes[2]
        async with SteadyLoad([node.hub for node in nodes[:2]], RATE, SHARDS) as load:
            await asyncio.sleep(SETTLE_SECONDS)
            small = memory(follower.worker_process)
            await follower.stop()
            await write_documents(leader.hub, DOCUMENTS, DOCUMENT_BYTES, SHARDS)
            await asyncio.sleep(SETTLE_SECONDS)
            large = memory(leader.worker_process)
            begin = time.perf_counter()
            follower.start()
            await asyncio.sleep(0.5)
            async with Watch({"leader": leader, "follower": follower}) as watch:
                await until_caught_up(leader, follower)
                end = time.perf_counter()
                await asyncio.sleep(SETTLE_SECONDS)
        gap, waits = load.longest_gap(begin, end), load.latencies(begin, end)
    written = _megabytes(DOCUMENTS * DOCUMENT_BYTES)
    rows = [
        Row(what="written while the follower was down", values=(written,), unit="MB"),
        Row(what="caught up after its start", values=(end - begin,), unit="s"),
        below("longest time without an acknowledged commit", [gap], "s", WANTED_GAP_SECONDS),
        Row(what="p99 of the commits meanwhile", values=(nearest_rank(waits, 0.99),), unit="s"),
    ]
    for role, before in (("leader", large), ("follower", small)):
        rows.append(
            below(
                f"memory of the {role}'s worker, growth",
                [_megabytes(watch.peak[role].own - before.own)],
                "MB",
                WANTED_MEGABYTES,
            )
        )
        rows.append(
            Row(
                what=f"mapped pages of the {role}'s worker, growth",
                values=(_megabytes(watch.peak[role].mapped - before.mapped),),
                unit="MB",
            )
        )
    return Table(title="A follower catches up with 1 GiB", runs=1, rows=rows)


class Watch:
    """The greatest memory of some workers while the context is entered."""

    def __init__(self, nodes: dict[str, InjectedNode]) -> None:
        self.peak = dict.fromkeys(nodes, Memory(0, 0))
        self._nodes = nodes
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_: Any) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.result()

    async def _look(self) -> None:
        while True:
            for role, node in self._nodes.items():
                now, peak = memory(node.worker_process), self.peak[role]
                self.peak[role] = Memory(max(now.own, peak.own), max(now.mapped, peak.mapped))
            await asyncio.sleep(SAMPLE_SECONDS)


def memory(process_id: int) -> Memory:
    """Resident memory of a process and all it has started."""
    try:
        root = psutil.Process(process_id)
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return Memory(0, 0)
    found = [_resident(process.pid) for process in processes]
    return Memory(sum(one.own for one in found), sum(one.mapped for one in found))


def _resident(process_id: int) -> Memory:
    try:
        lines = Path(f"/proc/{process_id}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return Memory(0, 0)
    return Memory(_kibibytes(lines, ("RssAnon",)) << 10, _kibibytes(lines, ("RssFile", "RssShmem")) << 10)


def _kibibytes(lines: Iterable[str], names: tuple[str, ...]) -> int:
    return sum(int(line.split()[1]) for line in lines if line.partition(":")[0] in names)


def _megabytes(size: int) -> float:
    return size / MEGABYTE
