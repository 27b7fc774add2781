"""The steps of a leader on the way from one voter to another, and whom a worker speaks to (CLU-19)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from keyload.consensus import Membership
from keyload.consensus.messages import Message, MessageKind
from keyload.contract.tables import (
    ALL_SHARDS,
    NODES,
    REPLACEMENTS,
    UNDER_WAY,
    VOTERS,
    Node,
    Replacement,
    Voters,
)
from keyload.link.catalog import Catalog
from keyload.link.launch import PeerAddress
from keyload.link.messages import CatalogDelta, Errand
from keyload.worker.internal import FINISH_REPLACEMENT, SHARD_REPLACED
from keyload.worker.leadership import HAND_OVER_SECONDS, Leadership
from keyload.worker.nodes import Nodes, address_of, node_of
from keyload.worker.replacing import REPEAT_SECONDS, Replacing, is_done, next_membership
from tests.unit.shards import START
from tests.unit.worker.replica import Replica
from tests.unit.worker.test_leadership import Submitted, handed_to, known, launch

WISH = Replacement(old=2, new=4)


@pytest.mark.covers("CLU-19")
def test_from_every_membership_on_the_way_single_steps_lead_to_the_wish() -> None:
    voters = (1, 2, 3)
    for membership in (Membership(voters), Membership(voters, (4,)), Membership((1, 2, 3, 4))):
        walk(membership)
    walk(Membership((1, 3, 4)))


@pytest.mark.covers("CLU-19")
def test_a_withdrawn_wish_leads_back_from_everywhere() -> None:
    voters = (1, 2, 3)
    memberships = (
        Membership(voters),
        Membership(voters, (4,)),
        Membership((1, 2, 3, 4)),
        Membership((1, 3, 4)),
    )
    for membership in memberships:
        walk(membership, Replacement(2, 4, (), withdrawn=True))
    wish = Replacement(2, 4, (), withdrawn=True)
    assert next_membership(Membership(voters, (4,)), wish, False, False) == Membership(voters)


def walk(membership: Membership, wish: Replacement = WISH) -> None:
    for _ in range(4):
        wanted = next_membership(membership, wish, True, True)
        if wanted is None:
            break
        assert membership.is_step_to(wanted)
        assert len(wanted.voters) >= 3
        membership = wanted
    assert is_done(membership, wish)


@pytest.mark.covers("CLU-19")
def test_a_learner_waits_until_it_has_caught_up_and_the_system_shard_until_the_others_have() -> None:
    learning = Membership((1, 2, 3), (4,))
    assert next_membership(learning, WISH, True, False) is None
    assert next_membership(learning, WISH, False, True) is None
    assert next_membership(Membership((1, 2, 3)), WISH, False, False) == learning
    assert not is_done(learning, WISH)
    assert not is_done(Membership((1, 2, 3, 4)), WISH)
    assert not is_done(Membership((1, 3, 4), (2,)), WISH)


# --- one leader


class Desk(Submitted):
    """Takes what the coordinator asks for."""

    def next_number(self) -> int:
        return 7


def catalog_of(wish: Replacement | None, *numbers: int) -> Catalog:
    catalog = Catalog()
    rows: list[Any] = [
        (NODES, (str(number),), msgspec.msgpack.encode(node(number))) for number in numbers or (1, 2, 3, 4)
    ]
    rows.append((VOTERS, ALL_SHARDS, msgspec.msgpack.encode(Voters(("a", "b", "c"), (1, 2, 3)))))
    if wish is not None:
        rows.append((REPLACEMENTS, UNDER_WAY, msgspec.msgpack.encode(wish)))
    catalog.apply(CatalogDelta(1, True, rows))
    return catalog


def node(number: int) -> Node:
    return Node(number, f"node{number}", f"http://n{number}:1", f"n{number}", 5, str(number) * 40)


class Leader:
    """Node 1 leads a shard of nodes 1, 2, 3; `tick` is a second later each time."""

    def __init__(self, directory: Path, wish: Replacement, number: int, me: int = 1) -> None:
        self.replica = Replica(directory, (1, 2, 3), number)
        self.replica.lead()
        self.desk = Desk()
        self.sent: list[Any] = []
        self.catalog = catalog_of(wish)
        desk: Any = self.desk
        self.replacing = Replacing(me, 3, {number: self.replica.shard}, self.catalog, desk, self.sent.append)
        self.now = 100.0

    @property
    def membership(self) -> Membership:
        return self.replica.raft.membership

    def tick(self) -> None:
        self.now += REPEAT_SECONDS
        self.replacing.tick(self.now)
        self.replica.settle()

    def acknowledge(self, *peers: int) -> None:
        """These have everything on disk and have joined."""
        raft = self.replica.raft
        for peer in peers:
            raft.step(Message(MessageKind.APPEND_REPLY, peer, 1, raft.term, index=raft.last_index))
        self.replica.settle()


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Callable[..., Leader]]:
    made: list[Leader] = []

    def make(wish: Replacement = WISH, number: int = 1, me: int = 1) -> Leader:
        made.append(Leader(tmp_path, wish, number, me))
        return made[-1]

    yield make
    for item in made:
        item.replica.content.close()


@pytest.mark.covers("CLU-19")
def test_a_data_shard_takes_one_step_after_the_other_and_reports(leader: Callable[..., Leader]) -> None:
    shard = leader()
    shard.tick()
    assert shard.membership == Membership((1, 2, 3), (4,))
    shard.tick()
    assert shard.membership == Membership((1, 2, 3), (4,)), "the learner has not even answered"
    shard.acknowledge(2, 3, 4)
    shard.tick()
    assert shard.membership == Membership((1, 2, 3, 4))
    shard.tick()
    assert shard.membership == Membership((1, 2, 3, 4)), "the step before is not committed"
    shard.acknowledge(2, 3, 4)
    shard.tick()
    assert shard.membership == Membership((1, 3, 4))
    assert shard.sent == []
    shard.acknowledge(3, 4)
    for _ in range(2):  # until the system shard knows
        shard.tick()
    assert [(type(item), item.command.operation, item.command.payload) for item in shard.sent] == [
        (Errand, SHARD_REPLACED, msgspec.msgpack.encode((1, False)))
    ] * 2
    row = msgspec.msgpack.encode(Replacement(2, 4, (1,)))
    shard.catalog.apply(CatalogDelta(2, False, [(REPLACEMENTS, UNDER_WAY, row)]))
    shard.tick()
    assert len(shard.sent) == 2
    assert shard.membership == Membership((1, 3, 4))


@pytest.mark.covers("CLU-19")
def test_the_system_shard_learns_first_and_ends_last(leader: Callable[..., Leader]) -> None:
    shard = leader(Replacement(2, 4, (1, 2)), 0)
    shard.tick()
    shard.acknowledge(2, 3, 4)
    shard.tick()
    assert shard.membership == Membership((1, 2, 3), (4,))
    row = msgspec.msgpack.encode(Replacement(2, 4, (1, 2, 3)))
    shard.catalog.apply(CatalogDelta(2, False, [(REPLACEMENTS, UNDER_WAY, row)]))
    for _ in range(2):
        shard.tick()
        shard.acknowledge(2, 3, 4)
    assert shard.membership == Membership((1, 3, 4))
    shard.tick()
    assert [command.operation for command in shard.desk.commands] == [FINISH_REPLACEMENT]
    assert shard.sent == []


@pytest.mark.covers("CLU-19")
def test_the_old_voter_hands_its_office_on_and_takes_no_step(leader: Callable[..., Leader]) -> None:
    shard = leader(Replacement(1, 4))
    shard.acknowledge(2, 3)
    shard.replica.sent.clear()
    shard.tick()
    assert shard.membership == Membership((1, 2, 3))
    assert handed_to(shard.replica) == [2]


@pytest.mark.covers("CLU-8", "CLU-19")
def test_no_shard_is_handed_to_the_voter_that_leaves(leader: Callable[..., Leader]) -> None:
    shard = leader()
    shard.acknowledge(2, 3)
    duties = Leadership(launch(3), {1: shard.replica.shard}, shard.catalog, shard.desk, known(), now=0.0)
    shard.replica.sent.clear()
    duties.tick(HAND_OVER_SECONDS, START)
    assert handed_to(shard.replica) == [3], "node 2 is preferred, but leaves"


@pytest.mark.covers("CLU-19")
def test_without_a_wish_nothing_happens(leader: Callable[..., Leader]) -> None:
    shard = leader()
    shard.catalog.apply(CatalogDelta(2, False, [(REPLACEMENTS, UNDER_WAY, None)]))
    shard.tick()
    assert shard.membership == Membership((1, 2, 3))


# --- whom a worker speaks to


@pytest.mark.covers("CLU-19")
def test_the_register_tells_the_nodes_but_not_of_those_it_cannot_know_yet() -> None:
    peers = [PeerAddress(number, f"node{number}", "x", 9, "k") for number in (1, 5, 3)]
    settings = msgspec.structs.replace(launch(3), node_number=5, node_id="node5", peers=peers)
    catalog = Catalog()
    nodes = Nodes(settings, catalog)
    assert nodes.peers() == peers
    for registered, expected in (
        ((1, 2, 3), {1, 2, 3, 5}),  # before this node was registered
        ((1, 2, 3, 4), {1, 2, 3, 4, 5}),
        ((1, 2, 3, 4, 5), {1, 2, 3, 4, 5}),
        ((1, 3, 5), {1, 3, 5}),
        ((1, 3), {1, 3, 5}),
        ((3, 6), {3, 5, 6}),  # node 1 is gone since
    ):
        catalog.apply(catalog_of(None, *registered).snapshot())
        assert {peer.number for peer in nodes.peers()} == expected
        assert set(nodes.others()) == (expected - {5} if 5 in registered else set()), "unknown: quiet"
    assert nodes.name(5) == "node5"
    assert nodes.name(6) == "node6"
    assert nodes.name(1) is None
    assert nodes.names((3, 4, 5)) == ("node3", "node5")
    assert next(peer for peer in nodes.peers() if peer.number == 3) == address_of(node(3))
    assert node_of(address_of(node(3))) == node(3)


@pytest.mark.covers("CLU-19")
def test_a_node_alone_has_no_peers() -> None:
    nodes = Nodes(launch(0), Catalog())
    assert nodes.peers() == []
    assert nodes.names((1,)) == ("one",)
