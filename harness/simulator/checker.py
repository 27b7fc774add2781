"""The promises of consensus, checked after every step against the history of the whole cluster."""

from __future__ import annotations

from collections.abc import Sequence

from keyload.consensus import Entry, Membership, Raft, Role


class Violation(Exception):
    """A promise is broken."""


class Checker:
    """What the cluster as a whole has committed, acknowledged and shown."""

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        """The last one that was committed."""
        self.leaders: dict[int, int] = {}  # term -> node
        self.committed: list[Entry] = []
        self.floor = 0
        """The highest index a client knows of, by an acknowledgement or a read."""
        self.acknowledged: dict[bytes, int] = {}
        self._committed_term: list[int] = []  # a term in which the entry was committed, or a later one
        self._places: dict[bytes, int] = {}  # data -> index of every committed proposal
        self._written: dict[tuple[int, int], tuple[int, bytes]] = {}  # (index, term) -> (previous term, data)
        self._digests: list[int] = [0]  # of the state after each applied index
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
        elif entry.data and entry.data in self._places:
            raise Violation(f"{entry.data!r} is committed at {self._places[entry.data]} and {entry.index}")
        else:
            self._places[entry.data] = entry.index
        self.committed.append(entry)
        self._committed_term.append(raft.term)

    def written(self, raft: Raft, entries: Sequence[Entry]) -> None:
        """Log matching: an entry of the same index and term has the same content and the same past."""
        previous = raft.log.term(entries[0].index - 1)
        for entry in entries:
            told = (previous, entry.data)
            known = self._written.setdefault((entry.index, entry.term), told)
            if known != told:
                raise Violation(f"node {raft.id} holds another entry ({entry.index}, {entry.term})")
            previous = entry.term

    def applied(self, node: int, index: int, digest: int) -> None:
        """State machine safety: equal prefixes give equal states."""
        if index == len(self._digests):
            self._digests.append(digest)
        elif index > len(self._digests) or self._digests[index] != digest:
            raise Violation(f"node {node} reached another state at {index}")

    def acknowledge(self, data: bytes, index: int) -> None:
        """A client is told that its proposal stands at `index`."""
        if self._places.get(data) != index:
            place = self._places.get(data)
            raise Violation(f"{data!r} is acknowledged at {index}, committed at {place}")
        self.acknowledged[data] = index
        self.floor = max(self.floor, index)

    def read(self, node: int, index: int, floor: int, shown: int) -> None:
        """A read that began when clients knew `floor` was given `index` and shows the state `shown`."""
        if index < floor:
            raise Violation(f"stale read on node {node}: {index}, clients knew {floor}")
        if shown > len(self.committed):
            raise Violation(f"node {node} shows {shown}, committed are {len(self.committed)}")
        self.floor = max(self.floor, shown)

    def finish(self, node: int, history: Sequence[Entry]) -> None:
        """At the end every node has applied every acknowledged proposal once, at its index."""
        if list(history) != self.committed:
            raise Violation(f"node {node} ends with another history")
        for data, index in self.acknowledged.items():
            if history[index - 1].data != data:
                raise Violation(f"the acknowledged {data!r} is lost")
