"""One replica with its consensus: batches in flight, batches displaced, outcomes removed under load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keyload.consensus import Entry, Message, Role
from keyload.consensus.messages import MessageKind
from keyload.worker.executor import TICKS_PER_DAY
from keyload.worker.shard import BATCH_COMMANDS, MAX_IN_FLIGHT
from tests.unit.shards import START, code_of
from tests.unit.worker.replica import Replica

OpenReplica = Callable[[tuple[int, ...]], Replica]
LATER = START + 8 * TICKS_PER_DAY


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[OpenReplica]:
    opened: list[Replica] = []

    def make(voters: tuple[int, ...]) -> Replica:
        opened.append(Replica(tmp_path, voters))
        return opened[-1]

    yield make
    for item in opened:
        item.content.close()


def test_a_batch_is_executed_on_top_of_the_one_in_flight_and_no_third(replica: OpenReplica) -> None:
    alone = replica((1,))
    alone.raft.campaign()
    alone.settle()
    first, second, third = alone.put("a"), alone.put("a"), alone.put("a")
    assert len(alone.shard.in_flight) == MAX_IN_FLIGHT
    assert [completed.call for completed in alone.settle()] == first + second
    assert len(alone.shard.queue) == 1
    alone.shard.execute(alone.content.catalog, START)
    assert [completed.call for completed in alone.settle()] == third
    assert alone.content.get("a").revision == 3


def test_commands_beyond_one_batch_need_no_new_event_to_go_on(replica: OpenReplica) -> None:
    alone = replica((1,))
    alone.raft.campaign()
    alone.settle()
    alone.put(*("a" for _ in range(BATCH_COMMANDS + 1)))
    assert alone.shard.more
    assert len(alone.settle()) == BATCH_COMMANDS
    alone.shard.execute(alone.content.catalog, START)
    assert not alone.shard.more
    assert len(alone.settle()) == 1
    alone.shard.execute(alone.content.catalog, START)
    assert not alone.shard.more


@pytest.mark.covers("CLU-10", "CMD-18")
def test_batches_that_another_leader_displaced_run_again_in_order(replica: OpenReplica) -> None:
    node = replica((1, 2, 3))
    node.lead()
    calls = [*node.put("a", "b"), *node.put("c")]
    assert node.settle() == [], "nothing is answered before a majority has it"
    entries = (Entry(2, 2, b""),)
    node.raft.step(Message(MessageKind.APPEND, 2, 1, 2, 1, 1, commit=2, entries=entries))
    assert node.settle() == []
    assert node.raft.role is Role.FOLLOWER
    assert node.shard.queue.take(10) == calls
    assert all(call.submitted and not call.answered for call in calls)
    assert not node.shard.in_flight
    assert node.content.get("a") is None


@pytest.mark.covers("CLU-10")
def test_a_batch_that_the_next_leader_commits_is_answered_by_the_old_one(replica: OpenReplica) -> None:
    node = replica((1, 2, 3))
    node.lead()
    calls = node.put("a")
    node.settle()
    entries = (Entry(2, 3, b""),)
    node.raft.step(Message(MessageKind.APPEND, 2, 1, 2, 2, 1, commit=3, entries=entries))
    completed = node.settle()
    assert [item.call for item in completed] == calls
    assert code_of(completed[0].answer) == "ok"
    assert node.content.get("a").revision == 1


@pytest.mark.covers("CMD-25")
def test_old_outcomes_are_removed_also_while_a_batch_is_in_flight(replica: OpenReplica) -> None:
    alone = replica((1,))
    assert not alone.shard.expire_outcomes(LATER), "only a leader removes"
    alone.raft.campaign()
    alone.settle()
    (old,) = alone.put("a")
    alone.settle()
    (young,) = alone.put("b")
    assert not alone.shard.expire_outcomes(LATER), "all of it fitted one slice"
    assert alone.shard.expire_outcomes(LATER), "no batch may be in flight now: to be tried again at once"
    assert [completed.call for completed in alone.settle()] == [young]
    keys = b"".join(alone.content.content())
    assert old.command.command_id not in keys
    assert young.command.command_id not in keys
