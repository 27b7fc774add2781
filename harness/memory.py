"""Resident memory of the server's own processes (TST-15): idle, and after a load."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from harness.acknowledged import Ledger
from harness.cluster import Cluster
from harness.discovery.speed import INDEX_MEGABYTES, footprint
from harness.load import prepare, stream_of_commits
from harness.measured import Row, Table, below

IDLE_SECONDS = 10.0
LOAD_SECONDS = 20.0
SAMPLE_SECONDS = 0.5
FRONT_MEGABYTES = 120.0
WORKER_MEGABYTES = 60.0
MEGABYTE = 1 << 20


def measure() -> Table:
    """Start the ordinary cluster (one worker a node), watch it idle, load it, watch it again."""
    with (
        tempfile.TemporaryDirectory(prefix="keyload-ram-") as name,
        Cluster(Path(name) / "cluster", workers=1, shards=None) as cluster,
    ):
        idle = maximum(cluster, IDLE_SECONDS)
        asyncio.run(load(cluster))
        loaded = maximum(cluster, IDLE_SECONDS / 2)
    rows = [row for role, size in idle.items() for row in (idle_row(role, size),)]
    rows += [
        Row(what=f"{role} after {LOAD_SECONDS:.0f} s of load", values=(size / MEGABYTE,), unit="MB")
        for role, size in loaded.items()
    ]
    index = footprint()
    rows.append(below("index of the 68 operations, in a fresh process", [index.index], "MB", INDEX_MEGABYTES))
    rows.append(Row(what="import of numpy and rapidfuzz for it", values=(index.packages,), unit="MB"))
    return Table(title="Resident memory", runs=1, rows=rows)


def idle_row(role: str, size: int) -> Row:
    """The row of one idle process with the target of its kind."""
    target = FRONT_MEGABYTES if role.endswith("front") else WORKER_MEGABYTES
    return below(f"{role}, idle", [size / MEGABYTE], "MB", target)


def maximum(cluster: Cluster, seconds: float) -> dict[str, int]:
    """The greatest resident set of every process over some time, in bytes."""
    found: dict[str, int] = {}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for role, size in cluster.resident_bytes().items():
            found[role] = max(size, found.get(role, 0))
        time.sleep(SAMPLE_SECONDS)
    return found


async def load(cluster: Cluster) -> None:
    """Commits from 16 clients over both doors."""
    await prepare(cluster.urls, cluster.key)
    async with stream_of_commits(Ledger(1), cluster.urls, cluster.key):
        await asyncio.sleep(LOAD_SECONDS)
