"""A backup as one file: an index of its entries, then their content in bounded records (BKP-7).

The file begins with signature and version. Each record has a head (kind, number of the entry, length,
checksum) and at most 1 MiB of content. The first record is the index, the last the SHA-256 of everything
before it, and nothing follows. There is one way to write a given backup, so every other byte is damage.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

import msgspec

from keyload.backup.manifest import IDENTITY, MANIFEST, FileEntry, Manifest, damaged
from keyload.backup.streams import PIECE_BYTES, Sink, checked
from keyload.codec.checksums import crc32
from keyload.contract.errors import ErrorCode, KeyLoadError

VERSION = 1
_SIGNATURE = struct.Struct("<8sHxxxxxx")
_OPENING = _SIGNATURE.pack(b"KEYLDARC", VERSION)
_HEAD = struct.Struct("<BxxxII")
"""Kind, number of the entry, length of the content; a checksum over head and content follows."""

_CHECKSUM_BYTES = 4
_INDEX, _CONTENT, _END = 1, 2, 3
MAXIMUM_ENTRIES = 65_538


class _Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entries in the order of their content."""

    entries: Annotated[tuple[FileEntry, ...], msgspec.Meta(min_length=1, max_length=MAXIMUM_ENTRIES)]


class _Record(NamedTuple):
    kind: int
    entry: int
    content: bytes


class ArchiveWriter:
    """Writes an archive of `entries` to a sink; the content of each follows in their order."""

    def __init__(self, sink: Sink, entries: Sequence[FileEntry]) -> None:
        self._sink = sink
        self._entry = 0
        sink.write(_OPENING)
        self._record(_INDEX, 0, msgspec.json.encode(_Index(tuple(entries))))

    def add(self, content: Iterator[bytes]) -> None:
        """The content of the next entry; pieces of `PIECE_BYTES`, the last one shorter."""
        for piece in content:
            self._record(_CONTENT, self._entry, piece)
        self._entry += 1

    def finish(self) -> None:
        """End the archive."""
        self._record(_END, self._entry, bytes.fromhex(self._sink.tally.sha256))

    def _record(self, kind: int, entry: int, content: bytes) -> None:
        if len(content) > PIECE_BYTES:
            raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, "The backup has too many files for an archive.")
        head = _HEAD.pack(kind, entry, len(content))
        self._sink.write(head + crc32(content, crc32(head)).to_bytes(_CHECKSUM_BYTES, "little") + content)


class ArchiveReader:
    """Reads an archive from a descriptor, once and in order, and checks every byte.

    FormatUnsupported for a file that is no archive, of another version, or without a manifest; Corruption for
    anything else that is not as it was written.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._hash = hashlib.sha256()
        self.bytes = 0
        if self._read(len(_OPENING)) != _OPENING:
            detail = "The file is no archive of a backup, or of an unknown version."
            raise KeyLoadError(ErrorCode.FORMAT_UNSUPPORTED, detail)
        self.entries = _entries(self._record())

    def contents(self) -> Iterator[tuple[FileEntry, Iterator[bytes]]]:
        """Each entry with its content, which must be read before the next one is asked for."""
        for number, entry in enumerate(self.entries):
            yield entry, checked(entry, self._pieces(number, entry.bytes))
        sha256 = self._hash.digest()
        if self._record() != _Record(_END, len(self.entries), sha256) or os.read(self._descriptor, 1):
            raise damaged("The end of the archive is damaged.")

    @property
    def sha256(self) -> str:
        """SHA-256 of what was read so far, in the end that of the whole file."""
        return self._hash.hexdigest()

    def _pieces(self, number: int, left: int) -> Iterator[bytes]:
        while left > 0:
            kind, entry, content = self._record()
            if (kind, entry, len(content)) != (_CONTENT, number, min(left, PIECE_BYTES)):
                raise damaged("The archive holds its content in another order than its index says.")
            left -= len(content)
            yield content

    def _record(self) -> _Record:
        head = self._read(_HEAD.size)
        checksum = self._read(_CHECKSUM_BYTES)
        if len(checksum) < _CHECKSUM_BYTES:
            raise damaged("The archive is cut off.")
        kind, entry, length = _HEAD.unpack(head)
        if length > PIECE_BYTES:
            raise damaged("A record of the archive is longer than one may be.")
        content = self._read(length)
        if crc32(content, crc32(head)).to_bytes(_CHECKSUM_BYTES, "little") != checksum or any(head[1:4]):
            raise damaged("A record of the archive is damaged.")
        return _Record(kind, entry, content)

    def _read(self, count: int) -> bytes:
        """The next bytes, fewer at the end of the file."""
        content = b""
        while len(content) < count and (part := os.read(self._descriptor, count - len(content))):
            content += part
        self.bytes += len(content)
        self._hash.update(content)
        return content


def _entries(record: _Record) -> tuple[FileEntry, ...]:
    """The entries of the index; their names are settled when the manifest is known."""
    if record.kind != _INDEX or record.entry:
        raise damaged("The archive does not begin with its index.")
    try:
        index = msgspec.json.decode(record.content, type=_Index)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise damaged("The index of the archive is damaged.") from None
    names = [entry.name for entry in index.entries]
    if len(set(names)) != len(names):
        raise damaged("The archive holds an entry twice.")
    if MANIFEST not in names:
        raise KeyLoadError(ErrorCode.FORMAT_UNSUPPORTED, "The archive holds no manifest.")
    if names[0] != MANIFEST:
        raise damaged("The archive does not begin with its manifest.")
    return index.entries


def check_entries(entries: Sequence[FileEntry], manifest: Manifest) -> None:
    """Corruption unless the entries behind the manifest are exactly the files that it names, so that no other
    name, whatever it is, can be unpacked (BKP-9, BKP-10).
    """
    if tuple(entries[1:]) != manifest.files or entries[1].name != IDENTITY:
        raise damaged("The archive holds other entries than its manifest says.")
