"""The capability flags of grants: names, bits and their canonical text (CON-10).

Records hold capabilities as canonical text: names in bit order joined by comma and space, `All` or `None`.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from keyload.contract.errors import ErrorCode, KeyLoadError


class CapabilityFlag(msgspec.Struct, frozen=True):
    """One right; reserved ones may be granted though no operation needs them yet."""

    name: str
    bit: int
    meaning: str
    reserved: bool = False

    @property
    def mask(self) -> int:
        """The flag as a bit mask."""
        return 1 << self.bit


CAPABILITIES: tuple[CapabilityFlag, ...] = (
    CapabilityFlag("DocumentsRead", 0, "Read documents of a collection."),
    CapabilityFlag("DocumentsWrite", 1, "Write documents and vectors of a collection."),
    CapabilityFlag("Query", 2, "Run queries."),
    CapabilityFlag("EventsAppend", 3, "Append to streams."),
    CapabilityFlag("EventsRead", 4, "Read streams."),
    CapabilityFlag("QueuePublish", 5, "Enqueue messages."),
    CapabilityFlag("QueueConsume", 6, "Receive messages."),
    CapabilityFlag("QueueAck", 7, "Ack, Nack and process messages."),
    CapabilityFlag("QueueRenew", 8, "Renew message leases."),
    CapabilityFlag("QueueInspect", 9, "Inspect messages, schedules and sagas without consuming."),
    CapabilityFlag("DeadLettersRead", 10, "Read dead-lettered messages."),
    CapabilityFlag("DeadLettersRedrive", 11, "Put dead-lettered messages back.", reserved=True),
    CapabilityFlag("SubscriptionsManage", 12, "Configure, seek and pause subscription groups."),
    CapabilityFlag("GraphRead", 13, "Read edges."),
    CapabilityFlag("GraphWrite", 14, "Write edges."),
    CapabilityFlag("SeriesRead", 15, "Read samples."),
    CapabilityFlag("SeriesAppend", 16, "Append samples."),
    CapabilityFlag("VectorSearch", 17, "Search by vector."),
    CapabilityFlag("VectorRaw", 18, "Read raw vectors.", reserved=True),
    CapabilityFlag("SchemaManage", 19, "Configure resources."),
    CapabilityFlag("SecurityManage", 20, "Configure principals and API keys."),
    CapabilityFlag("BackupManage", 21, "Make backups.", reserved=True),
    CapabilityFlag("BackupRestore", 22, "Restore backups.", reserved=True),
    CapabilityFlag("Diagnose", 23, "Read diagnostics.", reserved=True),
    CapabilityFlag("DataExport", 24, "Export data.", reserved=True),
    CapabilityFlag("TopicsPublish", 25, "Publish to topics."),
    CapabilityFlag("TopicsRead", 26, "Read topics."),
    CapabilityFlag("SubscriptionsConsume", 27, "Receive subscription events."),
    CapabilityFlag("SubscriptionsAck", 28, "Ack, Nack, renew and process subscription events."),
    CapabilityFlag("ChangesRead", 29, "Read change feeds and live queries."),
    CapabilityFlag("BlobRead", 30, "Read blobs."),
    CapabilityFlag("BlobWrite", 31, "Upload blobs."),
    CapabilityFlag("BlobDelete", 32, "Delete blobs."),
    CapabilityFlag("BlobManage", 33, "Reclaim blob space."),
    CapabilityFlag("SeriesManage", 34, "Expire samples."),
    CapabilityFlag("EventsReplay", 35, "Replay aggregates."),
    CapabilityFlag("EventsSnapshotsManage", 36, "Store aggregate snapshots."),
    CapabilityFlag("SchedulerManage", 37, "Manage schedules and sagas."),
)
"""All flags in bit order."""

ALL = "All"
NONE = "None"
ALL_MASK = (1 << len(CAPABILITIES)) - 1

_MASKS = {flag.name: flag.mask for flag in CAPABILITIES} | {ALL: ALL_MASK, NONE: 0}
_MAX_CHARS = 4096  # all names joined take some 600 characters; repeats and spaces have room, a flood has not


@lru_cache(maxsize=1024)
def mask(text: str) -> int:
    """Bit mask of a text in any order, with repeats and any spaces around commas.

    Validation for an unknown name, an empty text, and a text above 4096 characters.
    """
    if len(text) > _MAX_CHARS:
        raise KeyLoadError(ErrorCode.VALIDATION, "The list of capabilities is too long.")
    bits = 0
    for name in text.split(","):
        bit = _MASKS.get(name.strip(" "))
        if bit is None:
            raise KeyLoadError(ErrorCode.VALIDATION, "An unknown capability is named.")
        bits |= bit
    return bits


def text_of(bits: int) -> str:
    """Canonical text of a bit mask."""
    if bits == ALL_MASK:
        return ALL
    return ", ".join(flag.name for flag in CAPABILITIES if bits & flag.mask) or NONE


def canonical(text: str) -> str:
    """Canonical text of a text as `mask` accepts it, with its errors."""
    return text_of(mask(text))
