"""Images of a worker's directory as a power loss could have left it (STO-18)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path, PurePosixPath
from random import Random

import msgspec

from harness.power.record import JOURNAL, LINKS, READY, SYNCED, Line

PAGE = 4096
SECTOR = 512
MARKER = "boot"

Tables = dict[str, dict[str, int]]
"""Directory (relative to the root) to its names and their inodes."""


class Disk:
    """What a killed worker left: its files, and the note of what was durable."""

    def __init__(self, root: Path, side: Path) -> None:
        self.root = root
        self.side = side
        self._untouched = not (side / READY).exists()
        self._durable, self._pending = _names([] if self._untouched else _journal(side))
        self._live = _live_tables(root)

    def image(self, target: Path, chance: Random) -> None:
        """Make `target` one of the directories a power loss could have left."""
        if self._untouched:
            self.copy(target)
            _change_boot(target / MARKER)
            return
        for directory, table in self._chosen(chance).items():
            (target / directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, inode in table.items():
                self._content(directory, name, inode, target / directory / name, chance)
        _change_boot(target / MARKER)

    def copy(self, target: Path) -> None:
        """The same files without any loss, as a killed process leaves them."""
        shutil.copytree(self.root, target)

    def unsynced(self) -> dict[str, int]:
        """Bytes that differ from the durable ones, per file that has such, for the report."""
        found: dict[str, int] = {}
        if self._untouched:
            return found
        for directory, table in self._live.items():
            for name, inode in table.items():
                new, old = (self.root / directory / name).read_bytes(), self._old(inode)
                if new != old:
                    found[f"{directory}/{name}"] = (
                        sum(
                            new[start : start + SECTOR] != old[start : start + SECTOR]
                            for start in range(0, max(len(new), len(old)), SECTOR)
                        )
                        * SECTOR
                    )
        return found

    def _chosen(self, chance: Random) -> Tables:
        """Durable names, with a random beginning of the later changes in each directory."""
        tables = {directory: dict(self._durable.get(directory, {})) for directory in self._live}
        kept = {directory: chance.randint(0, len(self._pending)) for directory in tables}
        for place, change in enumerate(self._pending):
            if place < kept.get(_directory(change.target or change.name), 0):
                _apply(tables, change)
        after = {directory: dict(self._durable.get(directory, {})) for directory in self._live}
        for change in self._pending:
            _apply(after, change)
        for directory, live in self._live.items():
            changed = {
                name for name in {*live, *after[directory]} if live.get(name) != after[directory].get(name)
            }
            for name in sorted(changed):  # made outside Python, or the change the kill came behind
                if chance.random() < 0.5:
                    tables[directory].pop(name, None)
                    if name in live:
                        tables[directory][name] = live[name]
        return tables

    def _old(self, inode: int) -> bytes:
        path = self.side / SYNCED / str(inode)
        return path.read_bytes() if path.exists() else b""

    def _content(self, directory: str, name: str, inode: int, target: Path, chance: Random) -> None:
        kept = self.side / LINKS / str(inode)
        new = (kept if kept.exists() else self.root / directory / name).read_bytes()
        old = self._old(inode)
        target.write_bytes(new if new == old else torn(old, new, chance))
        target.chmod(0o600)


def torn(old: bytes, new: bytes, chance: Random) -> bytes:
    """A file of which every page is the old one, the new one, or has sectors of both; zeros were before the
    file had them."""
    length = chance.choice((len(old), len(new), chance.randint(*sorted((len(old), len(new))))))
    if length not in (len(old), len(new)):
        length -= length % SECTOR
    share, tearing = chance.choice((0.03, 0.5, 0.5, 0.97)), chance.choice((0.0, 0.2, 1.0))
    old, new = old.ljust(length, b"\0"), new.ljust(length, b"\0")
    result = bytearray(old[:length])
    for start in range(0, length, PAGE):
        if old[start : start + PAGE] == new[start : start + PAGE]:
            continue
        unit = SECTOR if chance.random() < tearing else PAGE
        for place in range(start, min(start + PAGE, length), unit):
            if chance.random() < share:
                result[place : place + unit] = new[place : min(place + unit, length)]
    return bytes(result)


def _journal(side: Path) -> list[Line]:
    """The lines of the note; the last one may be cut off by the kill."""
    decoder = msgspec.json.Decoder(Line)
    content = (side / JOURNAL).read_bytes()
    return [decoder.decode(line) for line in content[: content.rfind(b"\n") + 1].splitlines()]


def _names(journal: list[Line]) -> tuple[Tables, list[Line]]:
    """Durable names of each directory, and the changes behind them in order.

    A rename between two directories is durable as soon as one of them was synced, as journals have it.
    """
    ended = {line.number for line in journal if line.kind == "end"}
    durable: Tables = {}
    pending: list[Line] = []
    for line in journal:
        if line.kind == "begin" and line.number in ended:
            moved = [change for change in pending if line.name in _directories(change)]
            for change in moved:
                _apply(durable, change)
            pending = [change for change in pending if line.name not in _directories(change)]
            durable[line.name] = dict(line.table)
        elif line.kind in ("rename", "unlink"):
            pending.append(line)
    return durable, pending


def _directory(name: str) -> str:
    return str(PurePosixPath(name).parent)


def _directories(change: Line) -> set[str]:
    return {_directory(name) for name in (change.name, change.target) if name}


def _apply(tables: Tables, change: Line) -> None:
    tables.setdefault(_directory(change.name), {}).pop(PurePosixPath(change.name).name, None)
    if change.kind == "rename":
        tables.setdefault(_directory(change.target), {})[PurePosixPath(change.target).name] = change.inode


def _live_tables(root: Path) -> Tables:
    return {
        os.path.relpath(directory, root): {name: (Path(directory) / name).stat().st_ino for name in names}
        for directory, _, names in os.walk(root)
    }


def _change_boot(marker: Path) -> None:
    """Another boot of the machine, so that opening takes it for a power loss."""
    if marker.exists():
        boot = msgspec.json.decode(marker.read_bytes())
        marker.write_bytes(msgspec.json.encode(boot | {"boot_id": "before-the-power-loss"}))
