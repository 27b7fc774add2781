"""What the leader of the system shard does for an empty store."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyload.consensus import Message
from keyload.consensus.messages import MessageKind
from keyload.link.launch import Bootstrap, WorkerLaunch
from keyload.link.messages import Command
from keyload.worker.leadership import CARE_SECONDS, Leadership
from tests.unit.shards import INCARNATION
from tests.unit.worker.replica import Replica


class Submitted:
    """Takes the commands that the server itself issues."""

    def __init__(self) -> None:
        self.commands: list[Command] = []

    def submit_internal(self, command: Command, now: float) -> None:
        self.commands.append(command)


@pytest.mark.covers("SEC-6")
def test_the_first_administrator_is_tried_once_in_each_term_led(tmp_path: Path) -> None:
    node = Replica(tmp_path / "shard", (1, 2, 3), number=0)
    submitted = Submitted()
    launch = WorkerLaunch(
        worker=0,
        workers=1,
        shards=3,
        node_number=1,
        node_id="one",
        incarnation=INCARNATION,
        directory=str(tmp_path),
        endpoint="",
        guard=b"",
        durability="QuorumProcessDurable",
        bootstrap=Bootstrap("root", "0" * 64),
    )
    duties = Leadership(launch, {0: node.shard}, submitted)
    now = 1.0
    counts: list[int] = []
    for term in (1, 3):
        node.lead(term, index=1 if term == 1 else 2)
        for _ in range(3):
            now += CARE_SECONDS
            duties.tick(now)
        counts.append(len(submitted.commands))
        node.raft.step(Message(MessageKind.HEARTBEAT, 2, 1, term + 1))
        node.settle()
        duties.tick(now + CARE_SECONDS)
        counts.append(len(submitted.commands))
    node.content.close()
    assert counts == [1, 1, 2, 2], "an attempt may be lost with the leader it was made by"
    assert len({command.operation for command in submitted.commands}) == 1
