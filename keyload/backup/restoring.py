"""A database made out of a backup: a new life that remembers all and has promised nothing (BKP-12..BKP-17).

The whole database is made beside its place and gets its name when it is complete and durable. Each shard
begins with one commit that records the restore; its log is empty behind that commit, and the replica counts
as joined, because all voters of the new store begin with the same images.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import msgspec

from keyload.backup.checking import Backup, checked_backup
from keyload.backup.manifest import SYSTEM_SHARD, ShardImage, damaged
from keyload.backup.offline import UNBOUNDED, shards_of
from keyload.backup.staging import directory_for
from keyload.backup.streams import checked, pieces, write_file
from keyload.consensus import Membership
from keyload.consensus.messages import HardState
from keyload.models.catalog.rows import DISPATCH_PAUSED, SWITCHES, put_row
from keyload.models.cluster.nodes import forget_nodes
from keyload.models.partitions import load_meta
from keyload.models.partitions.restores import RestoreRecord, begin_restored_life
from keyload.storage import (
    Guard,
    Identity,
    NodeDirectory,
    Position,
    Store,
    Txn,
    Wal,
    mark_clean,
    stored_form,
)
from keyload.storage.files import private_directory
from keyload.storage.layout import DATA_FILE


class Restored(msgspec.Struct, frozen=True, rename="camel"):
    """What a restore tells: id and system position of the backup, and what the settings of the node need."""

    id: str
    position: int
    incarnation: str
    node_id: str
    workers: int
    shards: int
    directory: str


def restore(source: Path, target: Path) -> Restored:
    """Make the database `target` of a node alone out of a backup (BKP-12..BKP-14)."""
    backup = checked_backup(source)
    former = backup.identity
    identity = Identity(
        str(uuid.uuid4()), former.node_id, Guard((), former.guard.workers, former.guard.shards)
    )
    with directory_for(target) as stage:
        build(backup, identity, stage)
    return Restored(
        id=backup.manifest.id,
        position=backup.manifest.position,
        incarnation=identity.incarnation,
        node_id=identity.node_id,
        workers=identity.guard.workers,
        shards=identity.guard.shards,
        directory=str(target.absolute()),
    )


def build(backup: Backup, identity: Identity, directory: Path) -> None:
    """Fill an empty directory with the database of `identity`; the caller makes it durable and names it.

    Made twice, the states hold the same records: what differs between nodes is only whose directory it is.
    """
    with NodeDirectory(directory) as node:
        node.establish(identity)
        for worker in range(identity.guard.workers):
            _build_worker(backup, identity, node.worker_directory(worker), worker)


def _build_worker(backup: Backup, identity: Identity, home: Path, worker: int) -> None:
    ends: dict[int, Position] = {}
    for shard in shards_of(identity, worker):
        image = backup.manifest.shards[shard]
        place = home / f"shard-{shard}"
        private_directory(place)
        write_file(place / DATA_FILE, checked(image.file, pieces(backup.directory / image.file.name)))
        ends[shard] = _begin_life(backup, identity, image, place)
    with Wal(home / "wal", worker=worker, incarnation=identity.incarnation) as wal:
        wal.begin()
        for shard, end in ends.items():
            wal.rebase(shard, end.index, end.term)
        wal.write([(shard, HardState(end.term, 0, end.index, True), ()) for shard, end in ends.items()])
    mark_clean(home)


def _begin_life(backup: Backup, identity: Identity, image: ShardImage, place: Path) -> Position:
    """Add the commit that records the restore; returns where the log begins."""
    store = Store(place, UNBOUNDED)
    try:
        with store.reader() as reader:
            if load_meta(reader).position != image.position:
                raise damaged(f"{image.file.name} is an image of another position than the manifest says.")
            txn = Txn(reader)
            record = RestoreRecord(backup.manifest.id, backup.manifest.incarnation, identity.incarnation)
            begin_restored_life(txn, record)
            if image.shard == SYSTEM_SHARD:
                put_row(txn, SWITCHES, DISPATCH_PAUSED, True)
                forget_nodes(txn)
        end = Position(image.index + 1, max(1, image.term))
        voters = identity.guard.voter_numbers or (1,)
        store.apply(end.index, end.term, [stored_form(txn.writes)], Membership(voters).packed())
    finally:
        store.close()
    return end
