"""What was written through one node is read through any other, at once (CLU-24, CMD-30)."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from harness.acknowledged import COLLECTION, partition_of
from harness.cluster import Cluster
from keyload.client import AsyncClient
from keyload.contract.documents import PutDocument
from keyload.contract.shared import EntityRef

ROUNDS = 500
WRITERS = 4


@pytest.mark.covers("CLU-24", "CMD-30", "CON-80")
def test_every_write_is_read_through_any_other_node(cluster: Cluster, seed: int) -> None:
    asyncio.run(write_and_read(cluster, seed))


async def write_and_read(cluster: Cluster, seed: int) -> None:
    clients = [AsyncClient(url, cluster.key, retries=0) for url in cluster.urls]
    try:
        async with asyncio.TaskGroup() as tasks:
            for writer in range(WRITERS):
                tasks.create_task(one_writer(clients, f"fresh-{seed}-{writer}", Random(seed + writer)))
    finally:
        for client in clients:
            await client.close()


async def one_writer(clients: list[AsyncClient], name: str, chance: Random) -> None:
    partition = partition_of(name)
    reference = EntityRef(partition=partition, collection=COLLECTION, id=name)
    for number in range(1, ROUNDS // WRITERS + 1):
        writing, reading = chance.sample(clients, 2)
        text = f'{{"number": {number}}}'
        receipt = await writing.documents_commit(
            partition, [PutDocument(collection=COLLECTION, id=name, json=text)]
        )
        found = await reading.documents_get(reference)
        assert found is not None
        assert (found.revision, found.json) == (number, text)
        assert receipt.mutations[0].revision == number
