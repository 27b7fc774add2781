"""Replicas that break one rule each, to prove that the simulator's checkers can fail."""

from __future__ import annotations

import msgspec

from keyload.consensus import Config, Entry, HardState, LogStorage, Membership, Message, Raft, Ready, Role


class ForgetsItsVote(Raft):
    """After a restart it may vote again in the same term."""

    def __init__(
        self, config: Config, log: LogStorage, hard_state: HardState, applied: int, membership: Membership
    ) -> None:
        forgetful = msgspec.structs.replace(hard_state, vote=0)
        super().__init__(config, log, forgetful, applied, membership)


class ForgetsItsTerm(Raft):
    """After a restart it knows only the term of its last entry."""

    def __init__(
        self, config: Config, log: LogStorage, hard_state: HardState, applied: int, membership: Membership
    ) -> None:
        forgetful = msgspec.structs.replace(hard_state, term=log.term(log.last_index), vote=0)
        super().__init__(config, log, forgetful, applied, membership)


class SpeaksBeforeTheSync(Raft):
    """Votes and acknowledgements leave before what they promise is on disk."""

    def ready(self) -> Ready:
        ready = super().ready()
        ready.messages.extend(ready.messages_after_sync)
        ready.messages_after_sync.clear()
        return ready


class CommitsEarlierTermsByCounting(Raft):
    """Figure 8 of the Raft paper."""

    def _may_commit(self, index: int) -> bool:
        return True


class VotesForAnyLog(Raft):
    """Elects leaders that lack committed entries."""

    def _is_up_to_date(self, message: Message) -> bool:
        return True


class ReadsWithoutQuorum(Raft):
    """A leader that trusts its memory."""

    def _begin_round(self) -> None:
        super()._begin_round()
        for progress in self._progress.values():
            progress.round = self._rounds.number
        self._finish_rounds()


class ReadsBeforeItsOwnTerm(Raft):
    """A new leader that takes its commit index for the cluster's."""

    def _rounds_startable(self) -> bool:
        return bool(self._rounds.waiting)


class AnswersAnyGroup(Raft):
    """A follower that takes an answer to an earlier read for the answer to all its reads."""

    def _on_read_index_reply(self, message: Message) -> None:
        contexts = self._forwards.lose() if message.sender == self.leader else []
        self._reads.extend([(context, message.index) for context in contexts])


class AcceptsWithoutMatching(Raft):
    """A follower that appends whatever comes, gap or not."""

    def _on_append(self, message: Message) -> None:
        if message.index <= self.log.last and self.log.commit <= message.index:
            term = self.log.term(message.index)
            message = Message(
                message.kind,
                message.sender,
                message.to,
                message.term,
                message.index,
                term,
                message.commit,
                message.entries,
            )
        super()._on_append(message)


class CountsAMinority(Raft):
    """Commits what any one follower has, in clusters of any size."""

    def _count_commit(self) -> None:
        reached = max([self.log.stable, *[peer.match for peer in self._progress.values()]])
        if reached > self.log.commit:
            self.log.commit = reached


class NeverRetries(Raft):
    """A leader that takes a lost append for a slow one."""

    def _on_heartbeat_reply(self, message: Message) -> None:
        progress = self._progress.get(message.sender)
        if progress is not None:
            progress.active = True

    def _on_append_reply(self, message: Message) -> None:
        if not message.reject:
            super()._on_append_reply(message)


class ProposesTwice(Raft):
    """Puts a command into the log twice."""

    def propose(self, data: bytes) -> int | None:
        index = super().propose(data)
        if index is not None and self.role is Role.LEADER and index % 5 == 0:
            self.log.append(Entry(self.term, index + 1, data))
        return index


MUTANTS: tuple[type[Raft], ...] = (
    ForgetsItsVote,
    ForgetsItsTerm,
    SpeaksBeforeTheSync,
    CommitsEarlierTermsByCounting,
    VotesForAnyLog,
    ReadsWithoutQuorum,
    ReadsBeforeItsOwnTerm,
    AnswersAnyGroup,
    AcceptsWithoutMatching,
    CountsAMinority,
    NeverRetries,
    ProposesTwice,
)
