"""What handlers get and what they are: pure functions over a transaction, without I/O, clock or randomness.

A handler refuses by raising `KeyLoadError`. It never reads another shard: it raises `NeedsEvidence`, the
worker makes that read, and the command runs again with the answer at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import msgspec

from keyload.codec.identity import PartitionKey
from keyload.contract.catalog import ResourceDefinition
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.security import ApiKeyRecord, PrincipalRecord
from keyload.contract.shared import DurabilityProfile
from keyload.models.budget import Budget
from keyload.models.security.rights import Rights
from keyload.storage.txn import Reader, Txn

Receipt = tuple[str, str, str, int]
"""kind, resource, id, revision of an effect (CMD-13)."""

MAX_EVIDENCE = 256

MAX_DERIVED_BYTES = 16 << 20
"""What one command may write beside its own content: former and patched images of documents, index keys. A
small request can ask for a lot of them (CMD-8).
"""


class CatalogView(Protocol):
    """The rows of the system shard as the caller's version has them."""

    @property
    def dispatch_paused(self) -> bool: ...
    def resource(self, tenant_id: str, database_id: str, name: str) -> ResourceDefinition | None: ...
    def resources(self, tenant_id: str, database_id: str) -> Iterator[ResourceDefinition]: ...
    def principal(self, principal_id: str) -> PrincipalRecord | None: ...
    def key(self, key_id: str) -> ApiKeyRecord | None: ...


class Evidence(msgspec.Struct, frozen=True):
    """Answer of a read in another shard: what was asked, and the result or Problem as the read gave it."""

    read: str
    partition: PartitionKey | None
    payload: bytes
    refused: bool
    answer: bytes


class NeedsEvidence(Exception):
    """The command cannot go on before the named read of another partition has been made (DECISIONS 1)."""

    def __init__(self, read: str, partition: PartitionKey | None, payload: bytes) -> None:
        super().__init__(read)
        self.read = read
        self.partition = partition
        self.payload = payload


class Unsettled(Exception):
    """The command has no answer yet and is to be sent again under the same identity. What it has written
    stays written, and no outcome is stored; `failure` is what to tell when its time is over.
    """

    def __init__(self, failure: KeyLoadError) -> None:
        super().__init__(str(failure))
        self.failure = failure


class Effect(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One accepted primitive effect of a command, for the outbox (CHG-14).

    `before` is the stored image before it, `after` the one after it where `mutation` does not tell it.
    """

    mutation: Any
    receipt: Receipt
    before: bytes | None
    after: bytes | None


class CommandContext:
    """Everything a command handler may know; one per executed command.

    `instant` is the logged instant in ticks (CON-72), `position` the commit position, `command_id` 16 bytes,
    `fingerprint` that of the command (CMD-17), `data_shards` the number of data shards of the cluster,
    `from_events` tells that document effects come from a projection or subscription (DOC-14). Effects and the
    event sequence count only when the command succeeds. `mutations` holds the handlers by record type;
    `receipts` are those of the command's `CommitReceipt`, if it answers one.
    """

    __slots__ = (
        "atomic_partition_id",
        "catalog",
        "command_id",
        "data_shards",
        "derived_bytes",
        "durability",
        "effects",
        "event_sequence",
        "evidence",
        "fingerprint",
        "from_events",
        "incarnation",
        "instant",
        "mutations",
        "ownership_epoch",
        "partition",
        "partition_number",
        "position",
        "principal",
        "receipts",
        "request_bytes",
        "rights",
        "txn",
    )

    def __init__(
        self,
        *,
        txn: Txn,
        rights: Rights,
        catalog: CatalogView,
        mutations: Mapping[type, MutationHandler],
        partition: PartitionKey | None,
        atomic_partition_id: str,
        partition_number: int,
        ownership_epoch: int,
        event_sequence: int,
        command_id: bytes,
        fingerprint: bytes,
        request_bytes: int,
        instant: int,
        position: int,
        incarnation: str,
        durability: DurabilityProfile,
        data_shards: int,
        evidence: tuple[Evidence, ...] = (),
    ) -> None:
        self.txn = txn
        self.rights = rights
        self.principal = rights.record
        self.catalog = catalog
        self.mutations = mutations
        self.partition = partition
        self.atomic_partition_id = atomic_partition_id
        self.partition_number = partition_number
        self.ownership_epoch = ownership_epoch
        self.event_sequence = event_sequence
        self.command_id = command_id
        self.fingerprint = fingerprint
        self.request_bytes = request_bytes
        self.instant = instant
        self.position = position
        self.incarnation = incarnation
        self.durability = durability
        self.data_shards = data_shards
        self.evidence = evidence
        self.effects: list[Effect] = []
        self.receipts: Sequence[Receipt] | None = None
        self.from_events = False
        self.derived_bytes = 0

    def effect(
        self,
        mutation: Any,
        receipt: Receipt,
        before: bytes | None = None,
        after: bytes | None = None,
    ) -> None:
        """Record an accepted effect; its receipt is (kind, resource, id, revision) as in CMD-13."""
        self.effects.append(Effect(mutation, receipt, before, after))
        if before is not None or after is not None:
            self.derive(len(before or b"") + len(after or b""))

    def derive(self, size: int) -> None:
        """Count bytes the command writes beside its own content; `ResourceExhausted` past
        MAX_DERIVED_BYTES."""
        self.derived_bytes += size
        if self.derived_bytes > MAX_DERIVED_BYTES:
            refuse(ErrorCode.RESOURCE_EXHAUSTED, "The command changes more than one command may.")

    def next_event_sequence(self) -> int:
        """The next number of the partition's one event counter (CON-111)."""
        self.event_sequence += 1
        return self.event_sequence

    def evidence_of(self, read: str, partition: PartitionKey | None, payload: bytes) -> Evidence:
        """The answer of a read in another partition; raises `NeedsEvidence` while it has not been made."""
        for item in self.evidence:
            if item.read == read and item.partition == partition and item.payload == payload:
                return item
        if len(self.evidence) >= MAX_EVIDENCE:
            raise KeyLoadError(ErrorCode.BUDGET_EXCEEDED, "The command reads too many other partitions.")
        raise NeedsEvidence(read, partition, payload)


class NodeFacts(msgspec.Struct, frozen=True):
    """What a worker knows of its node for `keyload_admin_status`; the front fills in what only it knows."""

    node_id: str
    leader: str | None
    voters: tuple[str, ...]
    durability: str
    applied: int
    read_generation: int


class ReadContext:
    """Everything a read handler may know: one committed cut and the caller's rights at `now` (ticks)."""

    __slots__ = (
        "budget",
        "catalog",
        "cut",
        "data_shards",
        "incarnation",
        "node",
        "now",
        "partition",
        "partition_number",
        "principal",
        "reader",
        "rights",
    )

    def __init__(
        self,
        *,
        reader: Reader,
        rights: Rights,
        catalog: CatalogView,
        partition: PartitionKey | None,
        partition_number: int | None,
        cut: int,
        now: int,
        incarnation: str,
        data_shards: int,
        budget: Budget,
        node: NodeFacts | None = None,
    ) -> None:
        self.reader = reader
        self.rights = rights
        self.principal = rights.record
        self.catalog = catalog
        self.partition = partition
        self.partition_number = partition_number
        self.cut = cut
        self.now = now
        self.incarnation = incarnation
        self.data_shards = data_shards
        self.budget = budget
        self.node = node


class CommandHandler(msgspec.Struct, frozen=True):
    """`authorize` checks present rights before anything else is looked at, also for a replay (CMD-22);
    `execute` does the work and returns the result record."""

    authorize: Callable[[CommandContext, Any], None]
    execute: Callable[[CommandContext, Any], Any]


class MutationHandler(msgspec.Struct, frozen=True):
    """As `CommandHandler` for one mutation of a batch; `apply` returns the receipts of the mutation and of
    what it derived, each (kind, resource, id, revision)."""

    authorize: Callable[[CommandContext, Any], None]
    apply: Callable[[CommandContext, Any], tuple[Receipt, ...]]


class ReadHandler(msgspec.Struct, frozen=True):
    """As `CommandHandler` for a read; `execute` returns the result record, None where the contract allows
    null."""

    authorize: Callable[[ReadContext, Any], None]
    execute: Callable[[ReadContext, Any], Any]


def refuse(code: ErrorCode, detail: str, path: str | None = None, expected: str | None = None) -> NoReturn:
    """Refuse the call with one code and one safe sentence."""
    raise KeyLoadError(code, detail, path=path, expected=expected)
