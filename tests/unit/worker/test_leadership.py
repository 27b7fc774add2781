"""What leaders do besides commands: the first administrator, handing over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keyload.consensus import Message
from keyload.consensus.messages import MessageKind
from keyload.link.catalog import Catalog
from keyload.link.launch import Bootstrap, PeerAddress, WorkerLaunch
from keyload.link.messages import Command, Condition
from keyload.worker.conditions import CLOCK_TICKS, FRESH_SECONDS, Conditions
from keyload.worker.internal import BOOTSTRAP, REGISTER
from keyload.worker.leadership import CARE_SECONDS, HAND_OVER_SECONDS, Leadership, preferred_node
from tests.unit.shards import INCARNATION, SECOND, START
from tests.unit.worker.replica import Replica


class Submitted:
    """Takes the commands that the server itself issues."""

    def __init__(self) -> None:
        self.commands: list[Command] = []

    def submit_internal(self, command: Command, now: float) -> None:
        self.commands.append(command)


def known(own_room: bool = True, **peers: Condition) -> Conditions:
    """What nodes 2 and 3 have said of themselves; they are as this node unless told otherwise."""
    conditions = Conditions((2, 3), lambda peer, condition: None)
    conditions.tick(0.0, START, own_room)
    for number, name in ((2, "two"), (3, "three")):
        conditions.heard(number, peers.get(name, Condition(START, True)), 0.0, START)
    return conditions


def launch(peers: int) -> WorkerLaunch:
    return WorkerLaunch(
        worker=0,
        workers=1,
        shards=3,
        node_number=1,
        node_id="one",
        incarnation=INCARNATION,
        directory="",
        endpoint="",
        guard=b"",
        durability="QuorumDurable",
        peers=[PeerAddress(number, f"node{number}", "", 1, "") for number in range(1, peers + 1)],
        bootstrap=Bootstrap("root", "0" * 64),
    )


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[Callable[[int], Replica]]:
    opened: list[Replica] = []

    def make(number: int) -> Replica:
        opened.append(Replica(tmp_path, (1, 2, 3), number, outcomes_retention_days=0))
        return opened[-1]

    yield make
    for item in opened:
        item.content.close()


@pytest.mark.covers("SEC-6")
def test_first_administrator_and_voters_are_tried_once_in_each_term_led(
    replica: Callable[[int], Replica],
) -> None:
    node = replica(0)
    submitted = Submitted()
    duties = Leadership(launch(3), {0: node.shard}, Catalog(), submitted, known(), now=0.0)
    now = 1.0
    counts: list[int] = []
    for term in (1, 3):
        node.lead(term, index=1 if term == 1 else 2)
        for _ in range(3):
            now += CARE_SECONDS
            duties.tick(now, START)
        counts.append(len(submitted.commands))
        node.raft.step(Message(MessageKind.HEARTBEAT, 2, 1, term + 1))
        node.settle()
        duties.tick(now + CARE_SECONDS, START)
        counts.append(len(submitted.commands))
    assert counts == [2, 2, 4, 4], "an attempt may be lost with the leader it was made by"
    assert {command.operation for command in submitted.commands} == {BOOTSTRAP, REGISTER}


def handed_to(node: Replica) -> list[int]:
    """Whom the node told to stand for election since it was asked last."""
    node.settle()
    told = [message.to for message in node.sent if message.kind is MessageKind.TIMEOUT_NOW]
    node.sent.clear()
    return told


@pytest.mark.covers("SCH-2")
def test_a_leader_whose_clock_is_behind_hands_over_and_not_in_every_tick(
    replica: Callable[[int], Replica],
) -> None:
    node = replica(1)
    node.lead()
    duties = Leadership(launch(3), {1: node.shard}, Catalog(), Submitted(), known(), now=0.0)
    node.put("a")
    node.settle()
    node.raft.step(Message(MessageKind.APPEND_REPLY, 2, 1, 1, index=2))
    node.settle()
    duties.tick(1.0, START)
    assert handed_to(node) == [], "its clock was right so far"
    node.put("b", ticks=START - SECOND)
    duties.tick(1.1, START)
    assert handed_to(node) == [2], "node 3 does not keep up"
    duties.tick(1.2, START)
    assert handed_to(node) == []


@pytest.mark.covers("CLU-30")
def test_who_stops_hands_its_shards_to_a_node_that_keeps_up(replica: Callable[[int], Replica]) -> None:
    node = replica(1)
    duties = Leadership(launch(3), {1: node.shard}, Catalog(), Submitted(), known(), now=0.0)
    duties.resign()
    assert duties.idle()
    node.lead()
    duties.resign()
    assert handed_to(node) == [2]
    assert not duties.idle()


def test_a_leader_hands_over_to_the_preferred_node_once_it_keeps_up(
    replica: Callable[[int], Replica],
) -> None:
    assert [preferred_node(shard, (1, 2, 3)) for shard in range(7)] == [1, 2, 3, 1, 2, 3, 1]
    node = replica(1)
    duties = Leadership(launch(3), {1: node.shard}, Catalog(), Submitted(), known(), now=0.0)
    node.lead()
    now = HAND_OVER_SECONDS
    duties.tick(now, START)
    assert handed_to(node) == [2]
    duties.tick(now + HAND_OVER_SECONDS / 2, START)
    assert handed_to(node) == [], "a transfer that fails is not repeated at once"


@pytest.mark.covers("STO-12")
@pytest.mark.parametrize("peer_has_room", [True, False])
def test_a_leader_without_room_hands_over_to_a_node_with_room(
    replica: Callable[[int], Replica], peer_has_room: bool
) -> None:
    node = replica(0)
    node.lead()
    conditions = known(own_room=False, two=Condition(START, peer_has_room))
    duties = Leadership(launch(3), {0: node.shard}, Catalog(), Submitted(), conditions, now=0.0)
    duties.tick(1.0, START)
    assert handed_to(node) == ([2] if peer_has_room else [])


@pytest.mark.covers("STO-12")
def test_the_preferred_node_does_not_get_a_shard_back_while_it_has_no_room(
    replica: Callable[[int], Replica],
) -> None:
    node = replica(1)
    node.lead()
    conditions = known(two=Condition(START, False))
    duties = Leadership(launch(3), {1: node.shard}, Catalog(), Submitted(), conditions, now=0.0)
    duties.tick(HAND_OVER_SECONDS, START)
    assert handed_to(node) == []


@pytest.mark.covers("SCH-2")
@pytest.mark.parametrize("offset", [CLOCK_TICKS + 1, -CLOCK_TICKS - 1])
def test_a_clock_far_from_the_middle_one_does_not_lead_while_another_can(
    replica: Callable[[int], Replica], offset: int
) -> None:
    node = replica(0)
    node.lead()
    others = Condition(START + offset, True)
    conditions = known(two=others, three=others)
    duties = Leadership(launch(3), {0: node.shard}, Catalog(), Submitted(), conditions, now=0.0)
    duties.tick(1.0, START)
    assert handed_to(node) == [2]


@pytest.mark.covers("SCH-2")
def test_the_middle_clock_decides_and_what_was_said_long_ago_does_not() -> None:
    conditions = Conditions((2, 3), lambda peer, condition: None)
    conditions.tick(0.0, START, True)
    assert conditions.fit, "alone nobody is wrong"
    assert not conditions.peer_fit(2), "it has said nothing yet"
    conditions.heard(2, Condition(START + 100 * SECOND, True), 0.0, START)
    assert conditions.fit, "of two clocks nobody knows which is wrong"
    conditions.heard(3, Condition(START + CLOCK_TICKS, True), 0.0, START)
    assert (conditions.fit, conditions.peer_fit(2), conditions.peer_fit(3)) == (True, False, True)
    conditions.heard(9, Condition(START, True), 0.0, START)
    assert not conditions.peer_fit(9), "it is none of the peers"
    conditions.tick(FRESH_SECONDS + 0.1, START, True)
    assert not conditions.peer_fit(3)


def test_nodes_tell_their_condition_once_a_second() -> None:
    told: list[tuple[int, Condition]] = []
    conditions = Conditions((2, 3), lambda peer, condition: told.append((peer, condition)))
    for tenth in range(25):
        conditions.tick(tenth / 10, START + tenth, tenth < 15)
    assert [(peer, condition.room) for peer, condition in told] == [
        (2, True), (3, True), (2, True), (3, True), (2, False), (3, False),
    ]  # fmt: skip
