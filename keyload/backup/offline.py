"""A database that no process holds: opened as a node would open it, backed up, checked (BKP-5, STO-16)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from keyload.backup.manifest import FileEntry, Manifest, ShardImage, image_name
from keyload.backup.shelf import complete, new_id
from keyload.backup.staging import directory_for
from keyload.consensus import Membership
from keyload.consensus.messages import Entry
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.models.partitions import load_meta
from keyload.storage import (
    Facts,
    Identity,
    NodeDirectory,
    Position,
    ShardLog,
    Store,
    Wal,
    mark_clean,
    open_states,
    recover_state,
    unpack_writes,
    verify_images,
    write_image,
)
from keyload.storage.install import installing
from keyload.storage.layout import DATA_FILE

UNBOUNDED = 1 << 62
"""A size no state reaches: nothing new is written here, so no limit is asked for."""

APPLY_BYTES = 8 << 20
"""How much of a log is read at once when it is applied."""


class ShardFacts(msgspec.Struct, frozen=True, rename="camel"):
    """One shard of a checked database: the last applied entry, the last one in the log, and what it holds."""

    shard: int
    index: int
    last_index: int
    records: int
    record_bytes: int
    digest: str


class DatabaseFacts(msgspec.Struct, frozen=True, rename="camel"):
    """A checked database."""

    incarnation: str
    node_id: str
    shards: tuple[ShardFacts, ...]


@contextmanager
def held(path: Path) -> Generator[NodeDirectory, None, None]:
    """Hold a node's directory; NotFound when there is none, Conflict when a process has it open."""
    if not (path / "identity.json").is_file():
        raise KeyLoadError(ErrorCode.NOT_FOUND, f"{path}: the directory holds no store.")
    with NodeDirectory(path) as directory:
        yield directory


def shards_of(identity: Identity, worker: int) -> range:
    """The shards of a worker (CLU-8)."""
    return range(worker, identity.guard.shards + 1, identity.guard.workers)


def back_up(database: Path, target: Path) -> Manifest:
    """Make the backup `target` of a database, with what this node knows to be committed (BKP-5)."""
    with directory_for(target) as stage, held(database) as directory:
        identity = directory.identity()
        images = [
            image
            for worker in range(identity.guard.workers)
            for image in _images(directory, identity, worker, stage)
        ]
        return complete(stage, new_id(), identity, images)


def _images(directory: NodeDirectory, identity: Identity, worker: int, stage: Path) -> Iterator[ShardImage]:
    """The images of a worker's shards, after everything committed was applied."""
    home = directory.worker_directory(worker)
    recover_state(home)
    first = Membership(tuple(range(1, len(identity.guard.voters) + 1)) or (1,)).packed()
    with Wal(home / "wal", worker=worker, incarnation=identity.incarnation) as wal:
        stores = open_states(home, wal, shards_of(identity, worker), UNBOUNDED, membership=first)
        try:
            for shard, store in stores.items():
                catch_up(store, wal.log(shard), alone=len(identity.guard.voters) <= 1)
                yield _image(store, shard, stage)
        finally:
            for store in stores.values():
                store.close()
    mark_clean(home)


def _image(store: Store, shard: int, stage: Path) -> ShardImage:
    cut = store.cut()
    try:
        path = stage / image_name(shard)
        image = write_image(cut, path)
        return ShardImage(
            shard=shard,
            index=cut.position.index,
            term=cut.position.term,
            position=load_meta(cut.reader).position,
            file=FileEntry(name=path.name, bytes=image.image_bytes, sha256=image.sha256),
        )
    finally:
        cut.close()


def catch_up(store: Store, log: ShardLog, *, alone: bool) -> None:
    """Apply what is committed and not yet in the state. In the log of a node alone everything is committed;
    a voter knows it of what its hard state says.
    """
    committed = log.last_index if alone else min(log.hard_state.commit, log.last_index)
    while store.applied.index < committed:
        entries = log.entries(store.applied.index + 1, committed + 1, APPLY_BYTES)
        _apply(store, entries)


def _apply(store: Store, entries: list[Entry]) -> None:
    writes = [unpack_writes(entry.data) for entry in entries if entry.data and not entry.membership]
    memberships = [entry.data for entry in entries if entry.membership]
    last = entries[-1]
    store.apply(last.index, last.term, writes, memberships[-1] if memberships else None)


def verify(database: Path) -> DatabaseFacts:
    """Read the whole log and every record of every shard of a database (STO-16).

    State that a power loss may have torn is first put back to its checkpoint, as at a start; nothing else is
    changed. Corruption and FormatUnsupported for what is found.
    """
    with held(database) as directory:
        identity = directory.identity()
        shards = [
            facts
            for worker in range(identity.guard.workers)
            for facts in _verified(directory, identity, worker)
        ]
    shards.sort(key=lambda facts: facts.shard)
    return DatabaseFacts(identity.incarnation, identity.node_id, tuple(shards))


def _verified(directory: NodeDirectory, identity: Identity, worker: int) -> Iterator[ShardFacts]:
    home = directory.worker_directory(worker)
    states = {shard: home / f"shard-{shard}" for shard in shards_of(identity, worker)}
    if any(installing(place) for place in states.values()):
        detail = "A snapshot was being installed when the node stopped; start it once before."
        raise KeyLoadError(ErrorCode.RECOVERY_REQUIRED, detail)
    recover_state(home)
    with Wal(home / "wal", worker=worker, incarnation=identity.incarnation) as wal:
        there = {shard: place / DATA_FILE for shard, place in states.items() if (place / DATA_FILE).exists()}
        found = dict(zip(there, verify_images(list(there.values()), every_record=True), strict=True))
        for shard in states:
            log = wal.log(shard)
            check_payloads(log)
            facts = found.get(shard, Facts(Position(0, 0), None))
            if not log.holds(facts.applied.index, facts.applied.term):
                detail = "The log lacks entries that the state of a shard holds."
                raise KeyLoadError(ErrorCode.CORRUPTION, detail)
            yield ShardFacts(
                shard=shard,
                index=facts.applied.index,
                last_index=log.last_index,
                records=facts.records,
                record_bytes=facts.record_bytes,
                digest=facts.digest,
            )


def check_payloads(log: ShardLog) -> None:
    """Read every entry of a log, whose checksums are compared on the way; Corruption for a wrong one."""
    index = log.first_index
    while index <= log.last_index:
        entries = log.entries(index, log.last_index + 1, APPLY_BYTES)
        for entry in entries:
            if entry.data and not entry.membership:
                unpack_writes(entry.data)
        index += len(entries)
