"""A shard in a temporary directory: real store, real executor, no log."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from keyload.contract import tables as feed
from keyload.contract.catalog import ResourceDefinition, ResourceKind
from keyload.contract.commands import CommandRequest
from keyload.contract.documents import GetDocumentRequest
from keyload.contract.errors import KeyLoadError, Problem
from keyload.contract.operations import OPERATIONS
from keyload.contract.security import PrincipalRecord, ScopeGrant
from keyload.contract.shared import EntityRef, PartitionRef
from keyload.link.catalog import Catalog
from keyload.link.messages import CatalogDelta, Command, Read
from keyload.models.receipts import guid_bytes, guid_text
from keyload.storage.keys import stored_form
from keyload.storage.store import Store
from keyload.worker.batch import Answer, Batch, Pending
from keyload.worker.executor import Executor
from keyload.worker.reads import ReadAnswerer

INCARNATION = "0f8fad5b-d9cb-469f-a165-70867728950e"
DATA_SHARDS = 3
PARTITION = ("acme", "shop", "sales", "eu")
SECOND = 10_000_000
START = 20_000 * 86_400 * SECOND
ROOT = PrincipalRecord(id="root", tenant_id="system", grants=(), field_grants=(), cluster_administrator=True)


def command_id(number: int) -> str:
    """A guid text that is the same in every run."""
    return guid_text((number + 1).to_bytes(16, "big"))


def partition_ref(partition: tuple[str, str, str, str] = PARTITION) -> PartitionRef:
    """The partition as requests carry it."""
    tenant, database, domain, key = partition
    return PartitionRef(
        tenant_id=tenant, database_id=database, transaction_domain_id=domain, partition_key=key
    )


def principal(
    identity: str = "ann", capabilities: str = "All", *, database: str = "*", resource: str = "*", **more: Any
) -> PrincipalRecord:
    """A principal of tenant acme with one grant."""
    grants = (ScopeGrant(database=database, resource=resource, capabilities=capabilities),)
    values: dict[str, Any] = {"tenant_id": "acme", "grants": grants, "field_grants": ()} | more
    return PrincipalRecord(id=identity, **values)


def collection(name: str = "orders", **more: Any) -> ResourceDefinition:
    """A collection of domain sales."""
    values: dict[str, Any] = {"kind": ResourceKind.COLLECTION, "transaction_domain_id": "sales"} | more
    return ResourceDefinition(name=name, **values)


class Shard:
    """One shard whose batches are applied at once; its clock moves only when told."""

    def __init__(
        self,
        directory: Path,
        *,
        shard: int = 1,
        resources: Iterable[ResourceDefinition] = (),
        principals: Iterable[PrincipalRecord] = (),
        **options: Any,
    ) -> None:
        self.number = shard
        self.store = Store(directory, 1 << 30)
        self.catalog = Catalog()
        self.now = START
        self.index = 0
        self.last: Batch | None = None
        self._options = options
        self._commands = 0
        self.executor = self.new_executor()
        self.answerer = ReadAnswerer(shard=shard, incarnation=INCARNATION, data_shards=DATA_SHARDS)
        self.feed(resources=resources, principals=principals)

    def new_executor(self, **changed: Any) -> Executor:
        """An executor as after a restart."""
        options = (
            {
                "shard": self.number,
                "incarnation": INCARNATION,
                "durability": "LocalDurable",
                "data_shards": DATA_SHARDS,
            }
            | self._options
            | changed
        )
        self.executor = Executor(**options)
        return self.executor

    def feed(
        self,
        resources: Iterable[ResourceDefinition] = (),
        principals: Iterable[PrincipalRecord] = (),
        database: str = "shop",
    ) -> None:
        """Put rows into the fed catalog."""
        rows: list[Any] = [
            (feed.RESOURCES, ("acme", database, row.name), msgspec.msgpack.encode(row)) for row in resources
        ]
        rows += [(feed.PRINCIPALS, (row.id,), msgspec.msgpack.encode(row)) for row in principals]
        self.catalog.apply(CatalogDelta(version=self.catalog.version + 1, whole=False, rows=rows))

    def command(
        self,
        operation: str,
        request: Any,
        *,
        by: str = "ann",
        identity: str | None = None,
        partition: tuple[str, str, str, str] | None = None,
    ) -> Command:
        """A command as the front sends it."""
        if identity is None:
            self._commands += 1
            identity = command_id(self._commands)
        payload = msgspec.msgpack.encode(request)
        content = repr((operation, partition, _without_id(request))).encode()
        return Command(
            call=1,
            shard=self.number,
            operation=operation,
            principal=by,
            catalog_version=self.catalog.version,
            command_id=guid_bytes(identity),
            fingerprint=hashlib.sha256(content).digest(),
            partition=partition,
            payload=payload,
        )

    def commit_command(
        self,
        mutations: Sequence[Any],
        *,
        by: str = "ann",
        identity: str | None = None,
        partition: tuple[str, str, str, str] = PARTITION,
        epoch: int = 1,
    ) -> Command:
        """A keyload_documents_commit."""
        if identity is None:
            self._commands += 1
            identity = command_id(self._commands)
        request = CommandRequest(
            command_id=identity,
            partition=partition_ref(partition),
            mutations=tuple(mutations),
            ownership_epoch=epoch,
        )
        return self.command(
            "keyload_documents_commit", request, by=by, identity=identity, partition=partition
        )

    def run(self, *items: Command | Pending) -> list[Answer | None]:
        """Execute commands as one batch and apply what it writes."""
        pending = [item if isinstance(item, Pending) else Pending(item) for item in items]
        with self.store.reader() as reader:
            batch = self.executor.execute(reader, pending, self.catalog, self.now)
        self.last = batch
        self.apply(batch.writes)
        return batch.answers

    def apply(self, writes: Mapping[bytes, bytes | None]) -> None:
        """Apply writes as the next log entry."""
        self.index += 1
        self.store.apply(self.index, 1, [stored_form(writes)])

    def commit(self, *mutations: Any, **options: Any) -> Any:
        """Execute one commit alone; its receipt, or the refusal raised."""
        return result_of(self.run(self.commit_command(mutations, **options))[0], "keyload_documents_commit")

    def call(self, operation: str, request: Any, **options: Any) -> Any:
        """Execute one command of another operation alone; its result, or the refusal raised."""
        return result_of(self.run(self.command(operation, request, **options))[0], operation)

    def read(
        self, operation: str, request: Any, *, by: str = "ann", partition: Any = None, **options: Any
    ) -> Any:
        """Answer one read; its result, or the refusal raised."""
        read = Read(
            call=1,
            shard=self.number,
            operation=operation,
            principal=by,
            catalog_version=self.catalog.version,
            partition=partition,
            payload=msgspec.msgpack.encode(request),
        )
        with self.store.reader() as reader:
            answer = self.answerer.answer(read, reader, self.catalog, now=self.now, **options)
        return result_of(answer, operation)

    def get(
        self, document_id: str, *, name: str = "orders", by: str = "ann", partition: Any = PARTITION
    ) -> Any:
        """keyload_documents_get."""
        reference = EntityRef(partition=partition_ref(partition), collection=name, id=document_id)
        return self.read(
            "keyload_documents_get", GetDocumentRequest(reference=reference), by=by, partition=partition
        )

    def content(self) -> dict[bytes, bytes]:
        """Everything in the store."""
        with self.store.reader() as reader:
            return dict(reader.scan(b"", b"\xff" * 9))

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def _without_id(request: Any) -> Any:
    if isinstance(request, CommandRequest):
        return (request.mutations, request.ownership_epoch)
    return request


def result_of(answer: Answer | None, operation: str) -> Any:
    """The result of an answer, or its refusal raised."""
    assert answer is not None
    if answer.refused:
        raise KeyLoadError.from_problem(msgspec.msgpack.decode(answer.payload, type=Problem))
    declared = OPERATIONS[operation]
    kind = declared.result | None if declared.result_nullable else declared.result
    return msgspec.json.decode(answer.payload, type=kind)


def code_of(answer: Answer | None) -> str:
    """The error code of a refusal, `ok` for a success, `waits` when there is no answer yet."""
    if answer is None:
        return "waits"
    return msgspec.msgpack.decode(answer.payload, type=Problem).error_code if answer.refused else "ok"
