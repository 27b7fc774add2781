"""Three nodes without HTTP: commands go in at the workers' sockets, as a front sends them (bench, case b)."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from keyload.contract.errors import KeyLoadError, Problem
from keyload.front.workers import WorkerHub
from keyload.link.messages import PartitionKey, Refusal, Reply
from keyload.node.configuration import settings_of
from keyload.node.launching import identity
from keyload.node.local import shared_settings
from keyload.node.ports import free_ports
from keyload.node.profile import NodeProfile, create
from keyload.node.settings import NodeSettings
from keyload.node.supervisor import Supervisor
from keyload.storage.directory import NodeDirectory
from keyload.worker.usage import ShardUsage, WorkerUsage

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


def make_put(number: int, partitions: int, shards: int, text_bytes: int = TEXT_BYTES) -> Put:
    """The put of a new document in one of several partitions."""
    partition = partition_of(f"bench-{number % partitions}")
    text = f'{{"number":{number},"filler":"{"x" * (text_bytes - 30)}"}}'
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
    """Submit a put and wait for its receipt; KeyLoadError when it is refused or none comes in time."""
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
    if isinstance(answer, Refusal):
        raise KeyLoadError.from_problem(msgspec.msgpack.decode(answer.payload, type=Problem))
    assert isinstance(answer, Reply), answer


class InjectedNode:
    """One node without HTTP: its workers, and the hub that reaches them. It can be stopped and erased."""

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self._directory: NodeDirectory | None = None
        self._supervisor: Supervisor | None = None
        self._hub: WorkerHub | None = None

    @property
    def hub(self) -> WorkerHub:
        """Where the workers of the running node are reached."""
        assert self._hub is not None
        return self._hub

    @property
    def settings(self) -> NodeSettings:
        """What the node was started with."""
        return self._settings

    @property
    def worker_directory(self) -> Path:
        """Where the first worker keeps its files."""
        return Path(self._settings.data_directory) / "worker-0"

    @property
    def worker_process(self) -> int:
        """Process id of the first worker."""
        assert self._supervisor is not None
        return self._supervisor.process_ids[0]

    def start(self) -> None:
        """Start the workers."""
        settings = self._settings
        self._directory = NodeDirectory(Path(settings.data_directory))
        self._directory.establish(identity(settings), segment_bytes=settings.storage.segment_bytes)
        self._hub = WorkerHub(settings.workers, call_ms=settings.timings.call_ms)
        self._supervisor = Supervisor(
            settings,
            self._hub,
            _ignore,
            descriptors=(self._directory.lock_descriptor,),
            environment=os.environ,
        )
        self._supervisor.start()

    async def stop(self) -> None:
        """Stop the workers in order; nothing when they do not run."""
        if self._supervisor is not None and self._hub is not None and self._directory is not None:
            await self._supervisor.stop()
            self._hub.close()
            self._directory.close()
        self._supervisor = self._hub = self._directory = None

    def erase(self) -> None:
        """Remove all data of the stopped node."""
        assert self._supervisor is None
        shutil.rmtree(self._settings.data_directory)

    async def until_known(self) -> None:
        """Wait until the node knows the administrator."""
        while self.hub.catalog.principal(ADMINISTRATOR) is None:
            try:
                await self.hub.confirm()
            except KeyLoadError:
                await asyncio.sleep(0.05)

    async def replicas(self) -> dict[int, ShardUsage]:
        """The replicas of the first worker; empty when it does not answer."""
        try:
            answer = await self.hub.usage(0)
        except KeyLoadError:
            return {}
        assert isinstance(answer, Reply)
        worker = msgspec.json.decode(answer.payload, type=WorkerUsage)
        return {replica.shard: replica for replica in worker.shards}


@asynccontextmanager
async def three_nodes(directory: Path, shards: int | None = None) -> AsyncIterator[list[InjectedNode]]:
    """Three nodes with one worker process each, ready, with the collection made."""
    profile = create(free_ports(3, 1))
    shared = shared_settings(profile, 1, shards)
    nodes = [InjectedNode(settings_of(_own(directory, node) | shared)) for node in profile.nodes]
    try:
        for node in nodes:
            node.start()
        async with asyncio.timeout(READY_SECONDS):
            for node in nodes:
                await node.until_known()
            await _make_collection(nodes[0].hub)
            for node in nodes:
                await node.hub.confirm()  # from now on it knows the collection
        yield nodes
    finally:
        for node in nodes:
            await node.stop()


def _own(directory: Path, node: NodeProfile) -> dict[str, Any]:
    return {
        "nodeId": node.id,
        "publicEndpoint": node.url,
        "dataDirectory": str(directory / node.id),
        "peerSecretKey": node.secret_key,
    }


def _ignore(category: str, **members: Any) -> None:
    """The measurement keeps no log of its own."""


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
