"""The log against a plain list."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from harness.simulator.disk import Disk
from keyload.consensus import ConsensusError, Entry, Membership
from keyload.consensus.log import RaftLog

THREE = Membership((1, 2, 3))


def filled(*terms: int) -> RaftLog:
    """A stable log of entries with these terms."""
    disk = Disk()
    disk.write(None, [Entry(term, index, b"") for index, term in enumerate(terms, 1)])
    return RaftLog(disk, 0, 0, THREE)


class LogModel(RuleBasedStateMachine):
    """The log is a list of entries; whatever is handed out and written is on the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.log = RaftLog(self.disk, 0, 0, THREE)
        self.model: list[Entry] = []
        self.term = 1
        self.open: list[Entry] = []

    @rule(data=st.binary(max_size=3), later=st.integers(0, 1))
    def append(self, data: bytes, later: int) -> None:
        self.term += later
        entry = Entry(self.term, len(self.model) + 1, data)
        self.log.append(entry)
        self.model.append(entry)

    @rule(back=st.integers(0, 4), count=st.integers(1, 4), same=st.integers(0, 4))
    def merge(self, back: int, count: int, same: int) -> None:
        """A leader's entries begin `back` before the end; the first `same` of them are known."""
        start = max(len(self.model) - back, self.log.commit)
        known = self.model[start : start + same]
        self.term += 1
        fresh = [Entry(self.term, index, b"n") for index in range(start + len(known) + 1, start + count + 1)]
        sent = (known + fresh)[:count]
        self.log.merge(sent)
        if fresh and sent[-1] is fresh[-1]:
            self.model[start:] = sent

    @rule()
    def hand_out(self) -> None:
        if not self.open:
            self.open = self.log.hand_out()

    @precondition(lambda self: self.open)
    @rule()
    def write(self) -> None:
        self.disk.write(None, self.open)
        self.log.written(self.open[-1].index, self.open[-1].term)
        self.log.trim()
        self.open = []

    @rule(share=st.floats(0, 1))
    def commit(self, share: float) -> None:
        """The caller applies only what it has written or is asked to write."""
        commit = self.log.commit + int((self.log.stable - self.log.commit) * share)
        self.log.commit = max(self.log.commit, commit)

    @rule()
    def apply(self) -> None:
        self.log.applied = self.log.commit
        self.log.trim()

    @invariant()
    def equals_the_list(self) -> None:
        log = self.log
        log.validate()
        assert log.last == len(self.model)
        assert [log.term(entry.index) for entry in self.model] == [entry.term for entry in self.model]
        found: list[Entry] = []
        while len(found) < len(self.model):
            found += log.entries(len(found) + 1, len(self.model) + 1, 4)
        assert found == self.model
        assert self.disk.log[: log.stable] == self.model[: log.stable]


TestLogModel = pytest.mark.covers("CLU-7")(LogModel.TestCase)
TestLogModel.settings = settings(derandomize=True, deadline=None, max_examples=60, stateful_step_count=30)


@pytest.mark.covers("CLU-7")
def test_a_committed_entry_is_never_removed() -> None:
    log = filled(1, 1, 1)
    log.commit = 2
    log.merge([Entry(1, 2, b""), Entry(2, 3, b"")])
    assert (log.last, log.last_term) == (3, 2)
    with pytest.raises(ConsensusError, match="committed entry 2"):
        log.merge([Entry(2, 2, b"")])


@pytest.mark.covers("CLU-7")
def test_written_entries_that_were_cut_meanwhile_do_not_count() -> None:
    log = filled(1)
    log.append(Entry(1, 2, b"old"))
    handed = log.hand_out()
    log.merge([Entry(2, 2, b"new")])
    log.written(handed[-1].index, handed[-1].term)
    assert log.stable == 1
    assert log.hand_out() == [Entry(2, 2, b"new")]
    log.written(2, 2)
    assert log.stable == 2


@pytest.mark.parametrize(
    ("index", "term", "expected"),
    [(6, 9, 6), (9, 9, 6), (6, 3, 5), (6, 2, 3), (4, 1, 2), (6, 0, 0), (0, 5, 0), (2, 1, 2)],
)
@pytest.mark.covers("CLU-14")
def test_last_within_jumps_over_whole_terms(index: int, term: int, expected: int) -> None:
    assert filled(1, 1, 2, 3, 3, 5).last_within(index, term) == expected


@pytest.mark.covers("CLU-17")
def test_more_applied_than_kept_is_refused() -> None:
    disk = Disk()
    with pytest.raises(ConsensusError, match="applied 1"):
        RaftLog(disk, 0, 1, THREE)


@pytest.mark.covers("CLU-7")
def test_applied_entries_count_as_committed_and_a_commit_behind_the_log_does_not() -> None:
    disk = Disk()
    disk.write(None, [Entry(1, 1, b""), Entry(1, 2, b"")])
    assert RaftLog(disk, 0, 2, THREE).commit == 2
    assert RaftLog(disk, 9, 1, THREE).commit == 2
