"""The log of a simulated node: it keeps and loses what `keyload.storage.Wal` does."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from harness.simulator.checker import Violation
from keyload.consensus import Entry, HardState


class Turn(NamedTuple):
    """What one write put behind the log, whole or not at all."""

    hard_state: HardState | None
    entries: Sequence[Entry]


class _Content:
    """Hard state and entries behind a base."""

    __slots__ = ("base", "base_term", "entries", "hard_state")

    def __init__(self) -> None:
        self.hard_state = HardState()
        self.base = 0
        self.base_term = 0
        self.entries: list[Entry] = []

    def take(self, turn: Turn) -> None:
        if turn.hard_state is not None:
            self.hard_state = turn.hard_state
        if turn.entries:
            del self.entries[turn.entries[0].index - self.base - 1 :]
            self.entries += turn.entries

    def begin_behind(self, index: int, term: int) -> None:
        place = index - self.base
        keeps = place == 0 or (0 < place <= len(self.entries) and self.entries[place - 1].term == term)
        self.entries = self.entries[place:] if keeps else []
        self.base, self.base_term = index, term

    def copy(self) -> _Content:
        twin = _Content()
        twin.hard_state, twin.base, twin.base_term = self.hard_state, self.base, self.base_term
        twin.entries = list(self.entries)
        return twin


class Log:
    """`LogStorage` of one shard, with its writer.

    A write is seen at once, by a killed and restarted process too; a power loss leaves what was synced and of
    the turns behind it any first part.
    """

    def __init__(self) -> None:
        self._seen = _Content()
        self._synced = _Content()
        self._unsynced: list[Turn] = []

    # -- reading

    @property
    def hard_state(self) -> HardState:
        return self._seen.hard_state

    @property
    def joined(self) -> bool:
        """Whether the replica has joined and that is safe on disk."""
        return self._synced.hard_state.joined

    @property
    def first_index(self) -> int:
        return self._seen.base + 1

    @property
    def last_index(self) -> int:
        return self._seen.base + len(self._seen.entries)

    def term(self, index: int) -> int:
        """Term of an entry kept, or of the one before the first."""
        place = index - self._seen.base - 1
        if place == -1:
            return self._seen.base_term
        if place < 0:
            raise IndexError(index)
        return self._seen.entries[place].term

    def entries(self, lo: int, hi: int, max_bytes: int) -> list[Entry]:
        """Entries lo..hi-1, cut short at `max_bytes`, at least one."""
        base = self._seen.base
        if not base < lo < hi <= self.last_index + 1:
            raise IndexError((lo, hi))
        found = self._seen.entries[lo - base - 1 : hi - base - 1]
        size = 0
        for count, entry in enumerate(found):
            size += len(entry.data)
            if size > max_bytes and count:
                return found[:count]
        return found

    def memberships(self, after: int) -> list[Entry]:
        """The membership entries behind `after`."""
        return [entry for entry in self._seen.entries if entry.membership and entry.index > after]

    # -- writing

    def write(self, hard_state: HardState | None, entries: Sequence[Entry]) -> None:
        """One turn: visible now, safe after `sync`."""
        turn = Turn(hard_state, entries)
        self._seen.take(turn)
        self._unsynced.append(turn)

    def sync(self) -> None:
        """Everything written is safe."""
        for turn in self._unsynced:
            self._synced.take(turn)
        self._unsynced.clear()

    def trim(self, needed: int, segment: int) -> None:
        """Drop whole leading segments of `segment` entries in which nothing from `needed` on lies."""
        base = (needed - 1) // segment * segment
        if base > self._seen.base:
            self._begin_behind(base, self.term(base))

    def rebase(self, index: int, term: int) -> None:
        """Begin behind the entry that a snapshot holds; what follows stays if the log has that entry."""
        if index < self._seen.base:
            raise Violation(f"the log begins behind its snapshot of {index}")
        self._begin_behind(index, term)

    def _begin_behind(self, index: int, term: int) -> None:
        """Durable at once: nothing is written meanwhile."""
        self.sync()
        for content in (self._seen, self._synced):
            content.begin_behind(index, term)

    # -- stops

    def reopen(self) -> None:
        """A new process: it writes the last turn again and syncs, so all it can see is safe."""
        self.sync()

    def lose_power(self, rng: Random) -> None:
        """Turns that were not synced survive as a first part of them."""
        for turn in self._unsynced[: rng.randint(0, len(self._unsynced))]:
            self._synced.take(turn)
        self._unsynced.clear()
        self._seen = self._synced.copy()
