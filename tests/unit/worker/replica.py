"""One replica of a shard with real consensus and a disk in memory, for tests to lead, cut off and depose."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from harness.simulator.disk import Disk
from keyload.consensus import Config, Membership, Message, Raft
from keyload.consensus.messages import HardState, MessageKind
from keyload.contract.documents import PutDocument
from keyload.worker.calls import CommandCall
from keyload.worker.shard import Completed, Shard
from tests.unit import shards
from tests.unit.shards import START, collection, principal


class Replica:
    """Node 1 of some voters; what it would send is kept in `sent`."""

    def __init__(self, directory: Path, voters: tuple[int, ...], number: int = 1, **options: Any) -> None:
        self.content = shards.Shard(
            directory, shard=number, resources=[collection()], principals=[principal()], **options
        )
        self.disk = Disk()
        joined = HardState(joined=True)
        self.raft = Raft(Config(id=1, rng=Random(0)), self.disk, joined, 0, Membership(voters))
        self.shard = Shard(
            number, self.raft, self.content.store, self.content.executor, lambda step: None, repeat=0.3
        )
        self.sent: list[Message] = []
        self.calls = 0

    def settle(self) -> list[Completed]:
        """Write, apply and go on until consensus rests; the commands completed."""
        completed: list[Completed] = []
        while self.raft.has_ready():
            work = self.raft.ready()
            if work.hard_state is not None or work.entries:
                self.disk.write(work.hard_state, work.entries)
                self.disk.sync()
            if work.committed:
                completed += self.shard.apply(work.committed)[0]
            self.sent += [*work.messages, *work.messages_after_sync]
            self.raft.advance(work)
        return completed

    def lead(self, term: int = 1, index: int = 1) -> None:
        """Win the election of a term with the vote of node 2 and commit its first entry, at `index`."""
        self.raft.campaign()
        for kind in (MessageKind.PRE_VOTE_REPLY, MessageKind.VOTE_REPLY):
            self.settle()
            self.raft.step(Message(kind, 2, 1, term))
        self.settle()
        self.raft.step(Message(MessageKind.APPEND_REPLY, 2, 1, term, index=index))
        self.settle()
        assert self.shard.leads

    def put(self, *names: str, ticks: int = START) -> list[CommandCall]:
        """Queue one put for each name and execute them as one batch."""
        calls: list[CommandCall] = []
        for name in names:
            self.calls += 1
            command = self.content.commit_command([PutDocument(collection="orders", id=name, json="{}")])
            calls.append(CommandCall(command, 0, self.calls, 10.0))
            self.shard.queue.add(calls[-1])
        self.shard.execute(self.content.catalog, ticks)
        return calls
