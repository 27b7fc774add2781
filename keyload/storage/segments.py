"""The files of the log: fixed in size, allocated beforehand, one after the other without a gap.

A segment begins with a header that says what it is and whose; the rest is zero until turns are written. All
of a new segment is on disk before it gets its name. The segment before is sealed next, and only then the new
one is written to, so a missing last segment is noticed.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import struct
from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from keyload.codec.checksums import crc32
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import files, records

FIRST_SEGMENT = 1
"""The log is whole as long as this segment is there; nothing removes segments before checkpoints do."""

SEGMENT_BYTES = 64 << 20
MAXIMUM_SEGMENT_BYTES = 1 << 30
MINIMUM_SEGMENT_BYTES = 4096
VERSION = 1
DATA_START = 128
"""Where the first turn of a segment begins; the bytes between the header and here are zero."""

_SIGNATURE = b"KEYLDLOG"
_HEADER = struct.Struct("<8sHHxxxxQQQ16s8sI")
"""Signature, version, worker, size, segment number, number of its first turn, incarnation, mark, checksum."""

_HEADER_CHECKED_BYTES = _HEADER.size - 4
_NAME = re.compile(r"([0-9]{4,})\.log")
_FRESH = "fresh"
_OPEN_READERS = 4


class LogOwner(NamedTuple):
    """Whose log it is: a worker of a store's incarnation."""

    worker: int
    incarnation: str


class SegmentHeader(NamedTuple):
    """What the header of a segment says."""

    size: int
    number: int
    first_turn: int
    mark: bytes


class Segment:
    """One open segment, written and synced by its owner alone."""

    def __init__(self, path: Path, header: SegmentHeader) -> None:
        self.header = header
        self._descriptor = files.open_private(path, os.O_RDWR)

    def write(self, buffers: Sequence[bytes], start: int) -> None:
        """Write at `start` with one call; OSError when it fails or is cut short."""
        if os.pwritev(self._descriptor, buffers, start) != sum(map(len, buffers)):
            raise OSError("a write to the log was cut short")

    def sync(self) -> None:
        """Make what was written durable; OSError when that fails."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class SegmentReaders:
    """Reads places of any segment; a place is the segment's number in the upper 32 bits and an offset
    below."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptors: dict[int, int] = {}

    def read(self, place: int, length: int) -> bytes:
        """The bytes at a place, fewer at the end of the file; OSError when they cannot be read."""
        number = place >> 32
        descriptor = self._descriptors.get(number)
        if descriptor is None:
            if len(self._descriptors) >= _OPEN_READERS:
                os.close(self._descriptors.pop(next(iter(self._descriptors))))
            descriptor = files.open_private(segment_path(self._directory, number), os.O_RDONLY)
            self._descriptors[number] = descriptor
        return os.pread(descriptor, length, place & 0xFFFFFFFF)

    def close(self) -> None:
        """Close all files."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


def place_in(segment: int, offset: int) -> int:
    """The place of an offset in a segment."""
    return segment << 32 | offset


def segment_path(directory: Path, number: int) -> Path:
    """The file of a segment."""
    return directory / f"{number:04d}.log"


def create_segment(directory: Path, owner: LogOwner, number: int, first_turn: int, size: int) -> Segment:
    """Make the next segment, durable with its name, and open it.

    ResourceExhausted when the disk is full; then nothing is left of it and the call may be repeated. OSError
    for any other failure.
    """
    header = SegmentHeader(size, number, first_turn, secrets.token_bytes(records.MARK_BYTES))
    fresh = directory / _FRESH
    fresh.unlink(missing_ok=True)
    try:
        descriptor = files.open_private(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            os.posix_fallocate(descriptor, 0, size)
            os.pwrite(descriptor, _packed(header, owner), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            detail = "There is no room for the next segment of the log."
            raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, detail) from error
        raise
    path = segment_path(directory, number)
    fresh.rename(path)
    files.sync_directory(directory)
    return Segment(path, header)


def begin_log(directory: Path, owner: LogOwner, size: int) -> None:
    """Make the first segment of a log that has none."""
    files.private_directory(directory)
    if not segment_numbers(directory):
        create_segment(directory, owner, FIRST_SEGMENT, 1, size).close()


def segment_numbers(directory: Path) -> list[int]:
    """Numbers of the segments that are there; Corruption when one is missing."""
    numbers = sorted(int(match[1]) for path in directory.iterdir() if (match := _NAME.fullmatch(path.name)))
    if numbers and numbers != list(range(FIRST_SEGMENT, FIRST_SEGMENT + len(numbers))):
        raise KeyLoadError(ErrorCode.CORRUPTION, "A segment of the log is missing.")
    return numbers


def load_segment(directory: Path, owner: LogOwner, number: int) -> tuple[SegmentHeader, bytearray]:
    """Header and all bytes of a segment.

    FormatUnsupported for an unknown signature or version; Corruption for anything else that is wrong in the
    header, for another length than it says, and for the log of another worker or incarnation.
    """
    descriptor = files.open_private(segment_path(directory, number), os.O_RDONLY)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        head = file.read(DATA_START)
        header = _unpacked(head, owner)
        if header.number != number or os.fstat(descriptor).st_size != header.size:
            raise KeyLoadError(ErrorCode.CORRUPTION, "A segment of the log has a wrong number or length.")
        content = bytearray(header.size)
        content[: len(head)] = head
        _read_into(file, memoryview(content)[len(head) :])
    return header, content


def _read_into(file: FileIO, view: memoryview) -> None:
    while view:
        count = file.readinto(view)
        if not count:
            raise KeyLoadError(ErrorCode.CORRUPTION, "A segment of the log is shorter than it was.")
        view = view[count:]


def _packed(header: SegmentHeader, owner: LogOwner) -> bytes:
    """The first bytes of a segment."""
    checked = _HEADER.pack(
        _SIGNATURE,
        VERSION,
        owner.worker,
        header.size,
        header.number,
        header.first_turn,
        UUID(owner.incarnation).bytes,
        header.mark,
        0,
    )[:_HEADER_CHECKED_BYTES]
    return checked + crc32(checked).to_bytes(4, "little")


def _unpacked(head: bytes, owner: LogOwner) -> SegmentHeader:
    """Undo `_packed`, checking everything."""
    if len(head) < DATA_START:
        raise KeyLoadError(ErrorCode.CORRUPTION, "A segment of the log is cut off.")
    signature, version, worker, size, number, first_turn, incarnation, mark, checksum = _HEADER.unpack_from(
        head
    )
    if signature != _SIGNATURE or version != VERSION:
        raise KeyLoadError(ErrorCode.FORMAT_UNSUPPORTED, "A segment of the log has an unknown format.")
    if crc32(head[:_HEADER_CHECKED_BYTES]) != checksum or any(head[_HEADER.size :]):
        raise KeyLoadError(ErrorCode.CORRUPTION, "The header of a log segment is damaged.")
    if worker != owner.worker or incarnation != UUID(owner.incarnation).bytes:
        raise KeyLoadError(
            ErrorCode.CORRUPTION, "A segment of the log belongs to another worker or incarnation."
        )
    if not MINIMUM_SEGMENT_BYTES <= size <= MAXIMUM_SEGMENT_BYTES:
        raise KeyLoadError(ErrorCode.CORRUPTION, "A segment of the log has an impossible size.")
    return SegmentHeader(size, number, first_turn, mark)
