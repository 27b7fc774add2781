"""Replicas that break one rule of joining, of the membership or of snapshots each."""

from __future__ import annotations

import msgspec

from keyload.consensus import Config, HardState, LogStorage, Membership, Message, Raft
from keyload.consensus.log import RaftLog
from keyload.consensus.progress import Progress


class NeedNotJoin(Raft):
    """An erased replica that votes as if it had promised nothing."""

    def __init__(
        self, config: Config, log: LogStorage, hard_state: HardState, applied: int, membership: Membership
    ) -> None:
        joined = msgspec.structs.replace(hard_state, joined=True)
        super().__init__(config, log, joined, applied, membership)


class BelievesOneWelcome(Raft):
    """Takes one fresh voter for a cluster that starts for the first time."""

    def _on_welcome(self, message: Message) -> None:
        if self.life and message.life == self.life and self._fresh:
            self._join()


class TakesWelcomesOfFormerLives(Raft):
    """Does not ask whose question a welcome answers."""

    def _on_welcome(self, message: Message) -> None:
        super()._on_welcome(msgspec.structs.replace(message, life=self.life))


class InvitesUnasked(Raft):
    """A leader that lets replicas join without knowing whether it still leads."""

    def _bounding_round(self, peer: int, progress: Progress) -> int:
        return progress.join_round


class InvitesOnAnOldRound(Raft):
    """A leader that counts rounds from before it heard of the life."""

    def _meet(self, progress: Progress, life: int) -> bool:
        known = super()._meet(progress, life)
        progress.join_round = 0
        return known


class TakesAllLivesForOne(Raft):
    """A leader for which what one life has on disk is what another life may count for."""

    def _meet(self, progress: Progress, life: int) -> bool:
        match, voter = progress.match, progress.voter
        known = super()._meet(progress, life)
        progress.match, progress.voter = match, voter
        progress.next = max(progress.next, match + 1)
        return known


class JoinsBeforeItsLog(Raft):
    """Votes before it has what its former lives acknowledged."""

    def _on_join(self, message: Message) -> None:
        if self.life and message.life == self.life and message.sender == self.leader:
            self._join()


class CountsWhoHasNotJoined(Raft):
    """A leader that commits with the disks of replicas that have not joined."""

    def _count_commit(self) -> None:
        lives = {peer: progress.life for peer, progress in self._progress.items()}
        for progress in self._progress.values():
            progress.life = 0
        super()._count_commit()
        for peer, progress in self._progress.items():
            progress.life = lives[peer]


class ReadsWithWhoHasNotJoined(Raft):
    """A leader whose reads are confirmed by replicas that may have followed a later one."""

    def _confirmed_round(self) -> int:
        rounds = sorted(
            [self._rounds.number, *[peer.round for peer in self._progress.values() if peer.voter]]
        )
        return rounds[(len(rounds) - 1) >> 1]

    def _pair_decides(self, question: Message) -> bool:
        return super()._pair_decides(msgspec.structs.replace(question, life=0))


class CommitsForAFormerLife(Raft):
    """A replica that takes the commit index meant for a log it no longer has."""

    def _on_heartbeat(self, message: Message) -> None:
        super()._on_heartbeat(msgspec.structs.replace(message, life=self.life))


class ChangesWhileOneIsUnderway(Raft):
    """Does not wait until the former change is committed: majorities need not overlap."""

    def _is_settled(self) -> bool:
        return True


class ChangesBeforeItsOwnTerm(Raft):
    """The error of the thesis' first form: a change before an entry of the own term is committed."""

    def _is_settled(self) -> bool:
        return self.log.settled


class KeepsACutMembership(Raft):
    """Goes on with a membership whose entry was replaced."""

    def _take_membership(self) -> None:
        former = getattr(self, "membership", None)
        super()._take_membership()
        if former is not None and self.log.memberships[-1][0] <= self.log.commit:
            self.log.memberships.append((self.log.commit, former))
            super()._take_membership()


class WaitsForTheCommit(Raft):
    """Takes a membership only when it is committed: two leaders may count by different ones."""

    def _take_membership(self) -> None:
        log: RaftLog = self.log
        uncommitted = [entry for entry in log.memberships if entry[0] > log.commit]
        kept = log.memberships[: len(log.memberships) - len(uncommitted)]
        log.memberships = kept
        super()._take_membership()
        log.memberships = kept + uncommitted
        self.membership = log.memberships[-1][1]


class CountsLearners(Raft):
    """Takes learners for voters when it counts disks."""

    def _count_commit(self) -> None:
        voters = {peer: progress.voter for peer, progress in self._progress.items()}
        for progress in self._progress.values():
            progress.voter = True
        super()._count_commit()
        for peer, progress in self._progress.items():
            progress.voter = voters[peer]


class LeadsAfterItsRemoval(Raft):
    """A leader that stays although the members have removed it."""

    def _leave_office(self) -> None:
        pass


class CountsItselfWhenRemoved(Raft):
    """A leader that counts its own disk although it is no voter any more."""

    def _count_commit(self) -> None:
        self._is_voter, former = True, self._is_voter
        super()._count_commit()
        self._is_voter = former


class StandsWithoutAsking(Raft):
    """A voter that goes straight for votes, whether others hear a leader or not."""

    def _leader_is_missing(self) -> None:
        if self._may_stand:
            self._become_candidate(1)


class KeepsTheAnswersOfBefore(Raft):
    """Sends acknowledgements of entries that the snapshot took away."""

    def restore(self, index: int, term: int, membership: Membership) -> None:
        answers = list(self._after_sync)
        super().restore(index, term, membership)
        self._after_sync += answers


class NeverLags(Raft):
    """A leader that does not notice who needs a snapshot."""

    def lagging(self) -> list[int]:
        return []
