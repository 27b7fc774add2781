"""Nodes without HTTP whose workers note what they sync, and the door to them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import msgspec

from harness.acknowledged import COLLECTION, DATABASE, DOMAIN, TENANT
from harness.doors import UNCERTAIN, Opener, Tree, Way
from harness.power.images import Disk
from harness.power.worker import COMMAND, VARIABLE, Setup
from keyload.codec.fingerprint import fingerprint
from keyload.codec.identity import atomic_partition_id, data_shard, partition_key
from keyload.contract.catalog import (
    ConfigureResourceRequest,
    IndexDefinition,
    ResourceDefinition,
    ResourceKind,
)
from keyload.contract.commands import CommandRequest
from keyload.contract.errors import KeyLoadError, Problem
from keyload.contract.mutations import Mutation
from keyload.contract.operations import OPERATIONS
from keyload.contract.shared import EntityRef, PartitionRef
from keyload.front.workers import WorkerHub
from keyload.link.log import Category
from keyload.link.messages import Reply
from keyload.node.configuration import settings_of
from keyload.node.launching import identity
from keyload.node.local import shared_settings
from keyload.node.profile import LocalProfile
from keyload.node.settings import NodeSettings, Storage
from keyload.node.supervisor import Supervisor
from keyload.storage.directory import NodeDirectory

ADMINISTRATOR = "root"
SHARDS = 1
WORKER = "worker-0"
READY_SECONDS = 30.0
ATTEMPT_SECONDS = 5.0
TIMINGS = {"tickMs": 20, "heartbeatMs": 60, "electionMsMin": 400, "electionMsMax": 800, "callMs": 1000}
STORAGE = Storage(checkpoint_ms=40, segment_bytes=128 << 10, retained_log_bytes=64 << 10)
"""Less than settings may say, so that a second of writing has many checkpoints and segments, and a node that
was away for a second needs a snapshot."""


class HubDoor:
    """The door at the workers' sockets: commands and reads as a front sends them."""

    def __init__(self, hub: WorkerHub) -> None:
        self._hub = hub

    async def commit(self, command_id: str, partition: PartitionRef, mutations: list[Mutation]) -> Tree:
        """The receipt as a tree."""
        request = CommandRequest(command_id=command_id, partition=partition, mutations=tuple(mutations))
        return await self.submit("keyload_documents_commit", UUID(command_id), request, partition)

    async def submit(
        self, operation: str, command_id: UUID, request: Any, partition: PartitionRef | None
    ) -> Tree:
        """The result of any command."""
        key = None if partition is None else partition_key(partition)
        answer = await self._hub.command(
            shard=0 if key is None else data_shard(atomic_partition_id(*key), SHARDS),
            operation=operation,
            principal=ADMINISTRATOR,
            catalog_version=self._hub.catalog.version,
            command_id=command_id.bytes,
            fingerprint=fingerprint(operation, key, request),
            partition=key,
            payload=msgspec.msgpack.encode(request),
            control=False,
        )
        return _result(answer)

    async def get(self, reference: EntityRef) -> Tree | None:
        """The document as a tree, None when there is none."""
        key = partition_key(reference.partition)
        operation = OPERATIONS["keyload_documents_get"]
        request = msgspec.convert({"reference": msgspec.to_builtins(reference)}, operation.request)
        answer = await self._hub.read(
            shard=data_shard(atomic_partition_id(*key), SHARDS),
            operation=operation.name,
            principal=ADMINISTRATOR,
            catalog_version=self._hub.catalog.version,
            partition=key,
            payload=msgspec.msgpack.encode(request),
        )
        return _result(answer)


def _result(answer: Any) -> Any:
    if isinstance(answer, Reply):
        return msgspec.json.decode(answer.payload)
    raise KeyLoadError.from_problem(msgspec.msgpack.decode(answer.payload, type=Problem))


def hub_doors(hubs: Mapping[str, WorkerHub]) -> Opener:
    """Opens doors to hubs by the names they have here."""

    @asynccontextmanager
    async def opened(url: str, key: str, seconds: float) -> AsyncIterator[HubDoor]:
        yield HubDoor(hubs[url])

    return opened


def way_to(hubs: Mapping[str, WorkerHub]) -> Way:
    """A client of these hubs."""
    return Way(list(hubs), "", hub_doors(hubs), ATTEMPT_SECONDS)


async def make_collection(way: Way) -> None:
    """Create the collection that all ledgers write to."""
    definition = ResourceDefinition(
        name=COLLECTION,
        kind=ResourceKind.COLLECTION,
        transaction_domain_id=DOMAIN,
        indexes=(IndexDefinition(name="byNumber", fields=("/number",)),),
    )
    request = ConfigureResourceRequest(tenant_id=TENANT, database_id=DATABASE, definition=definition)
    identity = uuid4()
    await way.until_definite(
        lambda door: door.submit("keyload_resources_configure", identity, request, None),  # type: ignore[attr-defined]
        READY_SECONDS,
    )


async def until_known(hub: WorkerHub) -> None:
    """Wait until a hub knows its administrator by a confirmed catalog."""
    async with asyncio.timeout(READY_SECONDS):
        while True:
            try:
                await hub.confirm()
                if hub.catalog.principal(ADMINISTRATOR) is not None:
                    return
            except KeyLoadError as error:
                if error.code not in UNCERTAIN:
                    raise
            await asyncio.sleep(0.01)


def settings_for(directory: Path, profile: LocalProfile, node: int = 0) -> NodeSettings:
    """Settings of one node of a profile, its data in `directory`."""
    own = profile.nodes[node]
    place = {
        "nodeId": own.id,
        "publicEndpoint": own.url,
        "dataDirectory": str(directory),
        "timings": TIMINGS,
    }
    if len(profile.nodes) > 1:
        place["peerSecretKey"] = own.secret_key
    return msgspec.structs.replace(settings_of(place | shared_settings(profile, 1, SHARDS)), storage=STORAGE)


class PowerNode:
    """A running node. `ended` is set when its worker has ended."""

    def __init__(self, supervisor: Supervisor, hub: WorkerHub, ended: asyncio.Event) -> None:
        self.hub = hub
        self.ended = ended
        self._supervisor = supervisor

    def kill(self) -> None:
        """End the worker as a power loss does."""
        for process in self._supervisor.process_ids.values():
            with suppress(ProcessLookupError):  # it was, and its end was not heard of yet
                os.kill(process, signal.SIGKILL)


@asynccontextmanager
async def power_node(
    settings: NodeSettings, side: Path, *, kill_at: int | None = None, pins: bool = True
) -> AsyncIterator[PowerNode]:
    """A node whose front is here and whose worker notes what it syncs; leaving kills it."""
    ended = asyncio.Event()

    def notice(category: str, **members: Any) -> None:
        if category == Category.WORKER_ENDED:
            ended.set()

    directory = Path(settings.data_directory)
    setup = Setup(str(directory / WORKER), str(side), kill_at, pins)
    environment = os.environ | {VARIABLE: msgspec.json.encode(setup).decode()}
    with NodeDirectory(directory) as data:
        data.establish(identity(settings), segment_bytes=settings.storage.segment_bytes)
        hub = WorkerHub(settings.workers, call_ms=settings.timings.call_ms)
        supervisor = Supervisor(
            settings,
            hub,
            notice,
            descriptors=(data.lock_descriptor,),
            command=COMMAND,
            environment=environment,
        )
        node = PowerNode(supervisor, hub, ended)
        supervisor.start()
        try:
            yield node
        finally:
            node.kill()
            await supervisor.stop()
            hub.close()


def make_image(disk: Disk, node_directory: Path, target: Path, chance: Any) -> None:
    """The directory of a node with a torn image of its worker; the front's files were synced."""
    shutil.copytree(node_directory, target, ignore=lambda _, names: [WORKER] if WORKER in names else [])
    disk.image(target / WORKER, chance)
