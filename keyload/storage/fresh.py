"""The file that becomes the next segment, made ahead in a thread so that the loop of a worker need not wait.

It is allocated in full, filled with zeros, which makes later writes to it cheap to sync, and synced. It has
no name of a segment yet: what is left of one after a stop is no part of the log.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import NoReturn

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import files

_NAME = "fresh"
_CHUNK_BYTES = 1 << 20


def path_in(directory: Path) -> Path:
    """Where the file lies until it is a segment."""
    return directory / _NAME


def allocate(directory: Path, size: int, zeroed_until: Event | None = None) -> int:
    """Make a file of `size` bytes that reads as zeros, synced, and return its descriptor.

    With an event, zeros are really written until it is set. ResourceExhausted when the disk is full, OSError
    for any other failure; then nothing is left of the file and the call may be repeated.
    """
    path = path_in(directory)
    path.unlink(missing_ok=True)
    descriptor = -1
    try:
        descriptor = files.open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        os.posix_fallocate(descriptor, 0, size)
        if zeroed_until is not None:
            _fill(descriptor, size, zeroed_until)
        os.fsync(descriptor)
    except OSError as error:
        if descriptor >= 0:
            os.close(descriptor)
        give_up(directory, error)
    return descriptor


def give_up(directory: Path, error: OSError) -> NoReturn:
    """Remove the file after `error`, and raise ResourceExhausted for a full disk, else the error."""
    path_in(directory).unlink(missing_ok=True)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        detail = "There is no room for the next segment of the log."
        raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, detail) from error
    raise error


def _fill(descriptor: int, size: int, until: Event) -> None:
    """Write zeros, a little at a time so that syncs of the log beside it do not wait for all of them."""
    zeros = bytes(min(size, _CHUNK_BYTES))
    for start in range(0, size, len(zeros)):
        if until.is_set():
            return
        os.pwrite(descriptor, zeros[: size - start], start)
        os.fdatasync(descriptor)


def started(work: Callable[[], None], name: str) -> Thread | None:
    """A thread that does `work`; None when the system has no thread left for this process."""
    thread = Thread(target=work, name=name)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


class FreshFile:
    """Prepares one file at a time; only its owner's thread calls it."""

    def __init__(self, directory: Path, size: int) -> None:
        self._directory = directory
        self._size = size
        self._thread: Thread | None = None
        self._needed = Event()
        self._descriptor = -1

    def prepare(self) -> None:
        """Begin the next file in a thread, unless that was done since the last one was taken."""
        if self._thread is None:
            self._needed.clear()
            self._thread = started(self._run, "next-segment")

    def take(self, size: int) -> int:
        """The descriptor of the file, whose owner the caller becomes.

        A thread that is at it hands over at once what it has. Where it failed, or none was begun, or another
        size is wanted, the file is made here. Errors are those of `allocate`.
        """
        if size != self._size:
            self.close()
        self._finish()
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor if descriptor >= 0 else allocate(self._directory, size)

    def close(self) -> None:
        """End the thread and remove the file; a second call does nothing."""
        self._finish()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            path_in(self._directory).unlink(missing_ok=True)

    def _finish(self) -> None:
        if self._thread is not None:
            self._needed.set()
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        """The thread. A failure is no more than a file that is missing: `take` meets it again."""
        try:
            self._descriptor = allocate(self._directory, self._size, self._needed)
        except (OSError, KeyLoadError):
            self._descriptor = -1
