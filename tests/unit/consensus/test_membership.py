"""The membership as a value, as entries of the log, and what a leader refuses to do with it."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from keyload.consensus import (
    ConsensusError,
    Entry,
    Membership,
    Message,
    MessageKind,
    PeerStatus,
    Role,
)
from keyload.consensus.log import RaftLog
from keyload.consensus.membership import MAX_MEMBERS
from tests.unit.consensus.test_paper import Replica

K = MessageKind
THREE = Membership((1, 2, 3))


@pytest.mark.covers("CLU-19")
def test_a_membership_is_sorted_and_comes_back_as_it_left() -> None:
    membership = Membership((3, 1, 2), (9, 4))
    assert (membership.voters, membership.learners) == ((1, 2, 3), (4, 9))
    assert membership.members == (1, 2, 3, 4, 9)
    assert Membership.unpacked(membership.packed()) == membership


@pytest.mark.covers("CLU-19")
@pytest.mark.parametrize(
    ("voters", "learners"),
    [((), ()), ((), (1,)), ((1, 1), ()), ((1,), (1,)), ((0,), ()), ((1,), (-2,)), (range(1, 66), ())],
)
def test_what_is_no_membership_is_refused(voters: tuple[int, ...], learners: tuple[int, ...]) -> None:
    with pytest.raises(ValueError):
        Membership(tuple(voters), learners)


@pytest.mark.covers("CLU-19", "CLU-22")
@pytest.mark.parametrize(
    "data", [b"", b"\xc0", b"\x91\x90", b"\x92\x91\x01\x91\x01", b"\x91\x91\xa1a", b"\x91" * 100_000]
)
def test_bytes_that_are_no_membership_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        Membership.unpacked(data)


@pytest.mark.covers("CLU-19")
def test_majorities_before_and_after_a_step_share_a_node() -> None:
    """Thesis, 4.1, for all memberships of up to four nodes."""
    memberships = [
        Membership(tuple(node for node in range(1, 5) if roles[node - 1] == 2), learners)
        for roles in product((0, 1, 2), repeat=4)
        if 2 in roles
        for learners in [tuple(node for node in range(1, 5) if roles[node - 1] == 1)]
    ]
    steps = 0
    for before, after in product(memberships, repeat=2):
        if before.is_step_to(after):
            steps += 1
            assert (
                len(set(before.members) ^ set(after.members))
                + len(set(before.voters) & set(after.learners))
                + len(set(before.learners) & set(after.voters))
                == 1
            )
            for one in combinations(before.voters, len(before.voters) // 2 + 1):
                for other in combinations(after.voters, len(after.voters) // 2 + 1):
                    assert set(one) & set(other)
    assert steps > 100


@pytest.mark.covers("CLU-19")
@pytest.mark.parametrize(
    "membership",
    [
        THREE,
        Membership((1, 2, 3, 4)),
        Membership((1, 2, 3), (4, 5)),
        Membership((1, 4)),
        Membership((1,)),
        Membership((1, 2), (3,)),
    ],
    ids=str,
)
def test_a_leader_refuses_what_is_not_one_step(membership: Membership) -> None:
    replica = Replica()
    term = replica.leads()
    replica.hears(K.APPEND_REPLY, term, index=1)
    assert replica.raft.propose_membership(membership) is None
    assert replica.raft.last_index == 1


@pytest.mark.covers("CLU-19")
def test_one_change_at_a_time_and_only_by_a_settled_leader() -> None:
    """Thesis, 4.1, and its later correction: an entry of the own term comes first."""
    replica = Replica()
    four = Membership((1, 2, 3), (4,))
    assert replica.raft.propose_membership(four) is None
    term = replica.leads()
    assert replica.raft.propose_membership(four) is None
    replica.hears(K.APPEND_REPLY, term, index=1)
    assert replica.raft.propose_membership(four) == 2
    assert replica.raft.membership == four
    replica.said()
    assert replica.raft.propose_membership(THREE) is None
    replica.hears(K.APPEND_REPLY, term, index=2)
    assert replica.raft.propose_membership(THREE) == 3
    assert replica.disk.memberships(1) == [Entry(term, 2, four.packed(), True)]


@pytest.mark.covers("CLU-18", "CLU-19")
def test_a_learner_is_promoted_after_it_joined() -> None:
    replica = Replica()
    term = replica.leads()
    replica.hears(K.APPEND_REPLY, term, index=1)
    replica.raft.propose_membership(Membership((1, 2, 3), (4,)))
    replica.said()
    replica.hears(K.APPEND_REPLY, term, index=2)
    four = Membership((1, 2, 3, 4))
    assert replica.raft.propose_membership(four) is None
    replica.hears(K.HEARTBEAT_REPLY, term, sender=4, life=7)
    status = replica.raft.peer_status(4)
    assert status == PeerStatus(match=0, active=True, voter=False, needs_snapshot=False, joined=False)
    assert replica.raft.propose_membership(four) is None
    answers = replica.hears(K.HEARTBEAT_REPLY, term, index=2, context=1)
    answers += replica.hears(K.HEARTBEAT_REPLY, term, sender=4, context=1, life=7)
    (join,) = [message for message in answers if message.kind is K.JOIN]
    assert (join.to, join.index, join.life) == (4, 2, 7)
    replica.hears(K.APPEND_REPLY, term, sender=4, index=2)
    assert replica.raft.propose_membership(four) == 3
    assert not replica.raft.transfer(9)
    assert replica.raft.transfer(4)


@pytest.mark.covers("CLU-19")
def test_no_removal_leaves_a_majority_that_cannot_vote() -> None:
    replica = Replica()
    term = replica.leads()
    replica.hears(K.APPEND_REPLY, term, index=1)
    replica.hears(K.HEARTBEAT_REPLY, term, sender=3, life=7)
    assert replica.raft.propose_membership(Membership((1, 3))) is None
    assert replica.raft.propose_membership(Membership((1, 2))) == 2


@pytest.mark.covers("CLU-11", "CLU-18")
def test_who_has_not_joined_counts_neither_for_the_quorum_nor_for_a_transfer() -> None:
    replica = Replica()
    term = replica.leads()
    replica.hears(K.APPEND_REPLY, term, index=1)
    for _ in range(2):
        replica.hears(K.APPEND_REPLY, term, index=1, life=7)
        assert not replica.raft.keeps_up(2)
        assert not replica.raft.transfer(2)
        for _ in range(20):
            replica.raft.tick()
    assert replica.raft.role is Role.FOLLOWER


@pytest.mark.covers("CLU-18")
def test_a_replica_that_has_not_joined_gives_no_vote() -> None:
    replica = Replica(joined=False)
    assert {message.kind for message in replica.said()} == {K.HELLO}
    for kind in (K.PRE_VOTE, K.VOTE):
        (answer,) = replica.hears(kind, 1, sender=2)
        assert answer.reject
    replica.hears(K.HEARTBEAT, 1, sender=2)
    replica.hears(K.TIMEOUT_NOW, 1, sender=2)
    for _ in range(100):
        replica.raft.tick()
    assert (replica.raft.role, replica.raft.leader, replica.raft.term) == (Role.FOLLOWER, None, 1)


@pytest.mark.covers("CLU-18")
def test_an_invitation_to_a_former_life_or_of_another_node_is_not_taken() -> None:
    replica = Replica(joined=False)
    replica.hears(K.APPEND, 1, entries=(Entry(1, 1, b""),))
    replica.hears(K.JOIN, 1, index=1, life=replica.raft.life + 1)
    replica.hears(K.JOIN, 1, sender=3, index=1, life=replica.raft.life)
    assert not replica.raft.joined
    replica.hears(K.JOIN, 1, index=1, life=replica.raft.life)
    assert replica.raft.joined
    assert replica.disk.synced_state.joined
    assert replica.disk.synced_state.vote == 2


@pytest.mark.covers("CLU-18")
def test_joining_is_written_before_the_first_vote_leaves() -> None:
    replica = Replica(joined=False)
    ready = replica.turn()
    assert {message.kind for message in ready.messages} == {K.HELLO}
    for sender in (2, 3):
        replica.raft.step(Message(K.WELCOME, sender, 1, 0, life=replica.raft.life))
    replica.raft.step(Message(K.VOTE, 2, 1, 1))
    ready = replica.raft.ready()
    assert ready.hard_state is not None
    assert ready.hard_state.joined
    assert [message.reject for message in ready.messages_after_sync] == [False]


@pytest.mark.covers("CLU-18")
def test_a_single_voter_joins_at_once() -> None:
    replica = Replica(joined=False, membership=Membership((1,)))
    replica.raft.campaign()
    replica.said()
    assert replica.raft.role is Role.LEADER
    assert replica.disk.synced_state.joined


@pytest.mark.covers("CLU-15")
def test_a_snapshot_is_taken_only_where_it_is_news() -> None:
    replica = Replica()
    term = replica.leads()
    with pytest.raises(ConsensusError, match="LEADER"):
        replica.raft.restore(5, term, THREE)
    follower = Replica()
    follower.hears(K.APPEND, 1, entries=(Entry(1, 1, b""),), commit=1)
    with pytest.raises(ConsensusError, match="restores 1"):
        follower.raft.restore(1, 1, THREE)
    four = Membership((1, 2, 3), (4,))
    follower.disk.rebase(7, 3)
    follower.raft.restore(7, 3, four)
    raft = follower.raft
    assert (raft.term, raft.commit, raft.applied, raft.last_index, raft.membership) == (3, 7, 7, 7, four)
    raft.validate()


@pytest.mark.covers("CLU-15", "CLU-17")
def test_a_snapshot_that_the_log_does_not_know_is_refused() -> None:
    follower = Replica()
    follower.hears(K.APPEND, 4, entries=(Entry(1, 1, b""),), commit=1)
    follower.disk.rebase(7, 3)
    with pytest.raises(ConsensusError):
        follower.raft.restore(7, 2, THREE)


@pytest.mark.covers("CLU-10", "CLU-19")
def test_a_voter_whose_removal_is_not_committed_stands_when_its_leader_ends() -> None:
    leaving = Replica()
    removal = Entry(1, 1, Membership((2, 3)).packed(), True)
    leaving.hears(K.APPEND, 1, entries=(removal,))
    assert leaving.raft.voters == (2, 3)
    leaving.raft.peer_ended(2)
    assert leaving.raft.leader is None
    for _ in range(leaving.raft.config.election_ticks_min):
        leaving.raft.tick()
    assert leaving.raft.role is Role.PRE_CANDIDATE


@pytest.mark.covers("CLU-19")
def test_the_log_knows_the_membership_in_force_and_the_committed_ones() -> None:
    log = RaftLog(Replica().disk, 0, 0, THREE)
    four, five = Membership((1, 2, 3), (4,)), Membership((1, 2, 3, 4))
    log.append(Entry(1, 1, four.packed(), True))
    log.merge([Entry(1, 2, b""), Entry(1, 3, five.packed(), True)])
    assert (log.membership, log.settled, log.may_have_voter(4)) == (five, False, True)
    log.merge([Entry(2, 3, b"")])
    assert (log.membership, log.settled, log.may_have_voter(4)) == (four, False, False)
    log.commit = 1
    assert log.settled
    log.merge([Entry(3, 2, b"")])
    assert log.membership == four
    with pytest.raises(ConsensusError, match="no membership"):
        log.append(Entry(3, 3, b"junk", True))


def test_the_bound_of_members_is_generous() -> None:
    assert len(Membership(tuple(range(1, MAX_MEMBERS + 1))).voters) == 64
