"""A log as lists, and helpers to write, damage and compare real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from keyload.consensus.messages import Entry, HardState
from keyload.storage import ShardWrite, Wal
from tests.unit.storage.support import INCARNATION

SEGMENT_BYTES = 4096

Contents = tuple[HardState, tuple[int, int], list[Entry]]
"""Hard state, base and entries of one shard."""


def ignore(step: str) -> None:
    """The hook of a test that looks at no step."""


def open_log(directory: Path, step: Callable[[str], None] = ignore, **options: int) -> Wal:
    """A log with small segments."""
    chosen = {"segment_bytes": SEGMENT_BYTES, **options}
    return Wal(directory, worker=0, incarnation=INCARNATION, step=step, **chosen).begin()


def settle(wal: Wal) -> None:
    """Wait for the threads that prepare the next segment and remove dropped ones."""
    for thread in (wal._fresh._thread, wal._files._removal):
        if thread is not None:
            thread.join()


class ModelLog:
    """What a log must hold: the entries behind the base and the last hard state of each shard."""

    def __init__(self) -> None:
        self.bases: dict[int, tuple[int, int]] = {}
        self.entries: dict[int, list[Entry]] = {}
        self.hard_states: dict[int, HardState] = {}

    def base(self, shard: int) -> tuple[int, int]:
        """Index and term of the entry that the log of a shard begins behind."""
        return self.bases.get(shard, (0, 0))

    def last(self, shard: int) -> int:
        """The last index of a shard."""
        return self.base(shard)[0] + len(self.entries.get(shard, []))

    def write(self, turn: Iterable[ShardWrite]) -> None:
        for shard, state, entries in turn:
            kept = self.entries.setdefault(shard, [])
            if state is not None:
                self.hard_states[shard] = state
            if entries:
                kept[:] = [entry for entry in kept if entry.index < entries[0].index]
                kept.extend(entries)

    def rebase(self, shard: int, index: int, term: int) -> None:
        kept = self.entries.get(shard, [])
        known = [self.base(shard), *((entry.index, entry.term) for entry in kept)]
        self.bases[shard] = (index, term)
        self.entries[shard] = [entry for entry in kept if entry.index > index and (index, term) in known]

    def trimmed(self, wal: Wal, needed: Mapping[int, int]) -> None:
        """Follow a trim: how far it went depends on the segments, but nothing that is needed may go."""
        for shard, entries in self.entries.items():
            first = wal.log(shard).first_index
            dropped = [entry for entry in entries if entry.index < first]
            if not dropped:
                assert first == self.base(shard)[0] + 1
                continue
            assert first == dropped[-1].index + 1 <= needed[shard]
            self.bases[shard] = (dropped[-1].index, dropped[-1].term)
            del entries[: len(dropped)]

    def compare(self, wal: Wal) -> None:
        for shard in {*self.entries, *wal.shards}:
            assert contents(wal, shard) == self.contents(shard)
            log = wal.log(shard)
            entries = self.entries.get(shard, [])
            assert (log.first_index, log.last_index) == (self.base(shard)[0] + 1, self.last(shard))
            assert [log.term(entry.index) for entry in entries] == [entry.term for entry in entries]
            for after in {log.first_index - 1, (log.first_index + log.last_index) // 2, log.last_index}:
                assert log.memberships(after) == [
                    entry for entry in entries if entry.membership and entry.index > after
                ]

    def contents(self, shard: int) -> Contents:
        """Everything of one shard."""
        hard_state = self.hard_states.get(shard, HardState())
        return hard_state, self.base(shard), list(self.entries.get(shard, []))


def holds(wal: Wal, model: ModelLog) -> bool:
    """Whether a log holds exactly what the model does."""
    shards = {*wal.shards, *model.entries}
    return all(contents(wal, shard) == model.contents(shard) for shard in shards)


def contents(wal: Wal, shard: int) -> Contents:
    """Hard state, base and entries of one shard."""
    log = wal.log(shard)
    first, end = log.first_index, log.last_index + 1
    entries = log.entries(first, end, 1 << 40) if first < end else []
    return log.hard_state, (first - 1, log.term(first - 1)), entries


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
