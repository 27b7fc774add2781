"""The directory of the sockets between a front and its workers, and leftovers of killed fronts (CLU-20)."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

PREFIX = "keyload-"
MAX_SOCKET_PATH = 107
MAX_LEFTOVERS = 100
_LOCK = "lock"


class SocketDirectory:
    """A fresh directory of mode 0700 under TMPDIR, locked while its front lives.

    Making it removes those of this user whose front is gone. Raises OSError.
    """

    def __init__(self) -> None:
        for leftover in islice(_abandoned(), MAX_LEFTOVERS):
            shutil.rmtree(leftover, ignore_errors=True)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        if len(os.fsencode(self.path)) + len("/00-0000000000") > MAX_SOCKET_PATH:
            self.path.rmdir()
            raise OSError("the directory for temporary files (TMPDIR) has too long a name for sockets in it")
        self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Take the directory and all sockets in it away."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _abandoned() -> Iterator[Path]:
    """Private directories of this user that were made here, and that nobody holds any more."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            found = path.lstat()
            private = stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077
            if private and found.st_uid == os.geteuid() and _is_free(path / _LOCK):
                yield path
        except OSError:
            continue


def _is_free(lock: Path) -> bool:
    """Whether the lock is held by no living front; one that is just being made has none yet, or an empty
    directory, and counts as held."""
    descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)
    return True
