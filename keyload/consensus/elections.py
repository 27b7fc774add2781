"""How a leader comes and goes: time, pre-vote, vote, quorum check, transfer."""

from __future__ import annotations

from typing import Final

from keyload.consensus.core import CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE
from keyload.consensus.messages import Message, MessageKind
from keyload.consensus.quorum import Tally, tally
from keyload.consensus.replication import Replication

_ASKED_BY_LEADER: Final = 1
"""`context` of a VOTE that follows TIMEOUT_NOW: voters answer although they hear a leader."""


class Elections(Replication):
    """Roles and their changes."""

    # --- time

    def tick(self) -> None:
        """One tick has passed (CLU-4)."""
        self._elapsed += 1
        if self.role is LEADER:
            self._tick_leader()
            return
        if self.life:
            self._greet()
        if self._elapsed >= self._timeout:
            self._leader_is_missing()
            return
        self._heartbeat_elapsed += 1
        if self._forwards.open and self._heartbeat_elapsed >= self.config.heartbeat_ticks:
            self._heartbeat_elapsed = 0
            self._forward_reads(self._forwards.number)

    def peer_ended(self, peer: int) -> None:
        """The connection to a peer broke. If it led, an election comes soon, not after a whole timeout.

        This only shortens a wait, so a wrong alarm costs an election at most. The voters stand one after the
        other, the next one behind the leader first: they do not split their votes, and a later one has
        noticed the end too by the time it is asked.
        """
        if self.role is not FOLLOWER or self.leader != peer:
            return
        self._become_follower(self.term, None)
        if self._may_stand:
            others = [voter for voter in self.voters if voter != peer]
            order = sorted(others, key=lambda voter: (voter < peer, voter))
            self._timeout = self.config.heartbeat_ticks * (1 + 2 * order.index(self.id))

    def _leader_is_missing(self) -> None:
        """Nothing was heard of a leader for too long."""
        if self._may_stand:
            self.campaign()
        else:
            self._become_follower(self.term, None)

    def _tick_leader(self) -> None:
        patience = self.config.election_ticks_min
        if self._elapsed >= patience:
            self._elapsed = 0
            if not self._heard_majority():
                self._become_follower(self.term, None)
                return
        if self._transferee is not None:
            self._transfer_ticks += 1
            if self._transfer_ticks >= patience:
                self._transferee = None
        self._heartbeat_elapsed += 1
        if self._heartbeat_elapsed >= self.config.heartbeat_ticks:
            self._heartbeat_elapsed = 0  # not by the heartbeats of reads: they must not put off a retry
            for progress in self._progress.values():
                progress.heartbeat_due()
            self._send_heartbeats()

    def _heard_majority(self) -> bool:
        """Whether a majority of joined voters answered since the last check (CLU-11)."""
        heard = int(self._is_voter)
        for progress in self._progress.values():
            heard += progress.active and progress.counts
            progress.recent = progress.active
            progress.active = False
        return heard >= self._majority

    # --- asking for votes

    @property
    def _may_stand(self) -> bool:
        """Whether this replica has joined and is a voter, as far as it knows.

        While its removal is not committed it still stands: a log that must not be lost may be its own alone
        (thesis, 4.2.2). It wins by the votes of the new membership.
        """
        return not self.life and self.log.may_have_voter(self.id)

    def campaign(self) -> None:
        """Stands for election now, if it may; among others it first asks whether it could win (pre-vote)."""
        if self.role is LEADER or not self._may_stand:
            return
        self._leave_role()
        self.role = PRE_CANDIDATE
        self._draw_timeout()
        self._vote_for_itself()
        if self.other_voters:
            self._ask_for_votes(MessageKind.PRE_VOTE, self.term + 1, 0)
        else:
            self._become_candidate(0)

    def _become_candidate(self, context: int) -> None:
        """Votes for itself in a new term; the requests leave after that vote is on disk."""
        self._leave_role()
        self.role = CANDIDATE
        self.term += 1
        self.vote = self.id
        self._draw_timeout()
        self._vote_for_itself()
        if self.other_voters:
            self._ask_for_votes(MessageKind.VOTE, self.term, context)
        else:
            self._become_leader()

    def _vote_for_itself(self) -> None:
        if self._is_voter:
            self._votes[self.id] = True

    def _ask_for_votes(self, kind: MessageKind, term: int, context: int) -> None:
        log = self.log
        for peer in self.other_voters:
            self._after_sync.append(
                Message(kind, self.id, peer, term, index=log.last, log_term=log.last_term, context=context)
            )

    def _become_leader(self) -> None:
        self._leave_role()
        self.role = LEADER
        self.leader = self.id
        self._elapsed = 0
        self._heartbeat_elapsed = 0
        self._broadcast = 0
        self._take_membership()
        self._term_start = self._append_own(b"")

    # --- giving votes

    def _on_vote(self, message: Message) -> None:
        """At most one vote in a term, for a log at least as good as ours (Raft paper, 5.2 and 5.4.1).

        The candidate's log may name voters that ours does not know yet, this node or itself (thesis, 4.1).
        """
        free = self.vote == message.sender or (self.vote == 0 and self.leader is None)
        granted = self.joined and free and self._is_up_to_date(message)
        if granted:
            self.vote = message.sender
            self._elapsed = 0
        self._reply(MessageKind.VOTE_REPLY, message.sender, not granted)

    def _on_pre_vote(self, message: Message) -> None:
        """Promises nothing: says whether a vote in `message.term` would be given."""
        free = (
            message.term > self.term
            or self.vote == message.sender
            or (self.vote == 0 and self.leader is None)
        )
        granted = self.joined and free and self._is_up_to_date(message)
        term = message.term if granted else self.term
        self._after_sync.append(
            Message(MessageKind.PRE_VOTE_REPLY, self.id, message.sender, term, reject=not granted)
        )

    def _is_up_to_date(self, message: Message) -> bool:
        return (message.log_term, message.index) >= (self.log.last_term, self.log.last)

    def _hears_leader(self) -> bool:
        """Whether candidates are ignored: a leader was heard within the shortest election timeout."""
        return self.leader is not None and self._elapsed < self.config.election_ticks_min

    # --- counting votes

    def _on_pre_vote_reply(self, message: Message) -> None:
        asked = self.term if message.reject else self.term + 1
        if self.role is not PRE_CANDIDATE or message.term != asked or message.sender not in self.voters:
            return
        self._votes[message.sender] = not message.reject
        result = tally(self._votes, len(self.voters))
        if result is Tally.WON:
            self._become_candidate(0)
        elif result is Tally.LOST:
            self._become_follower(self.term, None)

    def _on_vote_reply(self, message: Message) -> None:
        if self.role is not CANDIDATE or message.sender not in self.voters:
            return
        self._votes[message.sender] = not message.reject
        result = tally(self._votes, len(self.voters))
        if result is Tally.WON:
            self._become_leader()
        elif result is Tally.LOST:
            self._become_follower(self.term, None)

    # --- transfer

    def transfer(self, target: int) -> bool:
        """Hands the office to `target` once it has the whole log; gives up after the shortest timeout.

        Proposals are refused meanwhile. False when this node does not lead or `target` is no other voter that
        has joined.
        """
        progress = self._progress.get(target)
        if self.role is not LEADER or progress is None or not progress.counts:
            return False
        if self._transferee != target:
            self._transferee = target
            self._transfer_ticks = 0
            if progress.match == self.log.last:
                self._hand_over(target)
            elif not progress.paused:
                self._send_append(target, progress)
        return True

    def keeps_up(self, target: int) -> bool:
        """Whether `target` answers and lacks no more than what is on its way, so that a transfer is quick."""
        progress = self._progress.get(target)
        if progress is None or not (progress.counts and progress.active and progress.replicating):
            return False
        return self.log.last - progress.match <= self.config.max_inflight_messages

    def _on_timeout_now(self, message: Message) -> None:
        if message.sender == self.leader and self._may_stand:
            self._become_candidate(_ASKED_BY_LEADER)

    # --- terms

    def _adopt_newer_term(self, message: Message) -> bool:
        """Follows a message into its later term, unless it only asks. False: do not handle it."""
        kind = message.kind
        if kind is MessageKind.PRE_VOTE or kind is MessageKind.VOTE:
            if message.context != _ASKED_BY_LEADER and self._hears_leader():
                return False
            if kind is MessageKind.PRE_VOTE:
                return True
        elif kind is MessageKind.PRE_VOTE_REPLY and not message.reject:
            return True
        self._become_follower(message.term, None)
        return True

    def _answer_older_term(self, message: Message) -> None:
        """Tells a sender that its term is over; a deposed leader or candidate then steps down."""
        kind = message.kind
        if kind is MessageKind.APPEND or kind is MessageKind.HEARTBEAT:
            self._reply(MessageKind.APPEND_REPLY, message.sender, True)
        elif kind is MessageKind.VOTE:
            self._reply(MessageKind.VOTE_REPLY, message.sender, True)
        elif kind is MessageKind.PRE_VOTE:
            self._reply(MessageKind.PRE_VOTE_REPLY, message.sender, True)
