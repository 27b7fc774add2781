"""What a leader knows about one follower, and how much it may send it."""

from __future__ import annotations

from collections import deque

import msgspec

from keyload.consensus.config import Config
from keyload.consensus.errors import ConsensusError


class Progress:
    """One follower.

    It begins in *probe*: one append at a time, until the place where the logs agree is found. Then it is in
    *replicate*: `next` runs ahead of the answers, as far as the window of unanswered appends allows. A lost
    append makes the next one be refused, which leads back to probe.
    """

    __slots__ = (
        "active",
        "commit_sent",
        "era",
        "inflight",
        "inflight_bytes",
        "join_index",
        "join_round",
        "life",
        "marked",
        "match",
        "max_bytes",
        "max_messages",
        "needs_snapshot",
        "next",
        "probe_sent",
        "read_index",
        "recent",
        "replicating",
        "round",
        "stalled",
        "voter",
    )

    def __init__(self, config: Config, last_index: int) -> None:
        self.era = 0  # counts the changes between probe and replicate
        self.match = 0  # known to be on the follower's disk
        self.next = last_index + 1  # the next entry to send
        self.replicating = False
        self.probe_sent = False
        self.marked = 0  # `match` at the last heartbeat
        self.stalled = False  # `match` did not move between the last two heartbeats
        self.active = False  # heard since the last check of the quorum
        self.recent = False  # heard between the last two checks
        self.voter = False
        self.life: int | None = None  # `Message.life` of its answers; None before the first one
        self.join_round = 0  # the round that must be confirmed before it may join
        self.join_index = 0  # the entry it must have before it may join
        self.needs_snapshot = False  # its next entry is no longer in the log
        self.round = 0  # the newest read round it confirmed
        self.commit_sent = 0
        self.read_index = 0  # the highest index a read of this follower was given
        self.inflight: deque[tuple[int, int]] = deque()  # (last index, bytes) per unanswered append
        self.inflight_bytes = 0
        self.max_messages = config.max_inflight_messages
        self.max_bytes = config.max_inflight_bytes

    @property
    def counts(self) -> bool:
        """Whether it is a voter that has joined: what others say counts for no majority."""
        return self.voter and self.life == 0

    def reborn(self, last_index: int) -> None:
        """Another life of the follower answers: nothing that was known holds for its log or its promises."""
        self._change(False)
        self.match = self.marked = 0
        self.next = last_index + 1
        self.round = 0
        self.needs_snapshot = False

    @property
    def paused(self) -> bool:
        """Whether nothing may be sent until an answer comes."""
        if self.replicating:
            return len(self.inflight) >= self.max_messages or self.inflight_bytes >= self.max_bytes
        return self.probe_sent

    def sent(self, last_index: int, size: int) -> None:
        """An append with entries up to `last_index` has left."""
        if self.replicating:
            self.next = last_index + 1
            self.inflight.append((last_index, size))
            self.inflight_bytes += size
        else:
            self.probe_sent = True

    def acknowledged(self, index: int) -> bool:
        """The follower has everything up to `index`. Returns whether that is new or ends the probing."""
        inflight = self.inflight
        while inflight and inflight[0][0] <= index:
            self.inflight_bytes -= inflight.popleft()[1]
        moved = index > self.match
        if moved:
            self.match = index
            if index >= self.next:
                self.next = index + 1
        elif self.replicating or index < self.match:
            return False
        if not self.replicating:
            self._change(True)
        return True

    def rejected(self, index: int, agreed: int, era: int) -> bool:
        """The follower lacks the entry `index`; the logs agree at `agreed` at most.

        `era` is that of the refused append: one loss refuses all that was sent behind it, and only the first
        refusal counts. False when there is nothing to try at once: a stale answer, or a follower that needs a
        snapshot.
        """
        if era != self.era:
            return False
        if self.replicating:
            self.probe()
            return True
        if index != self.next - 1 or self.needs_snapshot:
            return False
        if index <= self.match:
            self.match = 0  # it lost what it had; claiming less is always safe
        self.next = max(min(index, agreed + 1), self.match + 1)
        self.probe_sent = False
        return True

    def probe(self) -> None:
        """What was sent ahead did not fit: looks again for the place where the logs agree."""
        self._change(False)

    def heartbeat_due(self) -> None:
        """A heartbeat interval has passed: notes whether the follower took anything in it."""
        self.stalled = self.match == self.marked
        self.marked = self.match

    def heartbeat_answered(self) -> bool:
        """The follower lives. True when it made no progress: something was lost and should be tried again."""
        self.active = True
        if not self.stalled:
            return False
        self.stalled = False
        self.probe_sent = False
        if self.paused:
            self.inflight_bytes -= self.inflight.popleft()[1]
        return True

    def skip_to(self, first_index: int) -> None:
        """The entries before `first_index` are gone: only a snapshot can bring them (CLU-15)."""
        self.needs_snapshot = True
        self.probe()
        self.next = first_index

    def _change(self, replicating: bool) -> None:
        self.replicating = replicating
        self.era += 1
        self.needs_snapshot = False if replicating else self.needs_snapshot
        self.probe_sent = False
        self.next = self.match + 1
        self.inflight.clear()
        self.inflight_bytes = 0

    def retry_from(self, index: int) -> None:
        """A new life lacks what it was offered: the logs agree below `index` at most."""
        self.next = max(index, 1)
        self.probe_sent = False

    def validate(self, last_index: int) -> None:
        """Raises ConsensusError when an invariant is broken."""
        if not self.match < self.next <= last_index + 1:
            raise ConsensusError(f"match {self.match}, next {self.next}, last {last_index}")
        if self.inflight_bytes != sum(size for _, size in self.inflight):
            raise ConsensusError("the window does not add up")
        if self.inflight and not self.replicating:
            raise ConsensusError("a window without replication")


class PeerStatus(msgspec.Struct, frozen=True):
    """What a leader knows about another member."""

    match: int
    """It has the entries up to here on disk."""
    active: bool
    """It was heard within the last two shortest election timeouts."""
    voter: bool
    needs_snapshot: bool
    """Its next entry is no longer in the leader's log (CLU-15)."""
    joined: bool
    """It may vote; before its first answer that is not known, and False."""
