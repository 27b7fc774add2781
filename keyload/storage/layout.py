"""How a shard's LMDB environment is laid out, and what its failures mean to callers.

`meta` holds the format, the applied position and the membership, `short` the keys of at most 510 bytes,
`long` all others. Further databases may stand beside them.
"""

from __future__ import annotations

import errno
import struct
from typing import TYPE_CHECKING, NamedTuple, Self

import lmdb
import msgspec

from keyload.contract.errors import ErrorCode, KeyLoadError

if TYPE_CHECKING:
    from lmdb import _Database as Database  # pyright: ignore[reportPrivateUsage]

DATA_FILE = "data.mdb"
LOCK_FILE = "lock.mdb"

BOOT_MARKER = "boot"
"""File of a worker's directory; where it is missing, no state there is trusted (`keyload.storage.boot`)."""

META = b"meta"
SHORT = b"short"
LONG = b"long"
MAXIMUM_DATABASES = 8

FORMAT_KEY = b"format"
FORMAT = b"keyload state" + struct.pack("<H", 1)
"""Signature and version of the state (STO-3)."""

_POSITION = struct.Struct("<QQ")
POSITION_BYTES = _POSITION.size


class Databases(NamedTuple):
    """Handles of the named databases."""

    meta: Database
    short: Database
    long: Database


class Position(msgspec.Struct, frozen=True, order=True):
    """An entry of a shard's log, in a store the last applied one: its index and its term; zeros before the
    first."""

    index: int
    term: int

    def packed(self) -> bytes:
        """As it stands under `POSITION_KEY` and in the log."""
        return _POSITION.pack(self.index, self.term)

    @classmethod
    def unpacked(cls, stored: bytes | memoryview | None) -> Self:
        """Undo `packed`; Corruption when nothing or something else is stored."""
        if stored is None or len(stored) != _POSITION.size:
            raise KeyLoadError(ErrorCode.CORRUPTION, "A position in the log is missing or damaged.")
        return cls(*_POSITION.unpack(stored))


POSITION_KEY = b"applied"

MEMBERSHIP_KEY = b"membership"
"""The replicas as of the applied position; absent until an entry or an image brought them."""

_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
_DAMAGED = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, lmdb.BadValsizeError)
_EXHAUSTED = (lmdb.MapFullError, lmdb.ReadersFullError, lmdb.TxnFullError, lmdb.MemoryError)


def translate(error: lmdb.Error) -> KeyLoadError:
    """The contract's name for a failure of LMDB."""
    if isinstance(error, _EXHAUSTED) or error.code in _FULL_DISK:
        return KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, "The store has no room left for this step.")
    if isinstance(error, _DAMAGED):
        return KeyLoadError(ErrorCode.CORRUPTION, "The state of a shard is damaged.")
    if isinstance(error, lmdb.VersionMismatchError):
        return KeyLoadError(ErrorCode.FORMAT_UNSUPPORTED, "The state of a shard has an unknown format.")
    return KeyLoadError(ErrorCode.RECOVERY_REQUIRED, "The state of a shard could not be read or written.")


def open_existing(environment: lmdb.Environment) -> Databases:
    """The named databases of an environment that has some. FormatUnsupported when it is a foreign one or of
    another version, Corruption when one is missing; also raises lmdb.Error."""
    try:
        meta = environment.open_db(META, create=False)
    except lmdb.NotFoundError as error:
        detail = "The state of a shard has no format record."
        raise KeyLoadError(ErrorCode.FORMAT_UNSUPPORTED, detail) from error
    with environment.begin() as transaction:
        if transaction.get(FORMAT_KEY, db=meta) != FORMAT:
            detail = "The state of a shard has an unknown format version."
            raise KeyLoadError(ErrorCode.FORMAT_UNSUPPORTED, detail)
    try:
        short, long = (environment.open_db(name, create=False) for name in (SHORT, LONG))
    except lmdb.NotFoundError as error:
        raise KeyLoadError(ErrorCode.CORRUPTION, "The state of a shard has lost a database.") from error
    return Databases(meta, short, long)
