"""Keys of the shard's own space and of the head of a partition.

Every key begins with the 8-byte big-endian number of its partition. Number 0 is the shard's own space, number
1 the global scope (used in shard 0 only, CMD-15); partitions are numbered from 2 and a number is never used
again.
"""

from __future__ import annotations

from functools import lru_cache

from keyload.codec.tuples import pack
from keyload.models import tags

SHARD_NUMBER = 0
GLOBAL_NUMBER = 1
FIRST_NUMBER = 2


@lru_cache(maxsize=65_536)
def space(number: int) -> bytes:
    """The 8 bytes that begin every key of a partition."""
    return number.to_bytes(8, "big")


SHARD_SPACE = space(SHARD_NUMBER)
META_KEY = SHARD_SPACE + tags.SHARD_META


@lru_cache(maxsize=16_384)
def directory_key(identity: tuple[str, str, str, str]) -> bytes:
    """Where the entry of a partition is kept: by its full identity, compared byte for byte (CMD-1)."""
    return SHARD_SPACE + tags.DIRECTORY + pack(identity)


def head_key(number: int) -> bytes:
    """The head record of a partition."""
    return space(number) + tags.HEAD
