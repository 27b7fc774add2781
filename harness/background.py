"""What work in the background costs commits (`apphost --measure=background`).

500 commits a second run at the workers' sockets of three nodes, first alone, then beside checkpoints, beside
the taking and the installing of a snapshot for an erased follower, and beside a scan of 30 seconds. Begin and
end of that work are seen from outside, by the files it leaves.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from harness.injection import InjectedNode, three_nodes
from harness.measured import Row, Table, nearest_rank
from harness.steady import SteadyLoad, write_documents
from keyload.worker.leadership import preferred_node

SHARDS = 1
"""One data shard, so that the third node follows in every shard and can be erased without an election."""

DATA = 1
RATE = 500.0
DOCUMENTS = 1024
DOCUMENT_BYTES = 256 << 10
WARM_SECONDS = 5.0
BASELINE_SECONDS = 30.0
SCAN_SECONDS = 30.0
CHECKPOINTS = 3
CHECKPOINT_SECONDS = 2.0
"""A checkpoint is complete when its file appears; so long before it counts as its time."""

PATIENCE_SECONDS = 300.0
POLL_SECONDS = 0.05
WANTED_MS = 50.0


class Span(msgspec.Struct, frozen=True):
    """Some work in the background, from when to when."""

    begin: float
    end: float


def measure() -> Table:
    """All windows in one run of three nodes."""
    with tempfile.TemporaryDirectory(prefix="keyload-background-") as name:
        return asyncio.run(_measure(Path(name)))


async def _measure(directory: Path) -> Table:
    async with three_nodes(directory, SHARDS) as nodes:
        leader, follower = nodes[preferred_node(DATA, (1, 2, 3)) - 1], nodes[2]
        await write_documents(leader.hub, DOCUMENTS, DOCUMENT_BYTES, SHARDS)
        async with SteadyLoad([node.hub for node in nodes[:2]], RATE, SHARDS) as load:
            await asyncio.sleep(WARM_SECONDS)
            spans = {"alone": [Span(time.perf_counter(), time.perf_counter() + BASELINE_SECONDS)]}
            await asyncio.sleep(BASELINE_SECONDS)
            spans["beside checkpoints"] = await _checkpoints(leader)
            taken, installed = await _snapshot(leader, follower)
            spans["beside the taking of a snapshot"] = [taken]
            spans["beside the installing of a snapshot"] = [installed]
            spans["beside a scan"] = [await _scan(leader)]
            await asyncio.sleep(1.0)
    return table({what: _latencies(load, own) for what, own in spans.items()})


def table(latencies: dict[str, list[float]]) -> Table:
    """p99 of each window, and how much it is above that of the load alone."""
    p99 = {what: nearest_rank(own, 0.99) * 1000 for what, own in latencies.items()}
    alone = p99.pop("alone")
    rows = [Row(what=f"p99 alone, {len(latencies['alone'])} commits", values=(alone,), unit="ms")]
    rows += [
        Row(
            what=f"p99 {what}, {len(latencies[what])} commits",
            values=(value,),
            unit="ms",
            wanted=f"at most {alone + WANTED_MS:.1f}",
            met=value - alone <= WANTED_MS,
        )
        for what, value in p99.items()
    ]
    raw = {
        f"{what}, ms at p50, p90, p99, p99.9, p100": [
            round(nearest_rank(own, share) * 1000, 2) for share in (0.5, 0.9, 0.99, 0.999, 1.0)
        ]
        for what, own in latencies.items()
    }
    return Table(title=f"Background work beside {RATE:.0f} commits/s", runs=1, rows=rows, raw=raw)


def _latencies(load: SteadyLoad, spans: Sequence[Span]) -> list[float]:
    return [one for span in spans for one in load.latencies(span.begin, span.end)]


async def until_replaced(what: str, file: Path, before: int) -> float:
    """Look every few milliseconds until a file is newer than before; the instant."""
    deadline = time.perf_counter() + PATIENCE_SECONDS
    while _changed(file) <= before:
        if time.perf_counter() > deadline:
            raise AssertionError(f"not within {PATIENCE_SECONDS:.0f} s: {what}")
        await asyncio.sleep(POLL_SECONDS)
    return time.perf_counter()


async def _checkpoints(node: InjectedNode) -> list[Span]:
    """Wait for some checkpoints of the data shard."""
    file = shard_directory(node) / "checkpoint"
    spans: list[Span] = []
    for _ in range(CHECKPOINTS):
        end = await until_replaced("a checkpoint", file, _changed(file))
        spans.append(Span(end - CHECKPOINT_SECONDS, end))
    return spans


async def _snapshot(leader: InjectedNode, follower: InjectedNode) -> tuple[Span, Span]:
    """Erase a follower; the spans until the leader has taken a snapshot and until all is installed."""
    manifest = shard_directory(leader) / "snapshot" / "manifest.json"
    before = _changed(manifest)
    await follower.stop()
    follower.erase()
    begin = time.perf_counter()
    follower.start()
    taken = await until_replaced("the taking of a snapshot", manifest, before)
    await until_caught_up(leader, follower)
    return Span(begin, taken), Span(taken, time.perf_counter())


async def until_caught_up(leader: InjectedNode, follower: InjectedNode) -> None:
    """Wait until the follower has applied what the leader had committed a moment before."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            wanted = (await leader.replicas()).get(DATA)
            await asyncio.sleep(POLL_SECONDS)
            reached = (await follower.replicas()).get(DATA)
            if wanted is not None and reached is not None and reached.applied >= wanted.commit > 0:
                return


async def _scan(node: InjectedNode) -> Span:
    """Read the whole data shard again and again from one cut, in a process beside the worker."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "harness.scanner", str(shard_directory(node)), str(SCAN_SECONDS)]
    process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.DEVNULL)
    status = await process.wait()
    assert status == 0, f"the scan ended with {status}"
    return Span(begin, time.perf_counter())


def shard_directory(node: InjectedNode) -> Path:
    """Where a node keeps the data shard."""
    return node.worker_directory / f"shard-{DATA}"


def _changed(path: Path) -> int:
    """When a file was last replaced, 0 when there is none."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
