"""A disk that loses what was not synced."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from keyload.consensus import Entry, HardState


class Disk:
    """One shard's hard state and log, as `LogStorage` and as the writer of it.

    Reads see every write; after a crash only the synced ones are left, and of the others as many as luck
    gives: records reach the platter in the order hard state, entries.
    """

    def __init__(self) -> None:
        self.hard_state = HardState()
        self.log: list[Entry] = []
        self.synced_state = self.hard_state
        self.synced_log: list[Entry] = []
        self._unsynced: list[HardState | Entry] = []

    @property
    def first_index(self) -> int:
        return 1

    @property
    def last_index(self) -> int:
        return len(self.log)

    def term(self, index: int) -> int:
        return self.log[index - 1].term if index else 0

    def entries(self, lo: int, hi: int, max_bytes: int) -> list[Entry]:
        found = self.log[lo - 1 : hi - 1]
        size = 0
        for count, entry in enumerate(found):
            size += len(entry.data)
            if size > max_bytes and count:
                return found[:count]
        return found

    def write(self, hard_state: HardState | None, entries: Sequence[Entry]) -> None:
        """Visible at once, safe after `sync`."""
        if hard_state is not None:
            self._unsynced.append(hard_state)
            self.hard_state = hard_state
        self._unsynced += entries
        for entry in entries:
            del self.log[entry.index - 1 :]
            self.log.append(entry)

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

    def _keep(self, record: HardState | Entry) -> None:
        if isinstance(record, HardState):
            self.synced_state = record
        else:
            del self.synced_log[record.index - 1 :]
            self.synced_log.append(record)
