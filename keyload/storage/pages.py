"""The two meta pages of an LMDB 0.9 file, and how one of them is put back (STO-5).

The meta page of transaction t lies in page t mod 2 and names the roots of the tree that t left. The engine
takes the page with the higher transaction, so a file whose two meta pages name the same tree can only be
opened at that tree.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import files

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
"""The engine takes the page size of the system for each file it makes."""

META_PAGES = 2

_NUMBER = struct.Struct("<Q")
_HEAD = struct.Struct("<16xII16xI")
"""Behind the page header: magic, version, and the page size at the start of the first database record."""

_TRANSACTION = struct.Struct("<Q")
_TRANSACTION_START = 16 + 24 + 2 * 48 + 8
_MAGIC = 0xBEEFC0DE
_VERSION = 1


def read_meta_page(descriptor: int, transaction: int) -> bytes:
    """The meta page that `transaction` wrote; Corruption when the file holds another one there."""
    page = os.pread(descriptor, PAGE_BYTES, transaction % META_PAGES * PAGE_BYTES)
    if not is_meta_page(page) or transaction_of(page) != transaction:
        raise KeyLoadError(ErrorCode.CORRUPTION, "The state of a shard has lost its newest meta page.")
    return page


def is_meta_page(page: bytes) -> bool:
    """Whether these bytes are the whole meta page of some transaction."""
    return (
        len(page) == PAGE_BYTES
        and _HEAD.unpack_from(page) == (_MAGIC, _VERSION, PAGE_BYTES)
        and transaction_of(page) > 0
        and _NUMBER.unpack_from(page)[0] == transaction_of(page) % META_PAGES
    )


def transaction_of(page: bytes) -> int:
    """The transaction that wrote a meta page."""
    return _TRANSACTION.unpack_from(page, _TRANSACTION_START)[0]


def put_back(path: Path, page: bytes) -> None:
    """Make `page` the newest meta page of a file, durably, and the other one name the same tree."""
    other = bytearray(page)
    _NUMBER.pack_into(other, 0, (transaction_of(page) + 1) % META_PAGES)
    _TRANSACTION.pack_into(other, _TRANSACTION_START, transaction_of(page) - 1)
    descriptor = files.open_private(path, os.O_WRONLY)
    try:
        for content in (other, page):
            os.pwrite(descriptor, content, _NUMBER.unpack_from(content)[0] * PAGE_BYTES)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_signature(path: Path) -> None:
    """Refuse a foreign or cut-off file before the engine opens it (STO-3); no file and an empty one are
    good."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("rb") as file:
        for number in range(META_PAGES):
            file.seek(number * PAGE_BYTES)
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size:
                raise KeyLoadError(ErrorCode.CORRUPTION, "The state of a shard is cut off.")
            if _HEAD.unpack(head) != (_MAGIC, _VERSION, PAGE_BYTES):
                raise KeyLoadError(
                    ErrorCode.FORMAT_UNSUPPORTED, "The state of a shard has an unknown signature."
                )
