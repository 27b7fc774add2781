"""Which shard a partition lives in, and what a shard is called outside (CLU-31).

A partition lives in the data shard that rendezvous hashing gives, unless the placement directory assigns
another. Each assignment of a partition begins a placement epoch: 1 without any, then one more each time.
"""

from __future__ import annotations

import uuid
from functools import lru_cache
from typing import NamedTuple

from keyload.codec.identity import PartitionKey, atomic_partition_id, data_shard
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.tables import Placement

FIRST_EPOCH = 1


class Place(NamedTuple):
    """Where a partition lives, and the placement epoch in which it does."""

    shard: int
    epoch: int


def place_of(row: Placement | None, partition: PartitionKey, shards: int) -> Place:
    """The place of a partition by its row of the directory, None when it has none; `shards` is the number
    of data shards. Raises Corruption for a row that no binding can have written (CLU-33).
    """
    if row is None:
        return Place(data_shard(atomic_partition_id(*partition), shards), FIRST_EPOCH)
    if not 1 <= row.shard <= shards or row.revision < 1:
        raise damaged_directory()
    return Place(row.shard, FIRST_EPOCH + row.revision)


def damaged_directory() -> KeyLoadError:
    """The failure of whoever meets a row of the directory that contradicts itself."""
    return KeyLoadError(ErrorCode.CORRUPTION, "The placement directory is damaged.")


@lru_cache(maxsize=1024)
def physical_shard_id(incarnation: str, shard: int) -> str:
    """The guid by which a shard is known outside: version 5 of `shard-<number>` in the incarnation."""
    return str(uuid.uuid5(uuid.UUID(incarnation), f"shard-{shard}"))


def physical_shard(incarnation: str, guid: str, shards: int) -> int | None:
    """The data shard that a guid names, None when it names none."""
    return next(
        (shard for shard in range(1, shards + 1) if physical_shard_id(incarnation, shard) == guid), None
    )
