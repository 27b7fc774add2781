"""Reads share barriers begun after they arrived, are asked again when lost, and end at their deadline."""

from __future__ import annotations

import pytest

from keyload.link.messages import Barrier
from keyload.worker.barriers import MAX_OUTSTANDING, BarrierQueue
from keyload.worker.calls import ReadCall


def read(number: int, deadline: float = 10.0) -> ReadCall:
    return ReadCall(Barrier(number), deadline)


def numbers(reads: list[ReadCall]) -> list[int]:
    return [item.message.call for item in reads]


class Leader:
    """Records the barriers asked of it; `known` tells whether there is a leader to ask."""

    def __init__(self) -> None:
        self.known = True
        self.contexts: list[int] = []

    def read_index(self, context: int) -> bool:
        if self.known:
            self.contexts.append(context)
        return self.known


@pytest.mark.covers("CLU-24")
def test_reads_that_wait_together_share_one_barrier() -> None:
    queue, leader = BarrierQueue(repeat_after=1.0), Leader()
    for number in range(3):
        queue.add(read(number))
    queue.ask(leader.read_index, 0.0)
    queue.ask(leader.read_index, 0.0)
    assert len(leader.contexts) == 1
    queue.confirm(leader.contexts[0], 5)
    assert queue.take(4) == []
    assert numbers(queue.take(5)) == [0, 1, 2]


@pytest.mark.covers("CLU-24")
def test_a_read_that_arrives_later_needs_a_barrier_of_its_own() -> None:
    queue, leader = BarrierQueue(repeat_after=1.0), Leader()
    queue.add(read(1))
    queue.ask(leader.read_index, 0.0)
    queue.add(read(2))
    queue.confirm(leader.contexts[0], 3)
    assert numbers(queue.take(9)) == [1]
    queue.ask(leader.read_index, 0.0)
    queue.confirm(leader.contexts[1], 3)
    assert numbers(queue.take(9)) == [2]


def test_without_a_leader_reads_wait_until_their_deadline() -> None:
    queue, leader = BarrierQueue(repeat_after=1.0), Leader()
    leader.known = False
    queue.add(read(1, deadline=2.0))
    queue.ask(leader.read_index, 0.0)
    assert queue.sweep(1.9) == []
    assert numbers(queue.sweep(2.0)) == [1]
    assert len(queue) == 0


@pytest.mark.covers("CLU-25")
def test_a_lost_or_unanswered_barrier_is_asked_again() -> None:
    queue, leader = BarrierQueue(repeat_after=1.0), Leader()
    queue.add(read(1))
    queue.ask(leader.read_index, 0.0)
    queue.lose(leader.contexts[0])
    queue.ask(leader.read_index, 0.1)
    assert queue.sweep(1.2) == []
    queue.ask(leader.read_index, 1.2)
    first, second, third = leader.contexts
    assert len({first, second, third}) == 3
    queue.confirm(second, 1)
    assert queue.take(9) == [], "the answer to a barrier that was given up serves nothing"
    queue.confirm(third, 1)
    assert numbers(queue.take(9)) == [1]


@pytest.mark.covers("CLU-25")
def test_a_confirmed_read_that_the_replica_does_not_reach_ends_late() -> None:
    queue, leader = BarrierQueue(repeat_after=9.0), Leader()
    queue.add(read(1, deadline=2.0))
    queue.ask(leader.read_index, 0.0)
    queue.confirm(leader.contexts[0], 100)
    assert numbers(queue.sweep(2.0)) == [1]
    assert queue.take(100) == []


def test_outstanding_barriers_are_bounded() -> None:
    queue, leader = BarrierQueue(repeat_after=9.0), Leader()
    for number in range(MAX_OUTSTANDING + 2):
        queue.add(read(number))
        queue.ask(leader.read_index, 0.0)
    assert len(leader.contexts) == MAX_OUTSTANDING
    assert len(queue.drain()) == MAX_OUTSTANDING + 2
