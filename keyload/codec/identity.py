"""Identity of atomic partitions and the shard they live in (CON-19, CON-21, CMD-1..3)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from msgspec.structs import replace

from keyload.contract.shared import PartitionRef

PartitionKey = tuple[str, str, str, str]
"""tenantId, databaseId, transactionDomainId, partitionKey."""

_CACHED = 16_384  # partitions in active use by one process; an entry takes at most some 1.5 KiB


def tuple_encoding(texts: Iterable[str]) -> bytes:
    """Each text as 4-byte big-endian byte length and its UTF-8 bytes, one after the other."""
    parts: list[bytes] = []
    for text in texts:
        data = text.encode("utf-8")
        parts.append(len(data).to_bytes(4, "big"))
        parts.append(data)
    return b"".join(parts)


@lru_cache(maxsize=_CACHED)
def atomic_partition_id(tenant: str, database: str, domain: str, key: str) -> str:
    """Lower-case hex SHA-256 of the tuple encoding of the four texts."""
    return hashlib.sha256(tuple_encoding((tenant, database, domain, key))).hexdigest()


def partition_key(partition: PartitionRef) -> PartitionKey:
    """The four texts that name a partition."""
    return (
        partition.tenant_id,
        partition.database_id,
        partition.transaction_domain_id,
        partition.partition_key,
    )


def with_identity(partition: PartitionRef) -> PartitionRef:
    """The same partition with `atomic_partition_id` set, as every output has it."""
    return replace(partition, atomic_partition_id=atomic_partition_id(*partition_key(partition)))


@lru_cache(maxsize=_CACHED)
def data_shard(partition_id: str, shards: int) -> int:
    """Data shard 1..`shards` of a partition by rendezvous hashing.

    Each shard gets the weight SHA-256(partition id, shard number); the greatest wins. With one more shard
    only the partitions that the new one wins move.
    """
    seed = partition_id.encode("ascii")
    return max(
        range(1, shards + 1), key=lambda shard: hashlib.sha256(seed + shard.to_bytes(4, "big")).digest()
    )
