"""The commands and reads clients send, and the catalog they need."""

from __future__ import annotations

import hashlib
from random import Random

import msgspec

from harness.simulator.nodes.documents import UNIQUE, Mutation
from harness.simulator.nodes.options import Options
from keyload.contract.catalog import IndexDefinition, ResourceDefinition, ResourceKind
from keyload.contract.commands import CommandRequest
from keyload.contract.documents import (
    DeleteDocument,
    FieldPatch,
    GetDocumentRequest,
    PatchDocument,
    PatchKind,
    PutDocument,
)
from keyload.contract.security import PrincipalRecord, ScopeGrant
from keyload.contract.shared import EntityRef, PartitionRef
from keyload.contract.tables import PRINCIPALS, RESOURCES
from keyload.link.catalog import Catalog
from keyload.link.messages import CatalogDelta, Command, PartitionKey, Read
from keyload.models.receipts import guid_text

INCARNATION = "0f8fad5b-d9cb-469f-a165-70867728950e"
SHARD = 1
COLLECTION = "orders"
PRINCIPAL = "ann"


def catalog() -> Catalog:
    """One principal, one collection with a unique and a plain index."""
    indexes = (
        IndexDefinition(name="mail", fields=(f"/{UNIQUE}",), unique=True),
        IndexDefinition(name="number", fields=("/n",), unique=False),
    )
    collection = ResourceDefinition(
        name=COLLECTION, kind=ResourceKind.COLLECTION, transaction_domain_id="sales", indexes=indexes
    )
    grants = (ScopeGrant(database="*", resource="*", capabilities="All"),)
    principal = PrincipalRecord(id=PRINCIPAL, tenant_id="acme", grants=grants, field_grants=())
    made = Catalog()
    rows = [
        (RESOURCES, ("acme", "shop", COLLECTION), msgspec.msgpack.encode(collection)),
        (PRINCIPALS, (PRINCIPAL,), msgspec.msgpack.encode(principal)),
    ]
    made.apply(CatalogDelta(version=1, whole=True, rows=rows))
    return made


class Order:
    """A command of a client, through all its repeats."""

    __slots__ = ("answer", "command", "definite", "floor", "identity", "mutations", "refuted", "sends")

    def __init__(self, number: int, partition: PartitionKey, mutations: tuple[Mutation, ...]) -> None:
        self.identity = number.to_bytes(16, "big")
        self.mutations = mutations
        self.sends = 0
        self.floor = 0
        """What clients knew when it was sent first."""
        self.definite = False
        self.refuted = False
        """Whether its only call was told that nothing was submitted, and it is never sent again."""
        self.answer: tuple[bool, bytes] | None = None
        request = CommandRequest(
            command_id=guid_text(self.identity),
            partition=_reference(partition),
            mutations=mutations,
        )
        payload = msgspec.msgpack.encode(request)
        self.command = Command(
            call=0,
            shard=SHARD,
            operation="keyload_documents_commit",
            principal=PRINCIPAL,
            catalog_version=1,
            command_id=self.identity,
            fingerprint=hashlib.sha256(payload).digest(),
            partition=partition,
            payload=payload,
        )


class Menu:
    """Draws what clients ask for."""

    def __init__(self, options: Options, rng: Random) -> None:
        self._options = options
        self._rng = rng
        self._orders = 0
        self.partitions: list[PartitionKey] = [
            ("acme", "shop", "sales", f"p{number}") for number in range(options.partitions)
        ]
        self.revisions: dict[tuple[PartitionKey, str], int] = {}
        """What clients last heard of each document."""

    def order(self) -> Order:
        """A new command."""
        self._orders += 1
        partition = self._rng.choice(self.partitions)
        count = 2 if self._rng.random() < 0.2 else 1
        mutations = tuple(self._mutation(partition) for _ in range(count))
        return Order(self._orders, partition, mutations)

    def _mutation(self, partition: PartitionKey) -> Mutation:
        rng = self._rng
        name = f"d{rng.randrange(self._options.documents)}"
        known = self.revisions.get((partition, name), 0)
        drawn = rng.random()
        if drawn < 0.15:
            name = f"u{self._orders}"
            mail = f"m{rng.randrange(self._options.mails)}"
            return PutDocument(
                collection=COLLECTION, id=name, json=f'{{"n":{self._orders},"{UNIQUE}":"{mail}"}}'
            )
        if drawn < 0.5:
            expected = rng.choice((None, None, known, known, known + 1))
            return PutDocument(
                collection=COLLECTION, id=name, json=f'{{"n":{self._orders}}}', expected_revision=expected
            )
        if drawn < 0.8:
            path, value = ("/n", str(self._orders))
            if rng.random() < 0.2:
                path, value = (f"/{UNIQUE}", f'"m{rng.randrange(self._options.mails)}"')
            step = FieldPatch(path=path, kind=PatchKind.SET, value_json=value)
            return PatchDocument(
                collection=COLLECTION, id=name, patches=(step,), expected_revision=max(1, known)
            )
        if rng.random() < 0.5 and self._orders > 1:
            name = f"u{rng.randrange(1, self._orders)}"
        expected = rng.choice((None, None, max(1, known)))
        return DeleteDocument(collection=COLLECTION, id=name, expected_revision=expected)

    def read(self) -> tuple[Read, PartitionKey, str]:
        """A new read of one document, with its partition and id."""
        partition = self._rng.choice(self.partitions)
        name = f"d{self._rng.randrange(self._options.documents)}"
        if self._rng.random() < 0.2 and self._orders:
            name = f"u{self._rng.randint(1, self._orders)}"
        return read_of(partition, name), partition, name


def read_of(partition: PartitionKey, name: str) -> Read:
    """keyload_documents_get of one document."""
    reference = EntityRef(partition=_reference(partition), collection=COLLECTION, id=name)
    return Read(
        call=0,
        shard=SHARD,
        operation="keyload_documents_get",
        principal=PRINCIPAL,
        catalog_version=1,
        partition=partition,
        payload=msgspec.msgpack.encode(GetDocumentRequest(reference=reference)),
    )


def _reference(partition: PartitionKey) -> PartitionRef:
    tenant, database, domain, key = partition
    return PartitionRef(
        tenant_id=tenant, database_id=database, transaction_domain_id=domain, partition_key=key
    )
