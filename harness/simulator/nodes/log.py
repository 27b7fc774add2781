"""The log of a simulated node: it keeps and loses what `keyload.storage.Wal` does."""

from __future__ import annotations

from harness.simulator.checker import Violation
from harness.simulator.disk import Disk


class Log(Disk):
    """`LogStorage` of one shard, with its writer.

    A write is seen at once, by a killed and restarted process too; a power loss (`crash`) leaves what was
    synced and a first part of what was written behind it.
    """

    @property
    def joined(self) -> bool:
        """Whether the replica has joined and that is safe."""
        return self.synced_state.joined

    def reopen(self) -> None:
        """A new process: it writes the last turn again and syncs, so all it can see is safe."""
        self.sync()

    def trim(self, needed: int, segment: int) -> None:
        """Drop whole leading segments of `segment` entries in which nothing from `needed` on lies."""
        base = (needed - 1) // segment * segment
        if base > self.base:
            self.rebase(base, self.term(base))

    def rebase(self, index: int, term: int) -> None:
        """As `Disk.rebase`; never back."""
        if index < self.base:
            raise Violation(f"the log begins behind its snapshot of {index}")
        super().rebase(index, term)
