"""Three nodes without HTTP: commands go in at the workers' sockets, as a front sends them (bench, case b)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from harness.acknowledged import COLLECTION, DATABASE, DOMAIN, TENANT, partition_of
from keyload.codec.fingerprint import fingerprint
from keyload.codec.identity import atomic_partition_id, data_shard, partition_key
from keyload.contract.catalog import ConfigureResourceRequest, ResourceDefinition, ResourceKind
from keyload.contract.commands import CommandRequest
from keyload.contract.documents import PutDocument
from keyload.contract.errors import KeyLoadError
from keyload.front.workers import WorkerHub
from keyload.link.messages import PartitionKey, Reply
from keyload.node.configuration import settings_of
from keyload.node.launching import identity
from keyload.node.local import shared_settings
from keyload.node.ports import free_ports
from keyload.node.profile import NodeProfile, create
from keyload.node.settings import NodeSettings
from keyload.node.supervisor import Supervisor
from keyload.storage.directory import NodeDirectory

ADMINISTRATOR = "root"
READY_SECONDS = 30.0
TEXT_BYTES = 200


class Put(msgspec.Struct, frozen=True):
    """One single-document put of about 200 bytes, ready to be sent."""

    shard: int
    command_id: bytes
    fingerprint: bytes
    partition: PartitionKey
    payload: bytes


def make_put(number: int, partitions: int, shards: int) -> Put:
    """The put of a new document in one of several partitions."""
    partition = partition_of(f"bench-{number % partitions}")
    text = f'{{"number":{number},"filler":"{"x" * (TEXT_BYTES - 30)}"}}'
    command = uuid4()
    request = CommandRequest(
        command_id=str(command),
        partition=partition,
        mutations=(PutDocument(collection=COLLECTION, id=f"d{number}", json=text),),
    )
    key = partition_key(partition)
    return Put(
        data_shard(atomic_partition_id(*key), shards),
        command.bytes,
        fingerprint("keyload_documents_commit", key, request),
        key,
        msgspec.msgpack.encode(request),
    )


async def send_put(hub: WorkerHub, put: Put) -> None:
    """Submit a put and wait for its receipt."""
    answer = await hub.command(
        shard=put.shard,
        operation="keyload_documents_commit",
        principal=ADMINISTRATOR,
        catalog_version=hub.catalog.version,
        command_id=put.command_id,
        fingerprint=put.fingerprint,
        partition=put.partition,
        payload=put.payload,
        control=False,
    )
    assert isinstance(answer, Reply), answer


@asynccontextmanager
async def three_nodes(directory: Path) -> AsyncIterator[list[WorkerHub]]:
    """The hubs of three nodes with their workers as processes, ready, with the collection made."""
    profile = create(free_ports(3, 1))
    shared = shared_settings(profile, 1, None)
    async with AsyncExitStack() as stack:
        hubs: list[WorkerHub] = []
        for node in profile.nodes:
            settings = settings_of(_own(directory, node) | shared)
            hubs.append(await stack.enter_async_context(_node(settings)))
        async with asyncio.timeout(READY_SECONDS):
            for hub in hubs:
                await _until_known(hub)
            await _make_collection(hubs[0])
            version = hubs[0].catalog.version
            while any(hub.catalog.version < version for hub in hubs):
                await asyncio.sleep(0.01)
        yield hubs


def _own(directory: Path, node: NodeProfile) -> dict[str, Any]:
    return {
        "nodeId": node.id,
        "publicEndpoint": node.url,
        "dataDirectory": str(directory / node.id),
        "peerSecretKey": node.secret_key,
    }


@asynccontextmanager
async def _node(settings: NodeSettings) -> AsyncIterator[WorkerHub]:
    with NodeDirectory(Path(settings.data_directory)) as data:
        data.establish(identity(settings), segment_bytes=settings.storage.segment_bytes)
        hub = WorkerHub(settings.workers, call_ms=settings.timings.call_ms)
        supervisor = Supervisor(
            settings, hub, _ignore, descriptors=(data.lock_descriptor,), environment=os.environ
        )
        supervisor.start()
        try:
            yield hub
        finally:
            await supervisor.stop()
            hub.close()


def _ignore(category: str, **members: Any) -> None:
    """The measurement keeps no log of its own."""


async def _until_known(hub: WorkerHub) -> None:
    while hub.catalog.principal(ADMINISTRATOR) is None:
        try:
            await hub.confirm()
        except KeyLoadError:
            await asyncio.sleep(0.05)


async def _make_collection(hub: WorkerHub) -> None:
    definition = ResourceDefinition(
        name=COLLECTION, kind=ResourceKind.COLLECTION, transaction_domain_id=DOMAIN
    )
    request = ConfigureResourceRequest(tenant_id=TENANT, database_id=DATABASE, definition=definition)
    operation = "keyload_resources_configure"
    answer = await hub.command(
        shard=0,
        operation=operation,
        principal=ADMINISTRATOR,
        catalog_version=hub.catalog.version,
        command_id=uuid4().bytes,
        fingerprint=fingerprint(operation, None, request),
        partition=None,
        payload=msgspec.msgpack.encode(request),
        control=False,
    )
    assert isinstance(answer, Reply), answer
