"""The applied state of one shard: an LMDB environment that knows how far in the log it is (STO-7, STO-11).

Commits do not sync: a killed process loses nothing of the page cache, and after a power loss the state is
put back to its last checkpoint and the log makes the rest again. One process and its threads use an
environment; it must never be carried through a fork.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable
from pathlib import Path

import lmdb

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import checkpoint, files, generation, keys, layout, pages
from keyload.storage.checkpoint import Checkpoint, SavedCheckpoint
from keyload.storage.hooks import Step, unwatched
from keyload.storage.keys import WriteSet
from keyload.storage.layout import Databases, Position, translate
from keyload.storage.reader import Charge, StoreReader

MAP_BYTES = 1 << 40
"""Address space of an environment; it costs nothing until used and never changes while open."""

_RECORD_HEAD = struct.Struct("<II")


class Cut:
    """The state as of one position, kept for a copy of it; close it soon, for it keeps old pages in use.

    `reader` reads it, `membership` are the replicas as of that position.
    """

    def __init__(self, environment: lmdb.Environment, reader: StoreReader, membership: bytes | None) -> None:
        self._environment = environment
        self.reader = reader
        self.position = reader.applied
        self.membership = membership

    def copy(self, descriptor: int) -> None:
        """Write a compacted image of this cut to a file or pipe; for a thread. Corruption when the state is
        damaged, RecoveryRequired when it cannot be read or nobody reads the pipe any more."""
        try:
            self.reader.copy(self._environment, descriptor)
        except lmdb.Error as error:
            raise translate(error) from error

    def close(self) -> None:
        """Let the pages that only this cut holds be used again; a second call does nothing."""
        self.reader.close()


class Store:
    """One shard's state.

    `applied` is the position of the last applied entry, `durable` that of the last checkpoint, `membership`
    the replicas as of `applied` (None before the first entry that names them), `generation` how often all of
    the state was replaced (CLU-26), `maximum_bytes` the size at which `full` says that new writes are to be
    refused (STO-19); entries already committed are still applied then.

    Opening makes the present state durable as a checkpoint before anything is written, for a killed process
    left writes of its own behind and its pin is gone. Errors of opening: FormatUnsupported for a foreign
    file or version, Corruption for a damaged one; both leave it as it is. ResourceExhausted and
    RecoveryRequired as in `Checkpoint.complete`. A new state begins with the replicas `membership`. `step`
    is called at each step of a checkpoint (STO-24).
    """

    def __init__(
        self,
        directory: Path,
        maximum_bytes: int,
        *,
        map_bytes: int = MAP_BYTES,
        max_readers: int = 256,
        membership: bytes | None = None,
        step: Step = unwatched,
    ) -> None:
        files.private_directory(directory)
        _check_files(directory)
        saved = checkpoint.load(directory)
        self._directory = directory
        self._maximum_bytes = min(maximum_bytes, map_bytes // 2)
        self._step = step
        self._owner = os.getpid()
        self._pinned: Checkpoint | None = None
        self._pending: Checkpoint | None = None
        self._closed = False
        self.generation = generation.load(directory)
        try:
            self._environment = lmdb.open(
                str(directory),
                map_size=map_bytes,
                mode=files.FILE_MODE,
                sync=False,
                max_readers=max_readers,
                max_dbs=layout.MAXIMUM_DATABASES,
                max_spare_txns=8,
                lib_version=0,
            )
            try:
                self._databases = _open_databases(self._environment, membership)
                with self._environment.begin() as transaction:
                    stored = transaction.get(layout.POSITION_KEY, db=self._databases.meta)
                    self.membership = transaction.get(layout.MEMBERSHIP_KEY, db=self._databases.meta)
                    self._has_long_keys = transaction.stat(self._databases.long)["entries"] > 0
                self.applied = self.durable = Position.unpacked(stored)
                self._first_checkpoint(saved)
            except BaseException:
                self._release()
                raise
        except lmdb.Error as error:
            raise translate(error) from error

    def _first_checkpoint(self, saved: SavedCheckpoint | None) -> None:
        """Pin the state as it is, and make it durable if the file does not say that it is."""
        first = self.begin_checkpoint()
        if first.saved == saved:
            first.already_saved()
        else:
            first.complete()
        self.adopt(first)

    # -- checkpoints

    def begin_checkpoint(self) -> Checkpoint:
        """Pin the present state for a checkpoint: between two writes, in the thread that makes them, in far
        less than a millisecond (STO-17).

        One at a time: the one before was adopted, or its `complete` failed. Corruption when the file does not
        hold what was written, RecoveryRequired when a sync has failed before.
        """
        if self._pending is not None:
            if self._pending.sync_failed:
                raise checkpoint.sync_failure()
            if not self._pending.failed:
                raise RuntimeError("a checkpoint is under way already")
        try:
            with self._environment.begin(write=True):  # empty, so nobody writes meanwhile
                pin = self.reader()
                try:
                    saved = self._saved_form(pin)
                except BaseException:
                    pin.close()
                    raise
        except lmdb.Error as error:
            raise translate(error) from error
        self._pending = Checkpoint(self._environment, self._directory, pin, saved, self._step)
        self._step(checkpoint.PINNED)
        return self._pending

    def _saved_form(self, pin: StoreReader) -> SavedCheckpoint:
        """What the checkpoint file is to say of a cut nobody has written after."""
        descriptor = files.open_private(self._directory / layout.DATA_FILE, os.O_RDONLY)
        try:
            page = pages.read_meta_page(descriptor, pin.transaction_id)
            return SavedCheckpoint(pin.applied, os.fstat(descriptor).st_size, page)
        finally:
            os.close(descriptor)

    def adopt(self, completed: Checkpoint) -> None:
        """Take a completed checkpoint for the durable one and let the pages of the one before be used again;
        in the thread that writes."""
        if completed is not self._pending or not completed.done:
            raise RuntimeError("only the completed checkpoint of this store can be adopted")
        former, self._pinned, self._pending = self._pinned, completed, None
        self.durable = completed.position
        if former is not None:
            former.unpin()

    def cut(self) -> Cut:
        """The present state, to be copied by another thread while this store goes on. ResourceExhausted when
        all reader slots are taken."""
        return Cut(self._environment, self.reader(), self.membership)

    # -- reading and writing

    def reader(self, charge: Charge | None = None) -> StoreReader:
        """A cut of the present state; use it in one thread and close it soon: it keeps old pages in use.

        `charge` is called with the bytes of each record before they are copied (ADM-23). ResourceExhausted
        when all reader slots are taken.
        """
        return StoreReader(self._environment, self._databases, self._has_long_keys, charge)

    def apply(
        self, index: int, term: int, write_sets: Iterable[WriteSet], membership: bytes | None = None
    ) -> None:
        """Put the write sets of the entries up to (`index`, `term`) into the state, all of them or none
        (STO-7), with the last membership among them.

        ResourceExhausted when the disk or the map is full, Corruption when the state is damaged or the entry
        is not a later one, RecoveryRequired for anything else; the state is then the one before.
        """
        if index <= self.applied.index or term < self.applied.term:
            raise KeyLoadError(ErrorCode.CORRUPTION, "An entry was to be applied out of its order.")
        if os.getpid() != self._owner:
            raise KeyLoadError(ErrorCode.RECOVERY_REQUIRED, "A store was carried into another process.")
        last: dict[bytes, bytes | None] = {}
        for writes in write_sets:
            last.update(writes)
        position = Position(index, term)
        if not self._has_long_keys:
            # Set before the commit, so that a reader that can see a long key also looks for it.
            self._has_long_keys = any(len(key) == keys.LONG_KEY_BYTES for key in last)
        try:
            with self._environment.begin(write=True) as transaction:
                self._put_all(transaction, last)
                transaction.put(layout.POSITION_KEY, position.packed(), db=self._databases.meta)
                if membership is not None:
                    transaction.put(layout.MEMBERSHIP_KEY, membership, db=self._databases.meta)
        except lmdb.Error as error:
            raise translate(error) from error
        self.applied = position
        self.membership = self.membership if membership is None else membership

    def _put_all(self, transaction: lmdb.Transaction, last: dict[bytes, bytes | None]) -> None:
        """Write in key order, which keeps LMDB on the page it is on."""
        short: list[tuple[bytes, bytes]] = []
        long: list[tuple[bytes, bytes]] = []
        for key, value in sorted(last.items()):
            is_long = len(key) == keys.LONG_KEY_BYTES
            if value is None:
                transaction.delete(key, db=self._databases.long if is_long else self._databases.short)
            else:
                (long if is_long else short).append((key, value))
        if short:
            transaction.cursor(self._databases.short).putmulti(short)
        if long:
            transaction.cursor(self._databases.long).putmulti(long)

    def digest(self) -> str:
        """SHA-256 over all stored keys and values of one cut; equal on all replicas at one index (CLU-13)."""
        digest = hashlib.sha256()
        try:
            with self._environment.begin(buffers=True) as transaction:
                for database in (self._databases.short, self._databases.long):
                    for key, value in transaction.cursor(database):
                        digest.update(_RECORD_HEAD.pack(len(key), len(value)))
                        digest.update(key)
                        digest.update(value)
        except lmdb.Error as error:
            raise translate(error) from error
        return digest.hexdigest()

    @property
    def used_bytes(self) -> int:
        """Bytes of the pages that hold data; pages that wait to be used again do not count."""
        try:
            with self._environment.begin() as transaction:
                stats = [transaction.stat(database) for database in self._databases]
        except lmdb.Error as error:
            raise translate(error) from error
        return sum(
            (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]) * stat["psize"]
            for stat in stats
        )

    @property
    def full(self) -> bool:
        """Whether the state has reached `maximum_bytes`, or half of its address space, because pages that a
        checkpoint or a reader keeps need room there too (STO-19)."""
        return self.used_bytes >= self._maximum_bytes

    def reader_check(self) -> int:
        """Free the reader slots of dead processes; returns how many there were."""
        return self._environment.reader_check()

    def close(self, *, durable: bool = True) -> None:
        """Make the state durable as a last checkpoint unless it is to be thrown away, and close the
        environment; every reader and cut must be closed before. A second call does nothing.

        Waits for a checkpoint that a thread works at. Errors as in `Checkpoint.complete`; it is closed all
        the same.
        """
        if self._closed:
            return
        try:
            if durable:
                self._last_checkpoint()
        finally:
            self._release()

    def _last_checkpoint(self) -> None:
        if self._pending is not None:
            self._pending.give_up()
            if self._pending.done:
                self.adopt(self._pending)
        if self.durable != self.applied:
            last = self.begin_checkpoint()
            last.complete()
            self.adopt(last)

    def _release(self) -> None:
        """Drop the pins and close the environment."""
        self._closed = True
        if self._pending is not None:
            self._pending.give_up()
            self._pending.unpin()
        if self._pinned is not None:
            self._pinned.unpin()
        self._environment.close()


def _check_files(directory: Path) -> None:
    """Refuse links and foreign or cut-off files before LMDB opens anything (STO-2, STO-3)."""
    for name in (layout.DATA_FILE, layout.LOCK_FILE):
        path = directory / name
        if os.path.lexists(path):
            os.close(files.open_private(path, os.O_RDONLY))
    pages.check_signature(directory / layout.DATA_FILE)


def _open_databases(environment: lmdb.Environment, membership: bytes | None) -> Databases:
    """Open the named databases after a look at the format; in an environment without any, make them."""
    if environment.stat()["entries"]:
        return layout.open_existing(environment)
    with environment.begin(write=True) as transaction:
        databases = Databases(
            *(environment.open_db(name, txn=transaction) for name in (layout.META, layout.SHORT, layout.LONG))
        )
        transaction.put(layout.FORMAT_KEY, layout.FORMAT, db=databases.meta)
        transaction.put(layout.POSITION_KEY, Position(0, 0).packed(), db=databases.meta)
        if membership is not None:
            transaction.put(layout.MEMBERSHIP_KEY, membership, db=databases.meta)
    return databases
