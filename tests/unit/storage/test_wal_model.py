"""The log beside lists: written, based, trimmed, torn, opened again and read."""

from __future__ import annotations

import copy
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from keyload.consensus.messages import Entry, HardState
from keyload.storage import ShardWrite, Wal
from tests.unit.storage.log_model import ModelLog, files_of, open_log, settle

SHARDS = st.integers(0, 2)
TURNS = {
    "shards": st.lists(SHARDS, unique=True, min_size=1),
    "sizes": st.lists(st.integers(0, 700), max_size=4),
    "back": st.integers(0, 3),
}


class LogMachine(RuleBasedStateMachine):
    """Turns with and without conflicts, bases, trims, torn writes, kills, and reads."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp()) / "wal"
        self.wal = self.opened()
        self.model = ModelLog()
        self.term = 1
        self.last_turn = (0, 0)

    def opened(self) -> Wal:
        return open_log(self.directory, self.note_step, cache_bytes=1500)

    def note_step(self, step: str) -> None:
        """Remember where the last turn begins."""
        if step == "LogWritten":
            assert self.wal._segment is not None
            self.last_turn = (self.wal._segment.header.number, self.wal._files.end)

    def turn(self, shards: list[int], sizes: list[int], back: int, state: bool) -> list[ShardWrite]:
        self.term += bool(back)
        turn: list[ShardWrite] = []
        for shard in shards:
            first = max(self.model.base(shard)[0], self.model.last(shard) - back) + 1
            entries = [
                Entry(self.term, first + n, bytes([n]) * size, size % 5 == 1) for n, size in enumerate(sizes)
            ]
            hard_state = HardState(self.term, shard, first - 1, bool(back)) if state else None
            turn.append((shard, hard_state, entries))
        return turn

    @rule(**TURNS, state=st.booleans(), times=st.integers(1, 5))
    def write(self, shards: list[int], sizes: list[int], back: int, state: bool, times: int) -> None:
        for _ in range(times):
            turn = self.turn(shards, sizes, back, state)
            self.wal.write(turn)
            self.model.write(turn)

    @rule(shard=SHARDS, behind=st.integers(-4, 3), conflict=st.integers(0, 3))
    def rebase(self, shard: int, behind: int, conflict: int) -> None:
        first, last = self.model.base(shard)[0] + 1, self.model.last(shard)
        index = max(first, last + behind)
        if index > last or not conflict:
            self.term += 1
            term = self.term
        else:
            term = self.model.entries[shard][index - first].term
        self.wal.rebase(shard, index, term)
        self.model.rebase(shard, index, term)

    @rule(
        kept=st.lists(st.sampled_from([-1, 0, 0, 0, 1, 1, 2, 4, None]), min_size=3, max_size=3),
        back=st.sets(st.integers(0, 5)),
        kill=st.booleans(),
    )
    def trim(self, kept: list[int | None], back: set[int], kill: bool) -> None:
        """Trim; after a kill some of the dropped segments are still there."""
        needed = {shard: self.model.last(shard) - more for shard, more in enumerate(kept) if more is not None}
        before = files_of(self.directory)
        freed = self.wal.trim(needed)
        settle(self.wal)
        dropped = [name for name in before if name.endswith(".log") and not (self.directory / name).exists()]
        assert freed == 4096 * len(dropped)
        self.model.trimmed(self.wal, needed)
        self.trimmed_enough(needed)
        assert self.wal.trim(needed) == 0
        if kill:
            self.wal.close()
            for place in back & set(range(len(dropped))):
                (self.directory / dropped[place]).write_bytes(before[dropped[place]])
            self.wal = self.opened()

    def trimmed_enough(self, needed: dict[int, int]) -> None:
        """The first segment has an entry that is needed, unless it is the last one."""
        first, *others = sorted(path.name for path in self.directory.glob("*.log"))
        assert not others or any(
            entry.index >= needed.get(shard, 0)
            and self.wal.log(shard).segment_of(entry.index) == int(first.removesuffix(".log"))
            for shard, entries in self.model.entries.items()
            for entry in entries
        )

    @rule(**TURNS, cut=st.floats(0, 1))
    def tear(self, shards: list[int], sizes: list[int], back: int, cut: float) -> None:
        """The last turn reaches the disk in part: all of it is gone then."""
        kept = copy.deepcopy(self.model)
        turn = self.turn(shards[:2], sizes[:2], back, state=True)
        self.wal.write(turn)
        kept_whole = self.torn(cut)
        self.model = kept
        if kept_whole:
            self.model.write(turn)

    @rule(shard=SHARDS, ahead=st.integers(1, 3), cut=st.floats(0, 1))
    def tear_base(self, shard: int, ahead: int, cut: float) -> None:
        """The same of a turn that is a base."""
        self.term += 1
        index = self.model.last(shard) + ahead
        self.wal.rebase(shard, index, self.term)
        if self.torn(cut):
            self.model.rebase(shard, index, self.term)

    def torn(self, cut: float) -> bool:
        """Cut the last turn and open the log; whether nothing but zeros was cut off."""
        number, start = self.last_turn
        end = self.wal._files.end
        self.wal.close()
        path = self.directory / f"{number:04d}.log"
        whole = path.read_bytes()
        place = start + int(cut * (end - start))
        content = whole[:place].ljust(len(whole), b"\0")
        path.write_bytes(content)
        self.wal = self.opened()
        return content == whole

    @rule()
    def reopen(self) -> None:
        self.wal.close()
        self.wal = self.opened()

    @rule(shard=SHARDS, ends=st.tuples(st.integers(0, 40), st.integers(0, 40)), limit=st.integers(0, 3000))
    def read(self, shard: int, ends: tuple[int, int], limit: int) -> None:
        entries = self.model.entries.get(shard, [])
        first = self.model.base(shard)[0] + 1
        lo, hi = (first + min(end, len(entries)) for end in sorted(ends))
        if lo == hi:
            with pytest.raises(IndexError):
                self.wal.log(shard).entries(lo, hi, limit)
            return
        found = self.wal.log(shard).entries(lo, hi, limit)
        assert found == entries[lo - first : lo - first + len(found)]
        size = sum(len(entry.data) for entry in found)
        assert size <= limit or len(found) == 1
        if len(found) < hi - lo:
            assert size + len(entries[lo - first + len(found)].data) > limit

    @invariant()
    def holds_the_model(self) -> None:
        self.model.compare(self.wal)
        settle(self.wal)
        assert self.wal.bytes == sum(path.stat().st_size for path in self.directory.glob("*.log"))

    @invariant()
    def tells_how_much_a_follower_needs(self) -> None:
        for shard, entries in self.model.entries.items():
            log = self.wal.log(shard)
            needs = [log.bytes_from(index) for index in range(log.first_index, log.last_index + 2)]
            assert needs == sorted(needs, reverse=True)
            assert needs[-1] == 0
            assert all(
                sum(len(later.data) for later in entries[n:]) <= need <= self.wal.bytes
                for n, need in enumerate(needs)
            )

    def teardown(self) -> None:
        self.wal.close()
        shutil.rmtree(self.directory.parent)


@pytest.mark.covers("STO-4", "STO-8", "STO-17")
def test_the_log_reads_as_lists() -> None:
    run_state_machine_as_test(
        LogMachine,
        settings=settings(derandomize=True, deadline=None, max_examples=60, stateful_step_count=25),
    )
