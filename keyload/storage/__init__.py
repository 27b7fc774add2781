"""Durable state of a node: the log of each worker, the state of each shard, and transactions above it.

Nothing here knows what a command or a document is: keys, values and log entries are bytes.
"""

from keyload.storage.boot import mark_clean, recover_state
from keyload.storage.directory import Guard, Identity, NodeDirectory
from keyload.storage.files import private_directory
from keyload.storage.keys import WriteSet, logical_form, pack_writes, stored_form, unpack_writes
from keyload.storage.layout import Position
from keyload.storage.reader import Charge, StoreReader
from keyload.storage.shard_log import ShardLog
from keyload.storage.store import Store
from keyload.storage.txn import Layered, Reader, Txn
from keyload.storage.wal import ShardWrite, Wal

__all__ = [
    "Charge",
    "Guard",
    "Identity",
    "Layered",
    "NodeDirectory",
    "Position",
    "Reader",
    "ShardLog",
    "ShardWrite",
    "Store",
    "StoreReader",
    "Txn",
    "Wal",
    "WriteSet",
    "logical_form",
    "mark_clean",
    "pack_writes",
    "private_directory",
    "recover_state",
    "stored_form",
    "unpack_writes",
]
