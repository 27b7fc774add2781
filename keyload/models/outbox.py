"""The outbox of a partition: every accepted primitive effect in commit order (CHG-14..CHG-16).

An entry lies under its sequence; sequences have no gaps between the first retained one and the tail.
"""

from __future__ import annotations

from typing import Any

import msgspec

from keyload.contract.documents import DeleteDocument, PutDocument
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.limits import whole
from keyload.contract.mutations import Mutation
from keyload.models import tags
from keyload.models.context import CommandContext, Effect
from keyload.models.documents.keys import DOCUMENT, StoredDocument
from keyload.models.partitions.head import NO_PIN, PartitionHead
from keyload.models.partitions.keys import space
from keyload.models.records import Stored
from keyload.storage.txn import Txn

MAX_DROPPED = 10_000
"""Most entries that one command drops to make room (CHG-16)."""

_STEP_SHARE = 256
_STEP_MAX = 256


class OutboxEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One effect: commit (incarnation as 16 bytes), place in its command, mutation, receipt (kind,
    resource, id, revision) and the stored images of a document before and, where the mutation does not
    tell it, after."""

    incarnation: bytes
    ownership_epoch: int
    position: int
    instant: int
    ordinal: int
    mutation: Mutation
    receipt: tuple[str, str, str, int]
    before: bytes | None = None
    after: bytes | None = None


class OutboxLimits(msgspec.Struct, frozen=True):
    """How much a partition keeps, and whether the oldest entries make room when it is full (CHG-15,
    CHG-16)."""

    max_records: int = whole("outbox.maxRecords")
    max_bytes: int = whole("outbox.maxBytes")
    drop_unpinned: bool = True


ENTRY = Stored(OutboxEntry, "outbox entry")


def outbox_prefix(number: int) -> bytes:
    """What the keys of all entries of a partition begin with; the 8-byte big-endian sequence follows."""
    return space(number) + tags.OUTBOX


def outbox_key(number: int, sequence: int) -> bytes:
    """Where the entry of a sequence is kept."""
    return space(number) + tags.OUTBOX + sequence.to_bytes(8, "big")


def append(
    txn: Txn,
    number: int,
    head: PartitionHead,
    context: CommandContext,
    incarnation: bytes,
    limits: OutboxLimits,
) -> None:
    """Write the effects of a command and count them in `head`; `ResourceExhausted` when there is no room.

    On a refusal `head` and `txn` may be changed: the caller drops both.
    """
    packed = [_pack(context, incarnation, ordinal, effect) for ordinal, effect in enumerate(context.effects)]
    added = sum(map(len, packed))
    if head.records + len(packed) > limits.max_records or head.bytes + added > limits.max_bytes:
        _make_room(txn, number, head, len(packed), added, limits)
    sequence = head.outbox_tail
    prefix = outbox_prefix(number)
    for value in packed:
        sequence += 1
        txn.put(prefix + sequence.to_bytes(8, "big"), value)
    head.outbox_tail = sequence
    head.records += len(packed)
    head.bytes += added


def _pack(context: CommandContext, incarnation: bytes, ordinal: int, effect: Effect) -> bytes:
    return ENTRY.encode(
        OutboxEntry(
            incarnation,
            context.ownership_epoch,
            context.position,
            context.instant,
            ordinal,
            effect.mutation,
            effect.receipt,
            effect.before,
            effect.after,
        )
    )


def _make_room(
    txn: Txn, number: int, head: PartitionHead, records: int, added: int, limits: OutboxLimits
) -> None:
    """Drop the oldest entries, as many as needed and then up to a step, so that a full outbox drops in
    steps."""
    last = head.outbox_tail if head.pin == NO_PIN else min(head.pin, head.outbox_tail)
    last = min(last, head.first_available + MAX_DROPPED - 1) if limits.drop_unpinned else 0
    step = head.first_available + min(limits.max_records // _STEP_SHARE, _STEP_MAX)
    while head.first_available <= last:
        fits = head.records + records <= limits.max_records and head.bytes + added <= limits.max_bytes
        if fits and head.first_available >= step:
            return
        key = outbox_key(number, head.first_available)
        value = txn.get(key)
        if value is None:
            raise KeyLoadError(ErrorCode.CORRUPTION, "An outbox entry is missing.")
        txn.delete(key)
        head.first_available += 1
        head.records -= 1
        head.bytes -= len(value)
    if head.records + records > limits.max_records or head.bytes + added > limits.max_bytes:
        raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, "The outbox of the partition is full.")


def document_images(entry: OutboxEntry) -> tuple[StoredDocument | None, StoredDocument | None]:
    """The images of a document before and after an effect; two times None for an effect on something else."""
    before = None if entry.before is None else DOCUMENT.decode(entry.before)
    mutation: Any = entry.mutation
    if entry.after is not None:
        return before, DOCUMENT.decode(entry.after)
    owner, project = (None, None) if before is None else (before.owner_id, before.project_id)
    if isinstance(mutation, PutDocument):
        if mutation.access is not None:
            owner, project = mutation.access.owner_id, mutation.access.project_id
        return before, StoredDocument(entry.receipt[3], mutation.json, owner, project, entry.instant)
    if isinstance(mutation, DeleteDocument):
        return before, StoredDocument(entry.receipt[3], "{}", owner, project, entry.instant, True)
    return None, None
