"""Durable state of a node: the log of each worker, the state of each shard, and transactions above it.

Nothing here knows what a command or a document is: keys, values and log entries are bytes.
"""

from keyload.storage.boot import mark_clean, recover_state
from keyload.storage.checkpoint import Checkpoint
from keyload.storage.directory import Guard, Identity, NodeDirectory
from keyload.storage.files import private_directory
from keyload.storage.incoming import IncomingSnapshot, discard_incoming
from keyload.storage.install import finish_install, install, pending_install, received_snapshot
from keyload.storage.keys import WriteSet, logical_form, pack_writes, stored_form, unpack_writes
from keyload.storage.layout import Position
from keyload.storage.manifest import CHUNK_BYTES, SnapshotManifest, unpack_manifest
from keyload.storage.opening import open_states
from keyload.storage.reader import Charge, StoreReader
from keyload.storage.shard_log import ShardLog
from keyload.storage.snapshot import (
    Image,
    OutgoingSnapshot,
    discard_snapshot,
    stored_snapshot,
    take_snapshot,
    write_image,
)
from keyload.storage.store import Cut, Store
from keyload.storage.txn import Layered, Reader, Txn
from keyload.storage.verify import Facts, verify_image, verify_images
from keyload.storage.wal import ShardWrite, Wal

__all__ = [
    "CHUNK_BYTES",
    "Charge",
    "Checkpoint",
    "Cut",
    "Facts",
    "Guard",
    "Identity",
    "Image",
    "IncomingSnapshot",
    "Layered",
    "NodeDirectory",
    "OutgoingSnapshot",
    "Position",
    "Reader",
    "ShardLog",
    "ShardWrite",
    "SnapshotManifest",
    "Store",
    "StoreReader",
    "Txn",
    "Wal",
    "WriteSet",
    "discard_incoming",
    "discard_snapshot",
    "finish_install",
    "install",
    "logical_form",
    "mark_clean",
    "open_states",
    "pack_writes",
    "pending_install",
    "private_directory",
    "received_snapshot",
    "recover_state",
    "stored_form",
    "stored_snapshot",
    "take_snapshot",
    "unpack_manifest",
    "unpack_writes",
    "verify_image",
    "verify_images",
    "write_image",
]
