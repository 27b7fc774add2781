"""A worker that finds its log damaged stays down with all files as they are; the rest of its node goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.acknowledged import COLLECTION, partition_of
from harness.load import prepare
from harness.raw_http import Connection, request
from harness.trials import STORAGE, Node, running_node, until_serving
from keyload.client import AsyncClient, KeyLoadError
from keyload.codec.identity import atomic_partition_id, data_shard, partition_key
from keyload.contract.documents import PutDocument
from keyload.contract.errors import ErrorCode
from keyload.contract.shared import EntityRef, PartitionRef
from keyload.link.launch import EXIT_DAMAGED
from keyload.node.configuration import settings_of
from keyload.node.local import shared_settings
from keyload.node.profile import create
from keyload.node.settings import NodeSettings
from keyload.storage.segments import DATA_START

WORKERS = 2
WAIT_SECONDS = 30.0


def two_workers(directory: Path) -> NodeSettings:
    """A node alone with two workers."""
    profile = create([(1, 2)])
    node = profile.nodes[0]
    own = {"nodeId": node.id, "publicEndpoint": node.url, "dataDirectory": str(directory / node.id)}
    return settings_of(own | shared_settings(profile, WORKERS, None) | {"storage": STORAGE})


def partition_in(settings: NodeSettings, worker: int) -> PartitionRef:
    """A partition whose shard lives in a worker."""
    candidates = (partition_of(f"p{number}") for number in range(1000))
    return next(
        partition
        for partition in candidates
        if data_shard(atomic_partition_id(*partition_key(partition)), settings.data_shards) % WORKERS
        == worker
    )


def contents(directory: Path) -> dict[str, bytes]:
    """Log, states and checkpoints; the lock files of the states are no data."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in files
        if path.name not in ("lock.mdb", "boot")
    }


async def write_everywhere(settings: NodeSettings) -> None:
    async with running_node(settings, None) as node:
        await until_serving(node)
        await prepare([node.url], node.key)
        async with AsyncClient(node.url, node.key) as client:
            for worker in range(WORKERS):
                put = PutDocument(collection=COLLECTION, id="a", json='{"number": 1}')
                await client.documents_commit(partition_in(settings, worker), [put])


async def code_of_read(node: Node, partition: PartitionRef) -> ErrorCode | None:
    """What a read without retries ends with, None when it succeeds."""
    async with AsyncClient(node.url, node.key) as client:
        reference = EntityRef(partition=partition, collection=COLLECTION, id="a")
        try:
            await client.documents_get(reference, retries=0)
        except KeyLoadError as error:
            return error.code
    return None


async def look_at_damaged(settings: NodeSettings) -> None:
    async with running_node(settings, None) as node:
        async with asyncio.timeout(WAIT_SECONDS):
            await node.ended.wait()
        await until_serving(node)
        assert await code_of_read(node, partition_in(settings, 0)) is None
        assert await code_of_read(node, partition_in(settings, 1)) is ErrorCode.RECOVERY_REQUIRED
        connection = await Connection.open(node.url)
        status, _ = await connection.ask(request("GET", "/health/ready", node.key, b""))
        connection.close()
        assert status == 503
        await asyncio.sleep(1.0)  # long enough for two more starts, if there were any
        assert node.ends == [EXIT_DAMAGED]


@pytest.mark.covers("CLU-17", "CLU-27", "STO-11")
def test_a_worker_with_a_damaged_log_stays_down_and_the_others_go_on(tmp_path: Path) -> None:
    settings = two_workers(tmp_path)
    asyncio.run(write_everywhere(settings))
    directory = Path(settings.data_directory) / "worker-1"
    segment = min((directory / "wal").glob("*.log"))
    damaged = bytearray(segment.read_bytes())
    damaged[DATA_START + 20] ^= 1
    segment.write_bytes(damaged)
    before = contents(directory)
    asyncio.run(look_at_damaged(settings))
    assert contents(directory) == before
