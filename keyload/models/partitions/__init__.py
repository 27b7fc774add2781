"""The shard's own space and the partitions it holds: numbers, heads, positions (STO-23, CMD-29)."""

from keyload.models.partitions.head import (
    PartitionHead,
    ShardMeta,
    load_head,
    load_meta,
    partition_number,
)
from keyload.models.partitions.keys import FIRST_NUMBER, GLOBAL_NUMBER, SHARD_SPACE, space

__all__ = [
    "FIRST_NUMBER",
    "GLOBAL_NUMBER",
    "SHARD_SPACE",
    "PartitionHead",
    "ShardMeta",
    "load_head",
    "load_meta",
    "partition_number",
    "space",
]
