"""Sentences of the Raft paper and thesis, one test each; the quoted place is in the docstring."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import pytest

from harness.simulator.disk import Disk
from keyload.consensus import (
    Config,
    ConsensusError,
    Entry,
    HardState,
    Membership,
    Message,
    MessageKind,
    Raft,
    Ready,
    Role,
)

K = MessageKind
THREE = Membership((1, 2, 3))


@dataclass
class Replica:
    """Node 1 of three, its disk and everything it said."""

    disk: Disk = field(default_factory=Disk)
    applied: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    joined: bool = True
    membership: Membership = THREE

    def __post_init__(self) -> None:
        config = Config(id=1, rng=Random(3), **self.settings)
        state = msgspec.structs.replace(self.disk.hard_state, joined=self.joined)
        self.raft = Raft(config, self.disk, state, self.applied, self.membership)

    def turn(self) -> Ready:
        """One turn with its sync; the Ready."""
        ready = self.raft.ready()
        self.disk.write(ready.hard_state, ready.entries)
        self.disk.sync()
        self.raft.advance(ready)
        self.raft.validate()
        return ready

    def said(self) -> list[Message]:
        """All messages until there is nothing to do."""
        messages: list[Message] = []
        while self.raft.has_ready():
            ready = self.turn()
            messages += ready.messages + ready.messages_after_sync
        return messages

    def hears(self, kind: MessageKind, term: int, sender: int = 2, **members: Any) -> list[Message]:
        self.raft.step(Message(kind, sender, 1, term, **members))
        return self.said()

    def leads(self) -> int:
        """Wins the next election; returns the term."""
        self.raft.campaign()
        self.said()
        self.hears(K.PRE_VOTE_REPLY, self.raft.term + 1)
        self.hears(K.VOTE_REPLY, self.raft.term)
        assert self.raft.role is Role.LEADER
        return self.raft.term


def with_log(*terms: int, state: HardState | None = None) -> Replica:
    """A restarted replica with entries of these terms."""
    disk = Disk()
    entries = [Entry(term, index, b"%d" % index) for index, term in enumerate(terms, 1)]
    disk.write(state or HardState(max(terms, default=0), 0, 0), entries)
    disk.sync()
    return Replica(disk)


@pytest.mark.covers("CLU-4", "CLU-10")
def test_followers_of_a_leader_that_ended_stand_soon_and_one_after_the_other() -> None:
    waited: list[int] = []
    for number in (1, 3):
        raft = Raft(Config(id=number, rng=Random(0)), Disk(), HardState(joined=True), 0, THREE)
        raft.step(Message(K.HEARTBEAT, 2, number, 1))
        raft.peer_ended(number)
        raft.peer_ended(4 - number)
        assert raft.leader == 2, "that was another's end"
        raft.peer_ended(2)
        assert raft.leader is None
        ticks = 0
        while raft.role is Role.FOLLOWER:
            raft.tick()
            ticks += 1
        waited.append(ticks)
    assert waited == [6, 2], "the next behind the leader first"


@pytest.mark.covers("CLU-7")
def test_a_server_starts_as_follower() -> None:
    """5.2: when servers start up, they begin as followers."""
    assert (Replica().raft.role, with_log(1, 2).raft.role) == (Role.FOLLOWER, Role.FOLLOWER)


@pytest.mark.covers("CLU-4", "CLU-7")
def test_a_follower_without_leader_begins_an_election_after_its_timeout() -> None:
    """5.2: if a follower receives no communication over the election timeout, it begins an election."""
    timeouts = set()
    for seed in range(60):
        joined = HardState(joined=True)
        raft = Raft(Config(id=1, rng=Random(seed)), Disk(), joined, 0, THREE)
        ticks = 0
        while raft.role is Role.FOLLOWER:
            raft.tick()
            ticks += 1
        timeouts.add(ticks)
    assert min(timeouts) >= 20
    assert max(timeouts) <= 40
    assert len(timeouts) > 10


@pytest.mark.covers("CLU-7")
def test_a_candidate_increments_its_term_and_votes_for_itself() -> None:
    """5.2: to begin an election, a follower increments its term, votes for itself, asks in parallel."""
    replica = Replica()
    replica.raft.campaign()
    asked = replica.said()
    assert {(m.kind, m.to, m.term) for m in asked} == {(K.PRE_VOTE, 2, 1), (K.PRE_VOTE, 3, 1)}
    assert replica.raft.term == 0
    asked = replica.hears(K.PRE_VOTE_REPLY, 1)
    assert {(m.kind, m.to, m.term) for m in asked} == {(K.VOTE, 2, 1), (K.VOTE, 3, 1)}
    assert replica.disk.synced_state == HardState(1, 1, 0, True)


@pytest.mark.covers("CLU-7")
def test_vote_requests_leave_after_the_own_vote_is_on_disk() -> None:
    """5.2 with figure 2: currentTerm and votedFor are updated on stable storage before responding to RPCs."""
    replica = Replica()
    replica.raft.campaign()
    replica.said()
    replica.raft.step(Message(K.PRE_VOTE_REPLY, 2, 1, 1))
    ready = replica.raft.ready()
    assert ready.hard_state == HardState(1, 1, 0, True)
    assert ready.messages == []
    assert [message.kind for message in ready.messages_after_sync] == [K.VOTE, K.VOTE]


@pytest.mark.covers("CLU-7")
def test_first_come_first_served_one_vote_in_a_term() -> None:
    """5.2: each server votes for at most one candidate in a term, first-come-first-served."""
    replica = Replica()
    (answer,) = replica.hears(K.VOTE, 1, sender=2)
    assert (answer.kind, answer.reject) == (K.VOTE_REPLY, False)
    (answer,) = replica.hears(K.VOTE, 1, sender=3)
    assert answer.reject
    (answer,) = replica.hears(K.VOTE, 1, sender=2)
    assert not answer.reject


@pytest.mark.covers("CLU-7")
@pytest.mark.parametrize(
    ("index", "log_term", "granted"),
    [(3, 2, True), (9, 2, True), (1, 3, True), (2, 2, False), (9, 1, False), (0, 0, False)],
)
def test_the_voter_denies_a_log_that_is_behind_its_own(index: int, log_term: int, granted: bool) -> None:
    """5.4.1: the voter denies its vote if its own log is more up-to-date than that of the candidate."""
    for kind in (K.VOTE, K.PRE_VOTE):
        (answer,) = with_log(1, 1, 2).hears(kind, 5, index=index, log_term=log_term)
        assert answer.reject is not granted


@pytest.mark.covers("CLU-7")
def test_a_candidate_returns_to_follower_when_it_hears_a_leader() -> None:
    """5.2: if the leader's term is at least as large as the candidate's, it recognizes the leader."""
    replica = Replica()
    replica.raft.campaign()
    replica.said()
    replica.hears(K.PRE_VOTE_REPLY, 1)
    assert replica.raft.role is Role.CANDIDATE
    replica.hears(K.HEARTBEAT, 1, sender=3)
    assert (replica.raft.role, replica.raft.leader) == (Role.FOLLOWER, 3)


@pytest.mark.covers("CLU-7", "CLU-14")
@pytest.mark.parametrize("kind", list(MessageKind))
def test_a_message_of_an_older_term_changes_nothing(kind: MessageKind) -> None:
    """5.1: if a server receives a request with a stale term number, it rejects the request."""
    replica = with_log(1, 2, state=HardState(4, 3, 1))
    answers = replica.hears(kind, 3, index=2, log_term=2, commit=2)
    assert (replica.raft.term, replica.raft.vote, replica.raft.last_index) == (4, 3, 2)
    assert replica.raft.role is Role.FOLLOWER
    assert all(answer.reject and answer.term == 4 for answer in answers)


@pytest.mark.covers("CLU-7")
@pytest.mark.parametrize(
    "kind",
    [K.VOTE_REPLY, K.APPEND, K.APPEND_REPLY, K.HEARTBEAT, K.HEARTBEAT_REPLY, K.READ_INDEX, K.TIMEOUT_NOW],
)
def test_a_later_term_makes_a_leader_step_down(kind: MessageKind) -> None:
    """5.1: if a candidate or leader discovers that its term is out of date, it reverts to follower."""
    replica = Replica()
    term = replica.leads()
    replica.hears(kind, term + 3)
    assert (replica.raft.role, replica.raft.term, replica.raft.vote) == (Role.FOLLOWER, term + 3, 0)


@pytest.mark.covers("CLU-7")
def test_a_new_leader_appends_an_empty_entry() -> None:
    """8: each leader commits a blank no-op entry into the log at the start of its term."""
    replica = with_log(1)
    term = replica.leads()
    assert replica.disk.log[-1] == Entry(term, 2, b"")
    assert not replica.raft.leader_ready
    replica.hears(K.APPEND_REPLY, term, index=2)
    assert replica.raft.leader_ready


@pytest.mark.covers("CLU-7")
def test_an_entry_is_committed_when_a_majority_has_it() -> None:
    """5.3: an entry is committed once the leader that created it has replicated it on a majority."""
    replica = Replica()
    term = replica.leads()
    index = replica.raft.propose(b"a")
    replica.said()
    assert replica.raft.commit == 0
    replica.hears(K.APPEND_REPLY, term, index=1)
    assert replica.raft.commit == 1
    replica.hears(K.APPEND_REPLY, term, index=2)
    assert replica.raft.commit == index == 2


@pytest.mark.covers("CLU-7")
def test_entries_of_earlier_terms_are_not_committed_by_counting() -> None:
    """5.4.2: only log entries from the leader's current term are committed by counting replicas."""
    replica = with_log(1, 2)
    term = replica.leads()
    replica.hears(K.APPEND_REPLY, term, index=2)
    assert replica.raft.commit == 0
    replica.hears(K.APPEND_REPLY, term, index=3)
    assert replica.raft.commit == 3


@pytest.mark.covers("CLU-7")
def test_a_follower_refuses_what_does_not_follow_its_log() -> None:
    """5.3: if the follower does not find an entry with the same index and term, it refuses the new."""
    replica = with_log(1, 1, 2)
    (answer,) = replica.hears(K.APPEND, 3, index=3, log_term=3, entries=(Entry(3, 4, b""),))
    assert (answer.reject, answer.index, replica.raft.last_index) == (True, 3, 3)
    (answer,) = replica.hears(K.APPEND, 3, index=5, log_term=3, entries=(Entry(3, 6, b""),))
    assert (answer.reject, answer.hint, answer.log_term) == (True, 3, 2)


@pytest.mark.covers("CLU-7")
def test_a_conflicting_entry_and_all_that_follow_are_deleted() -> None:
    """Figure 2: if an existing entry conflicts with a new one, delete it and all that follow it."""
    replica = with_log(1, 1, 1, 1)
    (answer,) = replica.hears(K.APPEND, 2, index=1, log_term=1, entries=(Entry(2, 2, b"new"),))
    assert (answer.reject, answer.index) == (False, 2)
    assert [(entry.index, entry.term) for entry in replica.disk.synced_log] == [(1, 1), (2, 2)]


@pytest.mark.covers("CLU-7")
def test_the_follower_commits_what_the_leader_has_but_not_beyond_the_new_entries() -> None:
    """Figure 2: set commitIndex to min(leaderCommit, index of last new entry)."""
    replica = with_log(1, 1, 1)
    replica.hears(K.APPEND, 1, index=1, log_term=1, commit=3, entries=(Entry(1, 2, b"2"),))
    assert replica.raft.commit == 2


@pytest.mark.covers("CLU-7")
def test_a_committed_entry_is_acknowledged_and_never_replaced() -> None:
    """5.4.3, state machine safety: no other server applies a different entry for the same index."""
    replica = with_log(1, 1, state=HardState(1, 0, 2))
    (answer,) = replica.hears(K.APPEND, 2, index=1, log_term=1, entries=(Entry(2, 2, b""),))
    assert (answer.reject, answer.index) == (False, 2)
    assert replica.disk.log[1] == Entry(1, 2, b"2")


@pytest.mark.covers("CLU-7")
@pytest.mark.parametrize("sender", [2, 3])
def test_two_leaders_of_a_term_stop_the_replica(sender: int) -> None:
    """5.2, election safety: at most one leader can be elected in a given term."""
    replica = Replica()
    term = replica.leads()
    with pytest.raises(ConsensusError, match="both lead"):
        replica.raft.step(Message(K.APPEND, sender, 1, term))


@pytest.mark.covers("CLU-7")
def test_commands_are_applied_in_order_and_once() -> None:
    """5.3: the leader applies the entry to its state machine, in log order."""
    replica = Replica(settings={"max_committed_bytes": 2})
    term = replica.leads()
    for text in (b"a", b"b", b"c", b"d", b"e"):
        replica.raft.propose(text)
    replica.said()
    replica.raft.step(Message(K.APPEND_REPLY, 3, 1, term, index=6))
    slices = []
    while replica.raft.has_ready():
        slices.append([entry.data for entry in replica.turn().committed])
    assert [data for part in slices for data in part] == [b"", b"a", b"b", b"c", b"d", b"e"]
    assert all(sum(map(len, part)) <= 2 for part in slices)


@pytest.mark.covers("CLU-14")
def test_strays_change_nothing() -> None:
    """Messages meant for others, or in this node's own name, are ignored."""
    replica = with_log(1)
    for sender, to in ((0, 1), (1, 1), (2, 3)):
        replica.raft.step(Message(K.VOTE, sender, to, 9, index=9, log_term=9))
        assert not replica.raft.has_ready()
    assert replica.raft.term == 1


@pytest.mark.covers("CLU-14")
def test_replies_beyond_the_log_or_the_round_are_ignored() -> None:
    """A leader believes no acknowledgement of what it does not have."""
    replica = Replica()
    term = replica.leads()
    replica.hears(K.APPEND_REPLY, term, index=50)
    replica.hears(K.HEARTBEAT_REPLY, term, index=1, context=50)
    assert replica.raft.commit == 0
    replica.hears(K.VOTE_REPLY, term, sender=3)
    replica.hears(K.PRE_VOTE_REPLY, term, sender=3, reject=True)
    replica.hears(K.READ_INDEX_REPLY, term, index=9, commit=9)
    assert (replica.raft.role, replica.raft.commit) == (Role.LEADER, 0)


@pytest.mark.covers("CLU-22")
def test_proposals_are_refused_beyond_the_limit_and_accepted_after_it() -> None:
    """The uncommitted tail is bounded; the refused call changes nothing, the next one works."""
    replica = Replica(settings={"max_uncommitted_bytes": 64 + 64 + 10})
    term = replica.leads()
    assert replica.raft.propose(b"x" * 10) == 2
    assert replica.raft.propose(b"") is None
    replica.said()
    replica.hears(K.APPEND_REPLY, term, index=2)
    assert replica.raft.propose(b"x" * 1000) == 3


@pytest.mark.covers("CLU-22", "CLU-24")
def test_reads_are_refused_beyond_the_limit() -> None:
    """On a leader and on a follower alike."""
    leader = Replica(settings={"max_reads": 2})
    term = leader.leads()
    assert [leader.raft.read_index(context) for context in (1, 2, 3)] == [True, True, False]
    leader.raft.step(Message(K.READ_INDEX, 2, 1, term, context=7))
    leader.hears(K.APPEND_REPLY, term, index=1)
    leader.raft.step(Message(K.HEARTBEAT_REPLY, 2, 1, term, index=1, context=1))
    assert leader.turn().reads == [(1, 1), (2, 1)]
    follower = Replica(settings={"max_reads": 2})
    assert not follower.raft.read_index(1)
    follower.hears(K.HEARTBEAT, 1)
    assert [follower.raft.read_index(context) for context in (1, 2, 3)] == [True, True, False]


@pytest.mark.covers("CLU-24")
def test_a_follower_loses_its_reads_with_its_leader() -> None:
    """Thesis, 6.4: the read must be retried with the new leader."""
    replica = Replica()
    replica.hears(K.HEARTBEAT, 1)
    assert replica.raft.read_index(5)
    replica.said()
    replica.raft.step(Message(K.HEARTBEAT, 3, 1, 2))
    assert replica.turn().lost_reads == [5]


@pytest.mark.covers("CLU-24")
def test_an_answer_of_another_node_than_the_leader_is_not_taken() -> None:
    """Only the leader of the term can confirm a read."""
    replica = Replica()
    replica.hears(K.HEARTBEAT, 1, sender=2)
    replica.raft.read_index(5)
    (question,) = replica.said()
    replica.hears(K.READ_INDEX_REPLY, 1, sender=3, context=question.context)
    replica.raft.step(Message(K.READ_INDEX_REPLY, 2, 1, 1, index=4, context=question.context))
    assert replica.turn().reads == [(5, 4)]


@pytest.mark.covers("CLU-7")
def test_turns_follow_each_other() -> None:
    """One Ready is open at a time, and only its own advance closes it."""
    replica = Replica()
    replica.raft.campaign()
    ready = replica.raft.ready()
    assert not replica.raft.has_ready()
    with pytest.raises(ConsensusError):
        replica.raft.ready()
    replica.raft.advance(ready)
    with pytest.raises(ConsensusError):
        replica.raft.advance(ready)


@pytest.mark.covers("CLU-17")
def test_a_log_that_knows_a_later_term_than_the_hard_state_is_refused() -> None:
    """Figure 2: the term is durable no later than the entries that carry it."""
    with pytest.raises(ConsensusError, match="term 3"):
        with_log(1, 3, state=HardState(2, 0, 0))


@pytest.mark.covers("CLU-7")
def test_a_commit_alone_asks_for_no_write() -> None:
    """Figure 2 keeps commitIndex volatile: it rides along with other writes."""
    replica = Replica()
    term = replica.leads()
    replica.raft.step(Message(K.APPEND_REPLY, 2, 1, term, index=1))
    assert replica.turn().hard_state is None
    replica.raft.propose(b"a")
    assert replica.turn().hard_state == HardState(term, 1, 1, True)


@pytest.mark.covers("CLU-7")
def test_only_the_leader_can_hand_over() -> None:
    """Thesis, 3.10: TimeoutNow counts only when it comes from the leader of the term."""
    replica = Replica()
    replica.hears(K.HEARTBEAT, 1, sender=2)
    replica.hears(K.TIMEOUT_NOW, 1, sender=3)
    assert replica.raft.role is Role.FOLLOWER
    asked = replica.hears(K.TIMEOUT_NOW, 1, sender=2)
    assert {(m.kind, m.term, m.context) for m in asked} == {(K.VOTE, 2, 1)}
