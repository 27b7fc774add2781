"""The log of one replica: what is on disk, and behind it a tail in memory.

Four indexes move through it: `stable` (on disk), `handed` (given to the caller to write), `commit` and
`applied`. The tail keeps entries until they are on disk and applied, so the usual path never reads the disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from keyload.consensus.errors import ConsensusError
from keyload.consensus.membership import Membership
from keyload.consensus.messages import Entry


class LogStorage(Protocol):
    """The entries on disk, as written by the caller.

    Writing entries replaces everything from the first one's index on. Indexes count from 1: a new log has
    `first_index` 1 and `last_index` 0. Between turns `first_index` may rise, never above what is applied + 1.
    """

    @property
    def first_index(self) -> int:
        """The first entry still kept."""
        ...

    @property
    def last_index(self) -> int:
        """The last entry, or `first_index` - 1."""
        ...

    def term(self, index: int) -> int:
        """The term of an entry, for `first_index` - 1 <= index <= `last_index`; index 0 has term 0."""
        ...

    def entries(self, lo: int, hi: int, max_bytes: int) -> list[Entry]:
        """Entries lo..hi-1, all kept, cut short at `max_bytes` of data; at least one."""
        ...

    def memberships(self, after: int) -> list[Entry]:
        """The membership entries behind `after`, all kept."""
        ...


class RaftLog:
    """Stable storage and tail as one log. Only `merge` removes entries, and never committed ones."""

    __slots__ = (
        "applied",
        "commit",
        "handed",
        "last",
        "last_term",
        "memberships",
        "offset",
        "stable",
        "storage",
        "tail",
    )

    def __init__(self, storage: LogStorage, commit: int, applied: int, membership: Membership) -> None:
        """Raises ConsensusError when more was applied than is kept."""
        self.storage = storage
        self.load(commit, applied, membership)

    def load(self, commit: int, applied: int, membership: Membership) -> None:
        """Begins with what is on disk. `membership` is the one at `applied`; later ones are in the log."""
        storage = self.storage
        self.last = self.stable = self.handed = storage.last_index
        self.last_term = storage.term(self.last)
        if not storage.first_index - 1 <= applied <= self.last:
            raise ConsensusError(f"applied {applied} is outside the log {storage.first_index}..{self.last}")
        self.applied = applied
        self.commit = max(min(commit, self.last), applied)
        self.tail: list[Entry] = []
        self.offset = self.last + 1  # index of tail[0]
        self.memberships = [(applied, membership)]  # (index, value), from the last applied one on
        self.memberships += [(entry.index, _value(entry)) for entry in storage.memberships(applied)]

    @property
    def first_index(self) -> int:
        return self.storage.first_index

    @property
    def membership(self) -> Membership:
        """The one in force: the last of the log, committed or not (thesis, 4.1)."""
        return self.memberships[-1][1]

    @property
    def settled(self) -> bool:
        """Whether the membership in force is committed."""
        return self.memberships[-1][0] <= self.commit

    def may_have_voter(self, node: int) -> bool:
        """Whether `node` is a voter by the last membership that is committed or by a later one."""
        for index, membership in reversed(self.memberships):
            if node in membership.voters:
                return True
            if index <= self.commit:
                break
        return False

    def term(self, index: int) -> int:
        """The term of a kept entry or of the one before the first."""
        if index == self.last:
            return self.last_term
        place = index - self.offset
        if place >= 0:
            return self.tail[place].term
        return self.storage.term(index)

    def matches(self, index: int, term: int) -> bool:
        """Whether the log has the entry (index, term)."""
        if index == self.last:
            return term == self.last_term
        return self.storage.first_index - 1 <= index <= self.last and self.term(index) == term

    def entries(self, lo: int, hi: int, max_bytes: int) -> list[Entry]:
        """Entries lo..hi-1 (lo < hi), cut short at `max_bytes` of data; at least one."""
        offset = self.offset
        if lo < offset:
            return self.storage.entries(lo, min(hi, self.stable + 1), max_bytes)
        if hi - lo == 1:
            return [self.tail[lo - offset]]
        found = self.tail[lo - offset : hi - offset]
        size = 0
        for count, entry in enumerate(found):
            size += len(entry.data)
            if size > max_bytes and count:
                return found[:count]
        return found

    def append(self, entry: Entry) -> None:
        """Adds the leader's own entry behind the last."""
        self.tail.append(entry)
        self.last = entry.index
        self.last_term = entry.term
        if entry.membership:
            self.memberships.append((entry.index, _value(entry)))

    def merge(self, entries: Sequence[Entry]) -> None:
        """Takes a leader's entries whose predecessor is known to match (Raft paper, figure 2, 3 and 4).

        Entries already present are skipped; only a real conflict removes what follows it. Raises
        ConsensusError when a conflict would remove a committed entry.
        """
        known = 0
        for entry in entries:
            if entry.index > self.last:
                break
            if self.term(entry.index) != entry.term:
                self._cut(entry.index)
                break
            known += 1
        else:
            return
        added = entries[known:] if known else entries
        self.tail.extend(added)
        self.last = added[-1].index
        self.last_term = added[-1].term
        for entry in added:
            if entry.membership:
                self.memberships.append((entry.index, _value(entry)))

    def _cut(self, index: int) -> None:
        """Forgets `index` and everything behind it."""
        if index <= self.commit:
            raise ConsensusError(f"a leader contradicts the committed entry {index} (commit {self.commit})")
        last_term = self.term(index - 1)
        if index < self.offset:
            self.tail.clear()
            self.offset = index
        else:
            del self.tail[index - self.offset :]
        self.last = index - 1
        self.last_term = last_term
        self.stable = min(self.stable, index - 1)
        self.handed = min(self.handed, index - 1)
        while self.memberships[-1][0] >= index:
            self.memberships.pop()

    def last_within(self, index: int, term: int) -> int:
        """The largest kept index <= `index` whose term is <= `term`, or the one before the first.

        Terms never fall along the log, so this is a bisection. It lets both sides of a conflict jump over
        whole terms (the paper's section 5.3, last optimisation).
        """
        low = self.storage.first_index - 1
        high = min(index, self.last)
        while low < high:
            middle = (low + high + 1) >> 1
            if self.term(middle) <= term:
                low = middle
            else:
                high = middle - 1
        return low

    def hand_out(self) -> list[Entry]:
        """The entries the caller has not been asked to write yet."""
        entries = self.tail[self.handed + 1 - self.offset :]
        self.handed = self.last
        return entries

    def written(self, index: int, term: int) -> None:
        """The caller has written entries up to (index, term); what was cut meanwhile does not count."""
        if self.stable < index <= self.handed and self.term(index) == term:
            self.stable = index

    def trim(self) -> None:
        """Drops from memory what is on disk and applied, but the last such entry: its term is wanted."""
        count = (self.stable if self.stable < self.applied else self.applied) - self.offset
        if count > 0:
            del self.tail[:count]
            self.offset += count
        while len(self.memberships) > 1 and self.memberships[1][0] <= self.applied:
            del self.memberships[0]

    def validate(self) -> None:
        """Raises ConsensusError when an invariant of the log is broken."""
        order = (self.offset - 1, self.stable, self.handed, self.last)
        if list(order) != sorted(order) or not self.applied <= self.commit <= self.last:
            raise ConsensusError(
                f"log indexes out of order: {order}, applied {self.applied}, commit {self.commit}"
            )
        kept = self.offset >= self.first_index
        term = self.storage.term(self.offset - 1) if kept else self.tail[0].term
        last_term = self.tail[-1].term if self.tail else term
        if len(self.tail) != self.last + 1 - self.offset or self.last_term != last_term:
            raise ConsensusError(f"the tail {self.offset}+{len(self.tail)} does not end at {self.last}")
        if self.applied < self.first_index - 1:
            raise ConsensusError(f"entries up to {self.first_index - 1} were dropped, applied {self.applied}")
        for place, entry in enumerate(self.tail):
            if entry.index != self.offset + place or entry.term < term:
                raise ConsensusError(f"entry ({entry.index}, {entry.term}) is out of order")
            term = entry.term


def _value(entry: Entry) -> Membership:
    try:
        return Membership.unpacked(entry.data)
    except ValueError as error:
        raise ConsensusError(f"entry {entry.index} is no membership") from error
