"""Writes of a real worker fail because its files may not grow: nothing is falsely acknowledged, and with room
again it recovers by itself (STO-11, STO-12).

The limit on the size of files needs no special rights and no file system of its own. The front runs in this
process, so its workers inherit the limit from here.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from harness.acknowledged import COLLECTION, partition_of
from harness.load import prepare
from harness.trials import Node, running_node, settings_for, until_serving
from keyload.client import AsyncClient, KeyLoadError
from keyload.contract.documents import PutDocument
from keyload.contract.errors import ErrorCode
from keyload.contract.shared import EntityRef
from keyload.node.profile import create

LIMIT_BYTES = 4 << 20
DOCUMENT_BYTES = 100_000
MOST_DOCUMENTS = 200
WAIT_SECONDS = 60.0
PARTITION = partition_of("full")
UNFINISHED = {ErrorCode.UNKNOWN_WRITE_OUTCOME, ErrorCode.RECOVERY_REQUIRED, ErrorCode.OWNERSHIP_LOST}


@contextmanager
def small_files() -> Iterator[None]:
    """Files of processes started meanwhile cannot grow beyond the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def text_of(number: int) -> str:
    return f'{{"number": {number}, "filler": "{"x" * DOCUMENT_BYTES}"}}'


async def fill(node: Node) -> tuple[set[int], int]:
    """Put documents until a worker has ended; which were acknowledged, and which one was not."""
    acknowledged: set[int] = set()
    async with AsyncClient(node.url, node.key) as client:
        for number in range(MOST_DOCUMENTS):
            put = PutDocument(collection=COLLECTION, id=f"d{number}", json=text_of(number))
            try:
                await client.documents_commit(PARTITION, [put], retries=0)
            except KeyLoadError as error:
                if error.code not in UNFINISHED:
                    raise
                return acknowledged, number
            acknowledged.add(number)
    raise AssertionError("the limit was never reached")


async def present(node: Node, number: int) -> bool:
    """Whether a document is there, whole."""
    async with AsyncClient(node.url, node.key) as client:
        reference = EntityRef(partition=PARTITION, collection=COLLECTION, id=f"d{number}")
        found = await client.documents_get(reference)
    assert found is None or found.json == text_of(number)
    return found is not None


async def fill_and_recover(directory: Path) -> None:
    settings = settings_for(directory, create([(1, 2)]))
    async with running_node(settings, None) as node:
        await until_serving(node)
        await prepare([node.url], node.key)
    with ExitStack() as limit:
        limit.enter_context(small_files())
        async with running_node(settings, None) as node:
            await until_serving(node)
            acknowledged, doubtful = await fill(node)
            assert len(acknowledged) > 5
            async with asyncio.timeout(WAIT_SECONDS):
                await node.ended.wait()
            limit.close()
            await until_serving(node)
            for number in acknowledged:
                assert await present(node, number), "acknowledged, so it is there"
            await present(node, doubtful)
            async with AsyncClient(node.url, node.key) as client:
                put = PutDocument(collection=COLLECTION, id="last", json="{}")
                await client.documents_commit(PARTITION, [put])
            assert set(node.ends) == {3}


@pytest.mark.covers("STO-11", "STO-12", "STO-19", "CLU-9")
def test_files_that_cannot_grow_stop_the_worker_until_they_can(tmp_path: Path) -> None:
    asyncio.run(fill_and_recover(tmp_path))
