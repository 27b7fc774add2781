"""Membership: how it changes, one step at a time, and what a leader tells about the members; snapshots."""

from __future__ import annotations

from keyload.consensus.core import FOLLOWER, LEADER
from keyload.consensus.elections import Elections
from keyload.consensus.errors import ConsensusError
from keyload.consensus.membership import Membership
from keyload.consensus.messages import Message, MessageKind
from keyload.consensus.progress import PeerStatus


class Changes(Elections):
    """Changes of the membership, and of the whole state by a snapshot."""

    def propose_membership(self, membership: Membership) -> int | None:
        """Appends a change of the membership; returns its index. It is in force from now on (thesis, 4.1).

        None when this node does not lead or hands its office over; when the former change, or an entry of
        this leader's own term, is not committed; when `membership` is not one step from the one in force;
        when the learner to be promoted has not joined; and when no majority of the new voters has (CLU-19).
        """
        if self.role is not LEADER or self._transferee is not None or not self._is_settled():
            return None
        if not self.membership.is_step_to(membership) or not self._would_work(membership):
            return None
        index = self._append_own(membership.packed(), membership=True)
        self._take_membership()
        if self._rounds.open:
            self._finish_rounds()
        return index

    def _would_work(self, membership: Membership) -> bool:
        """Whether who becomes a voter has joined, and so has a majority of the voters."""
        joined = [node for node in membership.voters if node == self.id or self._has_joined(node)]
        promoted = set(membership.voters).difference(self.voters)
        return promoted.issubset(joined) and len(joined) > len(membership.voters) // 2

    def _has_joined(self, peer: int) -> bool:
        progress = self._progress.get(peer)
        return progress is not None and progress.life == 0

    # --- what a leader knows

    def peer_status(self, peer: int) -> PeerStatus | None:
        """What this leader knows about another member; None when it does not lead or knows no such member."""
        progress = self._progress.get(peer)
        if progress is None:
            return None
        return PeerStatus(
            progress.match,
            progress.active or progress.recent,
            progress.voter,
            progress.needs_snapshot,
            progress.life == 0,
        )

    def lagging(self) -> list[int]:
        """The members whose next entry this leader no longer has: they need a snapshot (CLU-15)."""
        return [peer for peer, progress in self._progress.items() if progress.needs_snapshot]

    # --- snapshots

    def restore(self, index: int, term: int, membership: Membership) -> None:
        """State and log have durably been replaced by a snapshot of everything up to the entry (index, term).

        `membership` is the one at `index`. No Ready may be open, and the log storage must already say so.
        What was not written yet is forgotten, together with the answers that speak of it, as in a restart.

        The leader that is told may be one that a majority has already left for a later term, in which the
        snapshot was committed; its log may then differ. Its counting this answer does no harm: those who
        truly had its entry on disk would not have elected the first later leader without it, nor did this
        replica, which is still in the earlier term; together with the rest they would be two majorities.

        Raises ConsensusError on a leader, for a snapshot of less than was applied, and when the log storage
        says otherwise.
        """
        if self._open_ready is not None or self.role is LEADER or index <= self.log.applied:
            raise ConsensusError(f"{self.role.name} that applied {self.log.applied} restores {index}")
        if term > self.term:
            self._become_follower(term, None)
        if self.role is not FOLLOWER:
            self._become_follower(self.term, None)
        self._after_sync.clear()
        self.log.load(index, index, membership)
        if self.log.term(index) != term:
            raise ConsensusError(f"restored ({index}, {term}), the log has {self.log.term(index)}")
        self._take_membership()
        self._try_join()
        if self.leader is not None:
            self._after_sync.append(
                Message(MessageKind.APPEND_REPLY, self.id, self.leader, self.term, index, life=self.life)
            )
