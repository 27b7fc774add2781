"""The applied state of one shard: an LMDB environment that knows how far in the log it is (STO-7, STO-11).

Commits do not sync: a killed process loses nothing of the page cache, and after a power loss the state is
made again from the log. One process and its threads use an environment; it must never be carried through a
fork.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable
from pathlib import Path

import lmdb

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import files, keys, layout
from keyload.storage.keys import WriteSet
from keyload.storage.layout import Databases, Position, translate
from keyload.storage.reader import Charge, StoreReader

MAP_BYTES = 1 << 40
"""Address space of an environment; it costs nothing until used and never changes while open."""

_DATA = "data.mdb"
_LOCK = "lock.mdb"
_META_PAGES = 2
_META_HEAD = struct.Struct("<16xII")
_LMDB_MAGIC = 0xBEEFC0DE
_LMDB_VERSION = 1
_RECORD_HEAD = struct.Struct("<II")


class Store:
    """One shard's state.

    `applied` is the position of the last applied entry, `maximum_bytes` the size at which `full` says that
    new writes are to be refused (STO-19); entries already committed are still applied then. Errors of
    opening: FormatUnsupported for a foreign file or version, Corruption for a damaged one; both leave it as
    it is.
    """

    def __init__(
        self,
        directory: Path,
        maximum_bytes: int,
        *,
        map_bytes: int = MAP_BYTES,
        max_readers: int = 256,
    ) -> None:
        files.private_directory(directory)
        _check_files(directory)
        self._maximum_bytes = maximum_bytes
        self._owner = os.getpid()
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
                self._databases = _open_databases(self._environment)
                with self._environment.begin() as transaction:
                    stored = transaction.get(layout.POSITION_KEY, db=self._databases.meta)
                    self._has_long_keys = transaction.stat(self._databases.long)["entries"] > 0
                self.applied = Position.unpacked(stored)
            except BaseException:
                self._environment.close()
                raise
        except lmdb.Error as error:
            raise translate(error) from error

    def reader(self, charge: Charge | None = None) -> StoreReader:
        """A cut of the present state; use it in one thread and close it soon: it keeps old pages in use.

        `charge` is called with the bytes of each record before they are copied (ADM-23). ResourceExhausted
        when all reader slots are taken.
        """
        return StoreReader(self._environment, self._databases, self._has_long_keys, charge)

    def apply(self, index: int, term: int, write_sets: Iterable[WriteSet]) -> None:
        """Put the write sets of the entries up to (`index`, `term`) into the state, all of them or none
        (STO-7).

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
        except lmdb.Error as error:
            raise translate(error) from error
        self.applied = position

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
        """Whether the state has reached `maximum_bytes` (STO-19)."""
        return self.used_bytes >= self._maximum_bytes

    def reader_check(self) -> int:
        """Free the reader slots of dead processes; returns how many there were."""
        return self._environment.reader_check()

    def sync(self) -> None:
        """Make the state durable. Slow on a busy disk: never in the worker's loop."""
        try:
            self._environment.sync(True)
        except lmdb.Error as error:
            raise translate(error) from error

    def close(self) -> None:
        """Close the environment; every reader must be closed before. A second call does nothing."""
        self._environment.close()


def _check_files(directory: Path) -> None:
    """Refuse links and foreign or cut-off files before LMDB opens anything (STO-2, STO-3)."""
    for name in (_DATA, _LOCK):
        path = directory / name
        if os.path.lexists(path):
            os.close(files.open_private(path, os.O_RDONLY))
    path = directory / _DATA
    if not path.exists() or path.stat().st_size == 0:
        return
    page = os.sysconf("SC_PAGE_SIZE")
    with path.open("rb") as file:
        for number in range(_META_PAGES):
            file.seek(number * page)
            head = file.read(_META_HEAD.size)
            if len(head) < _META_HEAD.size:
                raise KeyLoadError(ErrorCode.CORRUPTION, "The state of a shard is cut off.")
            if _META_HEAD.unpack(head) != (_LMDB_MAGIC, _LMDB_VERSION):
                raise KeyLoadError(
                    ErrorCode.FORMAT_UNSUPPORTED, "The state of a shard has an unknown signature."
                )


def _open_databases(environment: lmdb.Environment) -> Databases:
    """Open the named databases after a look at the format; in an environment without any, make them."""
    if environment.stat()["entries"]:
        with environment.begin() as transaction:
            _check_format(environment, transaction)
    with environment.begin(write=True) as transaction:
        databases = Databases(
            *(environment.open_db(name, txn=transaction) for name in (layout.META, layout.SHORT, layout.LONG))
        )
        if transaction.get(layout.FORMAT_KEY, db=databases.meta) is None:
            transaction.put(layout.FORMAT_KEY, layout.FORMAT, db=databases.meta)
            transaction.put(layout.POSITION_KEY, Position(0, 0).packed(), db=databases.meta)
    return databases


def _check_format(environment: lmdb.Environment, transaction: lmdb.Transaction) -> None:
    try:
        meta = environment.open_db(layout.META, txn=transaction, create=False)
    except lmdb.NotFoundError as error:
        raise KeyLoadError(
            ErrorCode.FORMAT_UNSUPPORTED, "The state of a shard has no format record."
        ) from error
    if transaction.get(layout.FORMAT_KEY, db=meta) != layout.FORMAT:
        raise KeyLoadError(
            ErrorCode.FORMAT_UNSUPPORTED, "The state of a shard has an unknown format version."
        )
