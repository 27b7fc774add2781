"""The commit that every shard of a restored store begins with (BKP-14)."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from keyload.models import tags
from keyload.models.partitions.head import META, load_meta
from keyload.models.partitions.keys import META_KEY, SHARD_SPACE
from keyload.models.records import Stored
from keyload.storage.txn import Txn


class RestoreRecord(msgspec.Struct, frozen=True, array_like=True):
    """Where the content of the shard comes from: id of the backup, the incarnation it was taken of, the one
    it was restored to.
    """

    backup: str
    former: str
    incarnation: str


RESTORE = Stored(RestoreRecord, "restore record")


def restore_key(position: int) -> bytes:
    """Where the record of the restore at a commit position is kept."""
    return SHARD_SPACE + tags.RESTORE + position.to_bytes(8, "big")


def begin_restored_life(txn: Txn, record: RestoreRecord) -> int:
    """Take the next commit position for the restore and forget the last logged instant, so that a clock that
    lies behind the former cluster's is no obstacle. Returns the position.
    """
    meta = load_meta(txn)
    position = meta.position + 1
    txn.put(META_KEY, META.encode(replace(meta, position=position, instant=0)))
    txn.put(restore_key(position), RESTORE.encode(record))
    return position
