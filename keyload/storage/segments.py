"""The files of the log: fixed in size, allocated beforehand, one after the other without a gap.

A segment begins with a header that says what it is and whose. Its first turn tells base, end and hard state
of every shard, so that older segments can be dropped; the rest is zero until turns are written. All of that
is on disk before a new segment gets its name. The segment before is sealed next, and only then the new one is
written to, so a missing last segment is noticed.
"""

from __future__ import annotations

import os
import re
import secrets
import struct
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from threading import Thread
from typing import NamedTuple
from uuid import UUID

from keyload.codec.checksums import crc32
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import files, fresh, records
from keyload.storage.fresh import started

FIRST_SEGMENT = 1
"""The only one that may begin without a turn that tells the state of all shards."""

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

    def __init__(self, header: SegmentHeader, descriptor: int) -> None:
        self.header = header
        self._descriptor = descriptor

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


class SegmentFiles:
    """The segments that are there, their sizes and where the log ends in the last of them.

    A place is the segment's number in the upper 32 bits and an offset below.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptors: dict[int, int] = {}
        self._dropped: deque[int] = deque()
        self._removal: Thread | None = None
        self.sizes: dict[int, int] = {}
        self.end = 0

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

    def bytes_behind(self, place: int) -> int:
        """How much of the log lies at a place and behind it."""
        first = place >> 32
        last = max(self.sizes)
        earlier = sum(size for number, size in self.sizes.items() if first <= number < last)
        return earlier + self.end - (place & 0xFFFFFFFF)

    def drop_before(self, number: int) -> int:
        """Give up the segments before this one, and return how many bytes they have.

        A thread removes their files, the oldest first, because that takes tens of milliseconds. A file that
        could not be removed is tried again by the next call, or when the log is opened.
        """
        freed = 0
        for old in [old for old in sorted(self.sizes) if old < number]:
            freed += self.sizes.pop(old)
            if old in self._descriptors:
                os.close(self._descriptors.pop(old))
            self._dropped.append(old)
        if self._dropped and (self._removal is None or not self._removal.is_alive()):
            self._removal = started(self._remove, "dropped-segments")
        return freed

    def close(self) -> None:
        """Close all files, when those that were given up are removed."""
        if self._removal is not None:
            self._removal.join()
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def _remove(self) -> None:
        """The thread."""
        with suppress(OSError):
            while self._dropped:
                for number in tuple(self._dropped):
                    segment_path(self._directory, number).unlink(missing_ok=True)
                    self._dropped.popleft()
                files.sync_directory(self._directory)


def place_in(segment: int, offset: int) -> int:
    """The place of an offset in a segment."""
    return segment << 32 | offset


def segment_of(place: int) -> int:
    """Number of the segment of a place."""
    return place >> 32


def segment_path(directory: Path, number: int) -> Path:
    """The file of a segment."""
    return directory / f"{number:04d}.log"


def open_segment(directory: Path, header: SegmentHeader) -> Segment:
    """Open a segment that is there to write to it."""
    return Segment(header, files.open_private(segment_path(directory, header.number), os.O_RDWR))


def begin_segment(
    directory: Path, owner: LogOwner, header: SegmentHeader, descriptor: int, head: Sequence[bytes]
) -> Segment:
    """Make the file that `fresh` allocated a segment that begins with the turn `head`, durable with its name.

    ResourceExhausted when the disk is full, before the segment has its name; OSError for any other failure.
    """
    segment = Segment(header, descriptor)
    try:
        segment.write([_packed(header, owner).ljust(DATA_START, b"\0"), *head], 0)
        segment.sync()
    except OSError as error:
        segment.close()
        fresh.give_up(directory, error)
    try:
        fresh.path_in(directory).rename(segment_path(directory, header.number))
        files.sync_directory(directory)
    except OSError:
        segment.close()
        raise
    return segment


def begin_log(directory: Path, owner: LogOwner, size: int) -> None:
    """Make the first segment of a log that has none. Errors as of `fresh.allocate`."""
    if not segment_numbers(directory):
        header = SegmentHeader(size, FIRST_SEGMENT, 1, new_mark())
        begin_segment(directory, owner, header, fresh.allocate(directory, size), []).close()


def new_mark() -> bytes:
    """A mark for a segment, which nobody can guess."""
    return secrets.token_bytes(records.MARK_BYTES)


def segment_numbers(directory: Path) -> list[int]:
    """Numbers of the segments that are there, in order."""
    if not directory.exists():
        return []
    return sorted(int(match[1]) for path in directory.iterdir() if (match := _NAME.fullmatch(path.name)))


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
