"""Files of any size, one piece at a time: hashing, copying, reading what others made (BKP-11)."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from keyload.backup.manifest import FileEntry, damaged
from keyload.storage import files

PIECE_BYTES = 1 << 20
"""Most bytes of a file in memory at once, and the longest record of an archive (BKP-7)."""

SYNC_BYTES = 16 << 20
"""How much is written before it is put on disk, so that a long copy never holds up other writers for long."""


def open_source(path: Path) -> int:
    """A descriptor of a regular file, opened without changing anything about it.

    Corruption when it is a link or no regular file; OSError when it cannot be opened.
    """
    if path.is_symlink():
        raise damaged(f"{path.name} is a symbolic link.")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise damaged(f"{path.name} is not a regular file.")
    return descriptor


def pieces(path: Path) -> Iterator[bytes]:
    """The content of a file."""
    descriptor = open_source(path)
    try:
        while piece := os.read(descriptor, PIECE_BYTES):
            yield piece
    finally:
        os.close(descriptor)


def read_whole(path: Path, limit: int) -> bytes:
    """A small file; Corruption when it is longer than `limit`."""
    descriptor = open_source(path)
    try:
        content = b""
        while len(content) <= limit and (piece := os.read(descriptor, limit + 1 - len(content))):
            content += piece
    finally:
        os.close(descriptor)
    if len(content) > limit:
        raise damaged(f"{path.name} is longer than {limit} bytes.")
    return content


class Tally:
    """Length and SHA-256 of what passes by."""

    def __init__(self) -> None:
        self.bytes = 0
        self._hash = hashlib.sha256()

    def add(self, piece: bytes) -> None:
        """Count a piece."""
        self.bytes += len(piece)
        self._hash.update(piece)

    @property
    def sha256(self) -> str:
        """The hash so far, in hex."""
        return self._hash.hexdigest()

    def entry(self, name: str) -> FileEntry:
        """What has passed by, under a name."""
        return FileEntry(name=name, bytes=self.bytes, sha256=self.sha256)


def checked(entry: FileEntry, content: Iterator[bytes]) -> Iterator[bytes]:
    """Hand pieces on; Corruption as soon as they are too many, or at their end when they are not `entry`."""
    tally = Tally()
    for piece in content:
        tally.add(piece)
        if tally.bytes > entry.bytes:
            break
        yield piece
    if (tally.bytes, tally.sha256) != (entry.bytes, entry.sha256):
        raise damaged(f"{entry.name} has a wrong length or hash.")


class Sink:
    """A file being written, put on disk every `SYNC_BYTES` and at the end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._unsynced = 0
        self.tally = Tally()

    def write(self, piece: bytes) -> None:
        """Append a piece."""
        view = memoryview(piece)
        while view:
            view = view[os.write(self._descriptor, view) :]
        self.tally.add(piece)
        self._unsynced += len(piece)
        if self._unsynced >= SYNC_BYTES:
            self.sync()

    def sync(self) -> None:
        """Make what was written durable."""
        os.fdatasync(self._descriptor)
        self._unsynced = 0


@contextmanager
def new_file(path: Path) -> Generator[Sink, None, None]:
    """A private file that was not there before; durable when the block ends well."""
    descriptor = files.open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        sink = Sink(descriptor)
        yield sink
        sink.sync()
    finally:
        os.close(descriptor)


def write_file(path: Path, content: Iterator[bytes]) -> FileEntry:
    """Write a new file and tell what it is."""
    with new_file(path) as sink:
        for piece in content:
            sink.write(piece)
    return sink.tally.entry(path.name)


def drain(content: Iterator[bytes], take: Callable[[bytes], object] = len) -> None:
    """Read everything, for the checks made on the way."""
    for piece in content:
        take(piece)
