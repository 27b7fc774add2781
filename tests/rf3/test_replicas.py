"""Leaders spread over the nodes, a minority is silent, and replicas of one index hold the same bytes."""

from __future__ import annotations

import asyncio
import shutil
import sys
import uuid
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from harness.acknowledged import COLLECTION, Ledger, partition_of
from harness.cluster import Cluster, wait_until
from harness.doors import sdk_door
from harness.load import stream_of_commits
from harness.metrics import leaders, replicas
from keyload.contract import errors
from keyload.contract.documents import PutDocument
from keyload.contract.errors import ErrorCode
from keyload.contract.shared import EntityRef
from keyload.storage import Store
from keyload.worker.leadership import preferred_node

SHARDS = range(7)
PREFERRED = {shard: preferred_node(shard, (1, 2, 3)) for shard in SHARDS}
SPREAD_SECONDS = 10.0
QUIET_SECONDS = 20.0
LOAD_SECONDS = 3.0
MAXIMUM_BYTES = 1 << 30
SILENT_CALLS = 12
PATIENCE_SECONDS = 15.0


@pytest.mark.covers("CLU-8", "CLU-29")
def test_leaders_spread_over_the_nodes(cluster: Cluster) -> None:
    cluster.crash(1)
    cluster.restart(1)
    cluster.wait_ready()
    took = wait_until(
        "each shard is led by the node it prefers",
        lambda: leaders(cluster.urls, cluster.key) == PREFERRED,
        SPREAD_SECONDS,
    )
    sys.stdout.write(f"leaders had spread {took:.1f} s after the cluster was whole\n")
    counts = [list(PREFERRED.values()).count(number) for number in (1, 2, 3)]
    assert max(counts) - min(counts) <= 1


async def code_of(call: Awaitable[Any]) -> ErrorCode | None:
    """How a call was refused, None when it was answered."""
    try:
        await call
    except errors.KeyLoadError as error:
        return error.code
    return None


async def codes_at(url: str, key: str) -> tuple[list[ErrorCode | None], list[ErrorCode | None]]:
    """What reads and writes all over the shards are told by one node."""
    async with sdk_door(url, key, PATIENCE_SECONDS) as door:

        def read(number: int) -> Awaitable[Any]:
            partition = partition_of(f"minority-{number}")
            return door.get(EntityRef(partition=partition, collection=COLLECTION, id="one"))

        def write(number: int) -> Awaitable[Any]:
            put = PutDocument(collection=COLLECTION, id="one", json="{}")
            return door.commit(str(uuid.uuid4()), partition_of(f"minority-{number}"), [put])

        reads = await asyncio.gather(*(code_of(read(number)) for number in range(SILENT_CALLS)))
        writes = await asyncio.gather(*(code_of(write(number)) for number in range(SILENT_CALLS)))
    return reads, writes


@pytest.mark.covers("CLU-11", "CLU-14", "CLU-25", "CLU-27")
@pytest.mark.parametrize("distance", [0, 1])
def test_a_minority_answers_neither_reads_nor_writes(cluster: Cluster, distance: int) -> None:
    alone = (cluster.system_leader() - 1 + distance) % 3 + 1
    others = [node.number for node in cluster.nodes if node.number != alone]
    cluster.network.isolate(alone)
    reads, writes = asyncio.run(codes_at(cluster.node(alone).url, cluster.key))
    assert set(reads) == {ErrorCode.OWNERSHIP_LOST}
    assert set(writes) <= {ErrorCode.OWNERSHIP_LOST, ErrorCode.UNKNOWN_WRITE_OUTCOME}
    cluster.wait_ready(others)
    for number in others:
        assert asyncio.run(codes_at(cluster.node(number).url, cluster.key)) == (
            [None] * SILENT_CALLS,
            [None] * SILENT_CALLS,
        )
    wait_until("it says so", lambda: not cluster.node(alone).is_ready(), PATIENCE_SECONDS)
    cluster.network.heal()
    cluster.wait_ready()
    assert asyncio.run(codes_at(cluster.node(alone).url, cluster.key))[0] == [None] * SILENT_CALLS


def is_even(cluster: Cluster) -> bool:
    """Whether no leadership is about to move and every replica has applied all that is committed."""
    if leaders(cluster.urls, cluster.key) != PREFERRED:
        return False
    views = [replicas(url, cluster.key) for url in cluster.urls]
    return all(len(view) == len(SHARDS) for view in views) and all(
        len({(view[shard].commit, view[shard].applied) for view in views}) == 1
        and views[0][shard].commit == views[0][shard].applied
        for shard in SHARDS
    )


def position_and_digest(node: Path, shard: int, workers: int, copies: Path) -> tuple[Any, str]:
    """Of the state of one replica, read from a copy."""
    copy = copies / f"{node.name}-{shard}"
    copy.mkdir(mode=0o700)
    shutil.copy(node / f"worker-{shard % workers}" / f"shard-{shard}" / "data.mdb", copy)
    store = Store(copy, MAXIMUM_BYTES)
    try:
        return store.applied, store.digest()
    finally:
        store.close()


async def write_for_a_while(cluster: Cluster, ledger: Ledger) -> None:
    async with stream_of_commits(ledger, cluster.urls, cluster.key):
        await asyncio.sleep(LOAD_SECONDS)


def check_that_replicas_are_equal(cluster: Cluster, copies: Path) -> None:
    """Let all replicas come to the same index, stop the nodes, and compare the bytes."""
    wait_until("all replicas are at the same index", lambda: is_even(cluster), QUIET_SECONDS)
    cluster.crash(*(node.number for node in cluster.nodes))
    for shard in SHARDS:
        found = {
            position_and_digest(cluster.directory / node.profile.id, shard, cluster.workers, copies)
            for node in cluster.nodes
        }
        assert len(found) == 1, f"replicas of shard {shard} differ: {found}"


@pytest.mark.covers("CLU-13")
def test_replicas_at_one_index_hold_the_same_bytes(cluster: Cluster, seed: int, tmp_path: Path) -> None:
    asyncio.run(write_for_a_while(cluster, Ledger(seed)))
    check_that_replicas_are_equal(cluster, tmp_path)


async def write_while_a_node_is_erased(cluster: Cluster, ledger: Ledger, number: int) -> None:
    """All commands go through the other nodes, and each is checked through the erased one in the end."""
    node = cluster.node(number)
    healthy = [other.url for other in cluster.nodes if other is not node]
    async with stream_of_commits(ledger, healthy, cluster.key):
        await asyncio.sleep(LOAD_SECONDS)
        await asyncio.to_thread(cluster.crash, number)
        cluster.erase(number)
        cluster.restart(number)
        await asyncio.to_thread(cluster.wait_ready, [number])
        await asyncio.sleep(LOAD_SECONDS)
    await ledger.check([node.url], cluster.key)


@pytest.mark.covers("CLU-18", "CLU-15", "CLU-13")
@pytest.mark.parametrize("distance", [0, 1])
def test_an_erased_node_has_all_data_back_without_an_operator(
    cluster: Cluster, seed: int, tmp_path: Path, distance: int
) -> None:
    victim = (cluster.system_leader() - 1 + distance) % 3 + 1
    asyncio.run(write_while_a_node_is_erased(cluster, Ledger(seed), victim))
    check_that_replicas_are_equal(cluster, tmp_path)
