"""A log as lists, and helpers to write, damage and compare real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from keyload.consensus.messages import Entry, HardState
from keyload.storage import ShardWrite, Wal
from tests.unit.storage.support import INCARNATION

SEGMENT_BYTES = 4096


def ignore(step: str) -> None:
    """The hook of a test that looks at no step."""


def open_log(directory: Path, step: Callable[[str], None] = ignore, **options: int) -> Wal:
    """A log with small segments."""
    chosen = {"segment_bytes": SEGMENT_BYTES, **options}
    return Wal(directory, worker=0, incarnation=INCARNATION, step=step, **chosen).begin()


def settle(wal: Wal) -> None:
    """Wait until the next segment is prepared, if it is being prepared."""
    if wal._fresh._thread is not None:
        wal._fresh._thread.join()


class ModelLog:
    """What a log must hold: a list of entries and the last hard state of each shard."""

    def __init__(self) -> None:
        self.entries: dict[int, list[Entry]] = {}
        self.hard_states: dict[int, HardState] = {}

    def write(self, turn: Iterable[ShardWrite]) -> None:
        for shard, state, entries in turn:
            kept = self.entries.setdefault(shard, [])
            if state is not None:
                self.hard_states[shard] = state
            if entries:
                del kept[entries[0].index - 1 :]
                kept.extend(entries)

    def compare(self, wal: Wal) -> None:
        for shard, entries in self.entries.items():
            log = wal.log(shard)
            assert log.hard_state == self.hard_states.get(shard, HardState())
            assert (log.first_index, log.last_index) == (1, len(entries))
            assert log.term(0) == 0
            assert [log.term(entry.index) for entry in entries] == [entry.term for entry in entries]
            if entries:
                assert log.entries(1, len(entries) + 1, 1 << 40) == entries


def holds(wal: Wal, model: ModelLog) -> bool:
    """Whether a log holds exactly what the model does."""
    shards = {*wal.shards, *model.entries}
    return all(
        contents(wal, shard) == (model.hard_states.get(shard, HardState()), model.entries.get(shard, []))
        for shard in shards
    )


def contents(wal: Wal, shard: int) -> tuple[HardState, list[Entry]]:
    """Hard state and entries of one shard."""
    log = wal.log(shard)
    return log.hard_state, log.entries(1, log.last_index + 1, 1 << 40) if log.last_index else []


def files_of(directory: Path) -> dict[str, bytes]:
    """Names and contents of all files."""
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def put_files(directory: Path, contents: dict[str, bytes]) -> None:
    """Make a directory hold exactly these files."""
    directory.mkdir(exist_ok=True, mode=0o700)
    for path in directory.iterdir():
        if path.name not in contents:
            path.unlink()
    for name, content in contents.items():
        (directory / name).write_bytes(content)
        (directory / name).chmod(0o600)
