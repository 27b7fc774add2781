"""How one turn of the log looks in bytes, and how it is read back.

A turn is a header, the heads of all its records side by side, then their payloads. The header begins with
the random mark of its segment, so that no payload can pass for a turn. Its checksums cover the header and
the heads; each head covers its payload. A turn without records seals a segment: the log goes on in the next
one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from keyload.codec.checksums import crc32
from keyload.consensus.messages import Entry, HardState
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage.layout import POSITION_BYTES, Position

MARK_BYTES = 8
MAXIMUM_SHARD = 0xFFFF

_HEADER = struct.Struct("<8sQIIII")
"""Mark, turn number, number of records, bytes of all payloads, checksum of the heads, checksum of the
header."""

_HEADER_CHECKED_BYTES = _HEADER.size - 4

_HEAD = struct.Struct("<BxHIIQQ")
"""Kind, shard, bytes and checksum of the payload, term, index (of a hard state: its commit index)."""

_STATE = struct.Struct("<QB")
"""Vote, joined."""

HEADER_BYTES = _HEADER.size
HEAD_BYTES = _HEAD.size
STATE_BYTES = _STATE.size
BASE_BYTES = POSITION_BYTES


class RecordKind(IntEnum):
    """What a record says about its shard."""

    HARD_STATE = 1
    ENTRY = 2
    BASE = 3
    """The log of the shard begins behind the entry with this index and term. The payload says where it ends
    then: at the same entry, or where it ended before, because everything behind the base was kept."""
    MEMBERSHIP = 4
    """An entry that holds a membership."""


class Record(NamedTuple):
    """One record to be written: its head's members and the payload."""

    kind: int
    shard: int
    term: int
    position: int
    payload: bytes


class Head(NamedTuple):
    """One record read back: `start` is where its payload begins in the segment, `checksum` that of the
    payload."""

    kind: int
    shard: int
    length: int
    checksum: int
    term: int
    position: int
    start: int


class Turn(NamedTuple):
    """One turn read back; `end` is where the next one begins. A seal has no heads."""

    heads: list[Head]
    end: int


class TurnDamage(Exception):
    """The bytes at a place are not the turn that belongs there.

    `end` is where that turn would have ended if its header is whole; `foreign` says that it is whole but not
    the header that belongs there.
    """

    def __init__(self, end: int | None = None, *, foreign: bool = False) -> None:
        super().__init__()
        self.end = end
        self.foreign = foreign


def hard_state_record(shard: int, state: HardState) -> Record:
    """The record of a shard's hard state."""
    payload = _STATE.pack(state.vote, state.joined)
    return Record(RecordKind.HARD_STATE, shard, state.term, state.commit, payload)


def entry_record(shard: int, entry: Entry) -> Record:
    """The record of one log entry."""
    kind = RecordKind.MEMBERSHIP if entry.membership else RecordKind.ENTRY
    return Record(kind, shard, entry.term, entry.index, entry.data)


def base_record(shard: int, base: Position, last: Position) -> Record:
    """The record that a shard's log begins behind `base` and ends with `last`."""
    return Record(RecordKind.BASE, shard, base.term, base.index, last.packed())


def hard_state(payload: bytes | memoryview, head: Head) -> HardState:
    """Undo `hard_state_record`; Corruption when the payload is none of its."""
    if head.length != _STATE.size:
        raise KeyLoadError(ErrorCode.CORRUPTION, "A hard state in the log has a wrong length.")
    vote, joined = _STATE.unpack(payload)
    if joined > 1:
        raise KeyLoadError(ErrorCode.CORRUPTION, "A hard state in the log has an unknown mark.")
    return HardState(term=head.term, vote=vote, commit=head.position, joined=bool(joined))


def base_and_last(payload: bytes | memoryview, head: Head) -> tuple[Position, Position]:
    """Undo `base_record`; Corruption when the payload is none of its."""
    return Position(head.position, head.term), Position.unpacked(payload)


def pack_turn(
    mark: bytes, number: int, records: Sequence[Record], start: int
) -> tuple[list[bytes], list[Head]]:
    """The buffers of a turn that begins at `start` of its segment, in the order of writing, and its heads."""
    place = start + HEADER_BYTES + HEAD_BYTES * len(records)
    heads: list[Head] = []
    packed: list[bytes] = []
    payloads: list[bytes] = []
    for kind, shard, term, position, payload in records:
        checksum = crc32(payload)
        packed.append(_HEAD.pack(kind, shard, len(payload), checksum, term, position))
        payloads.append(payload)
        heads.append(Head(kind, shard, len(payload), checksum, term, position, place))
        place += len(payload)
    block = b"".join(packed)
    size = place - start - HEADER_BYTES - len(block)
    header = _HEADER.pack(mark, number, len(records), size, crc32(block), 0)[:_HEADER_CHECKED_BYTES]
    return [header + crc32(header).to_bytes(4, "little"), block, b"".join(payloads)], heads


def turn_bytes(records: int, payload_bytes: int) -> int:
    """Size of a turn."""
    return HEADER_BYTES + HEAD_BYTES * records + payload_bytes


def read_turn(segment: memoryview, start: int, mark: bytes, number: int) -> Turn:
    """The turn at `start`, which must have this mark and number; TurnDamage when it is not there whole."""
    if start + HEADER_BYTES > len(segment):
        raise TurnDamage
    found_mark, found_number, count, size, heads_checksum, checksum = _HEADER.unpack_from(segment, start)
    if found_mark != mark or crc32(segment[start : start + _HEADER_CHECKED_BYTES]) != checksum:
        raise TurnDamage
    first_head = start + HEADER_BYTES
    place = first_head + HEAD_BYTES * count
    end = place + size
    if found_number != number or end > len(segment):
        raise TurnDamage(foreign=True)
    block = segment[first_head:place]
    if crc32(block) != heads_checksum:
        raise TurnDamage(end)
    heads: list[Head] = []
    for kind, shard, length, payload_checksum, term, position in _HEAD.iter_unpack(block):
        if crc32(segment[place : min(place + length, end)]) != payload_checksum:
            raise TurnDamage(end)
        heads.append(Head(kind, shard, length, payload_checksum, term, position, place))
        place += length
    if place != end:
        raise TurnDamage(foreign=True)
    return Turn(heads, end)
