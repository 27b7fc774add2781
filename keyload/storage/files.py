"""What storage asks of the file system: private files, no links, names that survive a power loss (STO-2,
STO-8)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from keyload.contract.errors import ErrorCode, KeyLoadError

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
_OTHERS = 0o077


def private_directory(path: Path) -> None:
    """Make `path` durably if it is missing, and keep it to its owner; refuse a link or a file in its
    place."""
    if not os.path.lexists(path):
        path.mkdir(mode=DIRECTORY_MODE)
        sync_directory(path.parent)
    mode = path.lstat().st_mode
    if not stat.S_ISDIR(mode):
        raise _refused("A directory of the store is a link or not a directory.")
    if mode & _OTHERS:
        path.chmod(DIRECTORY_MODE)


def open_private(path: Path, flags: int) -> int:
    """Open a regular file of mode 0600 and return its descriptor; links are refused."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        if path.is_symlink():
            raise _refused("A file of the store is a link.") from error
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise _refused("A file of the store is not a regular file.")
    if mode & _OTHERS:
        os.fchmod(descriptor, FILE_MODE)
    return descriptor


def refuse_links(directory: Path) -> None:
    """Refuse symbolic links anywhere below `directory` (STO-2)."""
    for path in directory.rglob("*"):
        if path.is_symlink():
            raise _refused("The data directory holds a symbolic link.")


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(path: Path, content: bytes) -> None:
    """Replace a small file as a whole: after a power loss it is the old one or the new one."""
    fresh = path.with_name(path.name + ".new")
    descriptor = open_private(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    fresh.replace(path)
    sync_directory(path.parent)


def read_small(path: Path, limit: int) -> bytes | None:
    """Content of a small file, at most `limit` + 1 bytes of it; None when there is no such file."""
    if not os.path.lexists(path):
        return None
    descriptor = open_private(path, os.O_RDONLY)
    try:
        return os.read(descriptor, limit + 1)
    finally:
        os.close(descriptor)


def _refused(detail: str) -> KeyLoadError:
    return KeyLoadError(ErrorCode.CORRUPTION, detail)
