"""What a worker has made durable, noted from inside its process while it runs.

The file system is modelled as inodes and directories. The content of an inode is durable as it was when its
last completed sync began; the names in a directory are durable as they were when its last completed sync
began. Everything later may be lost, name changes in the order they were made.

The note lies in a directory beside the data: `links/I` keeps inode I from being given away, `synced/I` is its
durable content, `journal` has one line for each change of names and each sync of a directory. Before `ready`
is there nothing was noted, and nothing changed.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

_real_fsync = os.fsync
_real_fdatasync = os.fdatasync
_real_rename = os.rename
_real_replace = os.replace
_real_unlink = os.unlink

LINKS, SYNCED, JOURNAL, READY = "links", "synced", "journal", "ready"


class Line(msgspec.Struct, frozen=True):
    """One line of the journal. `kind`: "begin" and "end" of the sync of directory `name` (with its `table` at
    the beginning, and a `number` for both), "rename" of `name` to `target`, "unlink" of `name`. Names are
    relative to the root, `inode` is what the name stood for."""

    kind: str
    name: str
    target: str = ""
    inode: int = 0
    number: int = 0
    table: dict[str, int] = {}


class Recorder:
    """Notes in `side` what happens to the files below `root`; a fresh `side` takes all that is there as
    durable.

    With `kill_at` the process ends itself with SIGKILL at that event: before a sync, behind one, before a
    change of names, or behind it.
    """

    def __init__(self, root: Path, side: Path, kill_at: int | None) -> None:
        self._root = root
        self._side = side
        self._left: int | None = None
        self._number = 0
        self._lock = threading.Lock()
        fresh = not (side / READY).exists()
        for name in (LINKS, SYNCED):
            (side / name).mkdir(parents=True, exist_ok=True)
        self._journal = os.open(side / JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._links = os.open(side / LINKS, os.O_RDONLY)
        if fresh:
            self._take_all(root)
            (side / READY).touch()
        self._left = kill_at

    def _take_all(self, root: Path) -> None:
        for directory, _, names in os.walk(root):
            for name in names:
                path = Path(directory) / name
                inode = path.stat().st_ino
                os.link(path, self._side / LINKS / str(inode))
                shutil.copyfile(path, self._side / SYNCED / str(inode))
            self.end_directory(self.begin_directory(directory))

    # -- events

    def event(self) -> None:
        """Something a kill may happen at."""
        with self._lock:
            if self._left is not None:
                self._left -= 1
                if self._left <= 0:
                    os.kill(os.getpid(), signal.SIGKILL)

    def _write(self, line: Line) -> None:
        os.write(self._journal, msgspec.json.encode(line) + b"\n")

    def _relative(self, path: Any) -> str | None:
        """Name below the root, None for anything else."""
        full = Path(path)
        return str(full.relative_to(self._root)) if full.is_relative_to(self._root) else None

    # -- files

    def begin_file(self, descriptor: int) -> Path:
        """A sync of this file begins: keep its content as of now aside."""
        inode = os.fstat(descriptor).st_ino
        source = f"/proc/self/fd/{descriptor}"
        if not (self._side / LINKS / str(inode)).exists():
            os.link(source, self._side / LINKS / str(inode), src_dir_fd=self._links, follow_symlinks=True)
        with self._lock:
            self._number += 1
            copy = self._side / SYNCED / f"{inode}.{self._number}"
        shutil.copyfile(source, copy)
        self.event()
        return copy

    def end_file(self, copy: Path) -> None:
        """The sync has ended: the content kept aside is durable."""
        _real_replace(copy, copy.with_suffix(""))
        self.event()

    # -- directories

    def begin_directory(self, path: str) -> Line:
        """A sync of this directory begins: note its names as of now."""
        with self._lock:
            self._number += 1
            line = Line("begin", self._relative(path) or ".", number=self._number, table=self._table(path))
            self._write(line)
        self.event()
        return line

    def _table(self, path: str) -> dict[str, int]:
        """The names of files in a directory, whose inodes are kept from now on."""
        table: dict[str, int] = {}
        for entry in os.scandir(path):
            if entry.is_file(follow_symlinks=False):
                table[entry.name] = entry.inode()
                link = self._side / LINKS / str(entry.inode())
                if not link.exists():
                    os.link(entry.path, link)
        return table

    def end_directory(self, begun: Line) -> None:
        """The sync has ended: the names noted are durable."""
        with self._lock:
            self._write(Line("end", begun.name, number=begun.number))
        self.event()

    # -- what takes the place of the functions of `os`

    def install(self) -> None:
        """Stand in for the functions that sync and rename, in this process."""
        os.fsync = self._synced(_real_fsync)
        os.fdatasync = self._synced(_real_fdatasync)
        os.rename = self._renamed(_real_rename)
        os.replace = self._renamed(_real_replace)
        os.unlink = self._unlink

    def _synced(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def sync(descriptor: int) -> None:
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            if self._relative(path) is None:
                real(descriptor)
            elif path.is_dir():
                begun = self.begin_directory(str(path))
                real(descriptor)
                self.end_directory(begun)
            else:
                copy = self.begin_file(descriptor)
                real(descriptor)
                self.end_file(copy)

        return sync

    def _renamed(self, real: Callable[..., None]) -> Callable[..., None]:
        def rename(source: Any, target: Any, **places: Any) -> None:
            names = self._relative(source), self._relative(target)
            if names[0] is None or names[1] is None:
                real(source, target, **places)
                return
            self.event()
            inode = Path(source).stat().st_ino
            with self._lock:
                real(source, target, **places)
                self._write(Line("rename", names[0], names[1], inode))
            self.event()

        return rename

    def _unlink(self, path: Any, **places: Any) -> None:
        name = self._relative(path)
        if name is None:
            _real_unlink(path, **places)
            return
        self.event()
        with self._lock:
            inode = Path(path).stat().st_ino
            _real_unlink(path, **places)
            self._write(Line("unlink", name, inode=inode))
        self.event()
