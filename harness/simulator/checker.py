"""The promises of consensus, checked after every step against the history of the whole cluster."""

from __future__ import annotations

from collections.abc import Sequence

from keyload.consensus import Entry, Membership, Raft, Role


class Violation(Exception):
    """A promise is broken."""


class Checker:
    """What the cluster as a whole has committed; `floor` is how much of it clients know."""

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        """The last one that was committed."""
        self.leaders: dict[int, int] = {}  # term -> node
        self.committed: list[Entry] = []
        self.floor = 0
        """The highest index a client knows of, by an acknowledgement or a read."""
        self._committed_term: list[int] = []  # a term in which the entry was committed, or a later one
        self.places: dict[bytes, int] = {}
        """Data of every committed proposal -> its index."""
        self._written: dict[tuple[int, int], tuple[int, bytes]] = {}  # (index, term) -> (previous term, data)
        self._seen_commit: dict[int, int] = {}

    def restarted(self, node: int) -> None:
        """Or its disk was erased, or a snapshot took the place of its log."""
        self._seen_commit[node] = 0

    def state(self, raft: Raft) -> None:
        """Own invariants, one leader per term, leader completeness, one committed log."""
        raft.validate()
        if raft.role is Role.LEADER and self.leaders.get(raft.term) != raft.id:
            if raft.term in self.leaders:
                raise Violation(f"nodes {self.leaders[raft.term]} and {raft.id} both lead term {raft.term}")
            self.leaders[raft.term] = raft.id
            self._leader_is_complete(raft)
        if raft.commit > self._seen_commit.get(raft.id, 0):
            self._commits_agree(raft)

    def _leader_is_complete(self, raft: Raft) -> None:
        kept = raft.log.first_index - 1  # what was trimmed was applied, and is compared there
        for entry, term in zip(self.committed[kept:], self._committed_term[kept:], strict=True):
            if term < raft.term and not raft.log.matches(entry.index, entry.term):
                raise Violation(f"leader {raft.id} of term {raft.term} lacks the committed {entry.index}")

    def _commits_agree(self, raft: Raft) -> None:
        start = max(self._seen_commit.get(raft.id, 0) + 1, raft.log.first_index)
        while start <= raft.commit:
            for entry in raft.log.entries(start, raft.commit + 1, 1 << 30):
                self._commit(entry, raft)
                start = entry.index + 1
        self._seen_commit[raft.id] = raft.commit

    def _commit(self, entry: Entry, raft: Raft) -> None:
        if entry.index <= len(self.committed):
            if self.committed[entry.index - 1] != entry:
                raise Violation(f"node {raft.id} commits another entry {entry.index}")
            return
        if entry.index != len(self.committed) + 1:
            raise Violation(f"node {raft.id} commits {entry.index} before {len(self.committed) + 1}")
        if entry.membership:
            self.membership = Membership.unpacked(entry.data)
        elif entry.data and entry.data in self.places:
            raise Violation(f"{entry.data!r} is committed at {self.places[entry.data]} and {entry.index}")
        else:
            self.places[entry.data] = entry.index
        self.committed.append(entry)
        self._committed_term.append(raft.term)
        self.committed_now(entry)

    def committed_now(self, entry: Entry) -> None:
        """For those who know more: this entry is the next of the one committed log."""

    def written(self, node: int, previous: int, entries: Sequence[Entry]) -> None:
        """Log matching: an entry of the same index and term has the same content and the same past.

        `previous` is the term before the first of the entries, which are on the disk of `node`.
        """
        for entry in entries:
            told = (previous, entry.data)
            known = self._written.setdefault((entry.index, entry.term), told)
            if known != told:
                raise Violation(f"node {node} holds another entry ({entry.index}, {entry.term})")
            previous = entry.term
