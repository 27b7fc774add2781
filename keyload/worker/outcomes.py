"""Stored outcomes: what a command id was answered, for as long as it may be asked again (CMD-14..CMD-28).

An outcome is one small record in the space of its scope, under principal and command id. Each batch adds one
record to the shard's outcome log, in order of time, from which old outcomes are removed in slices (CMD-25).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from keyload.codec.tuples import pack
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.shared import CommitReceipt
from keyload.models import tags
from keyload.models.partitions.keys import SHARD_SPACE, space
from keyload.models.receipts import Receipt, build_receipt
from keyload.models.records import Stored, pack_record
from keyload.storage.txn import Reader
from keyload.worker import answers
from keyload.worker.batch import Answer

_SIGN_BIT = 1 << 63
_LOG_PREFIX = SHARD_SPACE + tags.OUTCOME_LOG
_ID_BYTES = 16

Refused = tuple[str, str, str | None, str | None]
"""code, detail, path, expected of a stored Problem."""


class Outcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One outcome. `epoch` is the principal's policy epoch, `instant` in ticks.

    Exactly one of the last three is set: the receipts of a commit, another result as JSON text, or a refusal.
    """

    fingerprint: bytes
    incarnation: bytes
    epoch: int
    instant: int
    position: int
    ownership_epoch: int
    durability: str
    receipts: tuple[Receipt, ...] | None = None
    result: bytes | None = None
    problem: Refused | None = None


OUTCOME = Stored(Outcome, "outcome")
_LOGGED = Stored(dict[bytes, bytes], "outcome log record")


@lru_cache(maxsize=16_384)
def outcome_prefix(number: int, principal: str) -> bytes:
    """What the keys of a principal's outcomes in one scope begin with; the 16-byte command id follows."""
    return space(number) + tags.OUTCOME + pack((principal,))


def refused_parts(error: KeyLoadError) -> Refused:
    """What is stored of a refusal."""
    return (str(error.code), error.detail, error.path, error.expected)


def receipts_of(result: CommitReceipt) -> tuple[Receipt, ...]:
    """The receipts of a commit as they are stored."""
    return tuple((item.kind, item.resource, item.id, item.revision) for item in result.mutations)


def refusal_of(parts: Refused) -> Answer:
    """The answer of a refusal from its stored parts; `Corruption` when the code is none."""
    code, detail, path, expected = parts
    try:
        known = ErrorCode(code)
    except ValueError as error:
        raise KeyLoadError(ErrorCode.CORRUPTION, "A stored outcome cannot be read.") from error
    return answers.refusal(KeyLoadError(known, detail, path=path, expected=expected))


def replayed(outcome: Outcome, command_id: bytes, incarnation: str, atomic_partition_id: str) -> Answer:
    """The stored answer, byte for byte as it was given first (CMD-18); `Corruption` when the row
    contradicts itself."""
    given: list[Any] = [
        part for part in (outcome.receipts, outcome.result, outcome.problem) if part is not None
    ]
    if len(given) != 1:
        raise KeyLoadError(ErrorCode.CORRUPTION, "A stored outcome contradicts itself.")
    if outcome.problem is not None:
        return refusal_of(outcome.problem)
    if outcome.result is not None:
        return Answer(False, outcome.result)
    receipt = build_receipt(
        command_id=command_id,
        incarnation=incarnation,
        atomic_partition_id=atomic_partition_id,
        position=outcome.position,
        ownership_epoch=outcome.ownership_epoch,
        durability=outcome.durability,
        receipts=outcome.receipts or (),
    )
    return answers.success(receipt)


def _log_key(instant: int, position: int) -> bytes:
    return _LOG_PREFIX + (instant + _SIGN_BIT).to_bytes(8, "big") + position.to_bytes(8, "big")


def log_record(instant: int, position: int, stored: dict[bytes, list[bytes]]) -> tuple[bytes, bytes]:
    """Key and value of a batch's outcome-log record: command ids by the prefix of their outcome keys."""
    return _log_key(instant, position), pack_record({prefix: b"".join(ids) for prefix, ids in stored.items()})


def expired(reader: Reader, before: int, limit: int) -> dict[bytes, bytes | None]:
    """Deletes of outcomes logged before an instant, oldest first, whole log records until `limit` is
    reached."""
    writes: dict[bytes, bytes | None] = {}
    removed = 0
    for key, value in reader.scan(_LOG_PREFIX, _log_key(before, 0)):
        for prefix, ids in _LOGGED.decode(value).items():
            for start in range(0, len(ids), _ID_BYTES):
                writes[prefix + ids[start : start + _ID_BYTES]] = None
                removed += 1
        writes[key] = None
        if removed >= limit:
            break
    return writes
