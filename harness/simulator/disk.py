"""A disk that loses what was not synced."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from keyload.consensus import Entry, HardState


class Disk:
    """One shard's hard state and log, as `LogStorage` and as the writer of it.

    Reads see every write; after a crash only the synced ones are left, and of the others as many as luck
    gives: records reach the platter in the order hard state, entries. What `rebase` does is durable at once.
    """

    def __init__(self) -> None:
        self.hard_state = HardState()
        self.log: list[Entry] = []
        self.synced_state = self.hard_state
        self.synced_log: list[Entry] = []
        self.base = 0
        self.base_term = 0
        self._unsynced: list[HardState | Entry] = []

    @property
    def first_index(self) -> int:
        return self.base + 1

    @property
    def last_index(self) -> int:
        return self.base + len(self.log)

    def term(self, index: int) -> int:
        if index == self.base:
            return self.base_term
        if index < self.base:
            raise IndexError(index)
        return self.log[index - self.base - 1].term

    def entries(self, lo: int, hi: int, max_bytes: int) -> list[Entry]:
        if not self.base < lo < hi <= self.last_index + 1:
            raise IndexError((lo, hi))
        found = self.log[lo - self.base - 1 : hi - self.base - 1]
        size = 0
        for count, entry in enumerate(found):
            size += len(entry.data)
            if size > max_bytes and count:
                return found[:count]
        return found

    def memberships(self, after: int) -> list[Entry]:
        return [entry for entry in self.log if entry.membership and entry.index > after]

    def write(self, hard_state: HardState | None, entries: Sequence[Entry]) -> None:
        """Visible at once, safe after `sync`."""
        if hard_state is not None:
            self._unsynced.append(hard_state)
            self.hard_state = hard_state
        self._unsynced += entries
        for entry in entries:
            self._put(self.log, entry)

    def sync(self) -> None:
        for record in self._unsynced:
            self._keep(record)
        self._unsynced.clear()

    def crash(self, rng: Random) -> None:
        """Forgets the unsynced writes but for a random prefix."""
        for record in self._unsynced[: rng.randint(0, len(self._unsynced))]:
            self._keep(record)
        self._unsynced.clear()
        self.hard_state = self.synced_state
        self.log = list(self.synced_log)

    def rebase(self, index: int, term: int) -> None:
        """The log begins behind `index` from now on; what follows stays if the log has (index, term).

        Drops what is no longer needed (a trim), or everything for a snapshot. Nothing may be unsynced.
        """
        self.sync()
        if self.base <= index <= self.last_index and self.term(index) == term:
            del self.log[: index - self.base]
        else:
            self.log.clear()
        self.base, self.base_term = index, term
        self.synced_log = list(self.log)

    def _put(self, log: list[Entry], entry: Entry) -> None:
        del log[entry.index - self.base - 1 :]
        log.append(entry)

    def _keep(self, record: HardState | Entry) -> None:
        if isinstance(record, HardState):
            self.synced_state = record
        else:
            self._put(self.synced_log, record)
