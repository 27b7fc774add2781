"""What one replica is told at its start."""

from __future__ import annotations

from random import Random

import msgspec

KIB = 1024
MIB = 1024 * KIB


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Identity, times in ticks and limits of one replica; checked as a whole (CLU-4, CLU-5).

    The defaults are those of a tick of 50 ms. Raises ValueError.
    """

    id: int
    """This node; ids are positive."""
    rng: Random
    """The only source of chance: election timeouts, the numbers of read groups and the name of this life. No
    two lives of a replica may draw the same."""
    election_ticks_min: int = 20
    """For so long after its leader a follower ignores candidates; a leader must hear a majority within it."""
    election_ticks_max: int = 40
    heartbeat_ticks: int = 2
    max_append_bytes: int = MIB
    """Entries in one append; a single larger entry still travels alone."""
    max_inflight_messages: int = 64
    """Appends sent to a follower and not answered."""
    max_inflight_bytes: int = 4 * MIB
    max_uncommitted_bytes: int = 64 * MIB
    """The leader's own entries that are not applied yet; beyond it `propose` refuses."""
    max_committed_bytes: int = 4 * MIB
    """Entries to apply in one Ready; at least one."""
    max_reads: int = 65_536
    """Reads (on a leader also followers' groups) that may wait for a barrier; then `read_index` refuses."""

    def __post_init__(self) -> None:
        self._check_positive("id")
        if self.heartbeat_ticks < 1:
            raise ValueError("heartbeat_ticks must be at least 1")
        if self.heartbeat_ticks * 5 > self.election_ticks_min:
            raise ValueError("five heartbeats must fit into election_ticks_min")
        if self.election_ticks_min >= self.election_ticks_max:
            raise ValueError("election_ticks_min must be below election_ticks_max")
        for name in ("max_append_bytes", "max_inflight_messages", "max_inflight_bytes"):
            self._check_positive(name)
        for name in ("max_uncommitted_bytes", "max_committed_bytes", "max_reads"):
            self._check_positive(name)

    def _check_positive(self, name: str) -> None:
        if getattr(self, name) < 1:
            raise ValueError(f"{name} must be at least 1")
