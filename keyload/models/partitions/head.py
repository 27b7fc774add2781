"""The counters of a shard and of a partition (commands.md, data kept)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from keyload.codec.identity import PartitionKey
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.models.partitions.keys import FIRST_NUMBER, META_KEY, directory_key, head_key
from keyload.models.records import Stored
from keyload.storage.txn import Reader

NO_PIN = -1


class ShardMeta(msgspec.Struct, array_like=True):
    """Of a shard: last commit position, last logged instant in ticks, number the next new partition gets."""

    position: int = 0
    instant: int = 0
    next_number: int = FIRST_NUMBER


class PartitionHead(msgspec.Struct, array_like=True):
    """Of a partition: event sequence, outbox range and size, ownership epoch.

    `first_available` is the lowest sequence still kept; `pin` the lowest checkpoint of an unreleased
    projection consumer, `NO_PIN` when there is none: entries after it may not be dropped (CHG-16).
    """

    event_sequence: int = 0
    outbox_tail: int = 0
    first_available: int = 1
    records: int = 0
    bytes: int = 0
    ownership_epoch: int = 1
    pin: int = NO_PIN


META = Stored(ShardMeta, "shard record")
HEAD = Stored(PartitionHead, "partition head")


def load_meta(reader: Reader) -> ShardMeta:
    """The counters of the shard; those of an empty one when nothing was written yet."""
    data = reader.get(META_KEY)
    return ShardMeta() if data is None else META.decode(data)


def load_head(reader: Reader, number: int) -> PartitionHead:
    """The head of a partition; that of an empty one when nothing was written yet."""
    data = reader.get(head_key(number))
    return PartitionHead() if data is None else HEAD.decode(data)


class PartitionEntry(NamedTuple):
    """What a shard knows of a partition: its number here, None when nothing was ever written to it, or the
    placement epoch up to which it is closed here, 0 when it is not.

    Only an empty partition is closed, and one with a number never moves again, so there is never need of
    both (CLU-32).
    """

    number: int | None = None
    closed: int = 0


NO_ENTRY = PartitionEntry()
_CLOSED = b"c"


def partition_entry(reader: Reader, identity: PartitionKey) -> PartitionEntry:
    """The entry of a partition; `NO_ENTRY` when there is none."""
    data = reader.get(directory_key(identity))
    if data is None:
        return NO_ENTRY
    if len(data) == 8:
        return PartitionEntry(number=int.from_bytes(data, "big"))
    if len(data) == 9 and data[:1] == _CLOSED:
        return PartitionEntry(closed=int.from_bytes(data[1:], "big"))
    raise KeyLoadError(ErrorCode.CORRUPTION, "A stored partition number cannot be read.")


def number_entry(number: int) -> bytes:
    """The stored entry of a partition with a number."""
    return number.to_bytes(8, "big")


def closed_entry(epoch: int) -> bytes:
    """The stored entry of a partition that is closed up to a placement epoch."""
    return _CLOSED + epoch.to_bytes(8, "big")


def partition_number(reader: Reader, identity: PartitionKey) -> int | None:
    """The number of a partition, None when nothing was ever written to it."""
    return partition_entry(reader, identity).number
