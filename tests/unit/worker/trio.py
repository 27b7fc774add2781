"""Three replicas of a shard with real logs and states, and messages that the test carries between them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random

from keyload.consensus import Config, Membership, Raft
from keyload.consensus.messages import HardState, Message
from keyload.contract.documents import PutDocument
from keyload.link.launch import StorageTimes, WorkerLaunch
from keyload.link.messages import PeerToPeer, Snapshot
from keyload.storage import Store, Wal
from keyload.worker.calls import CommandCall
from keyload.worker.images import ImageDesk
from keyload.worker.shard import Shard
from keyload.worker.space import Space
from keyload.worker.upkeep import Upkeep
from tests.unit import shards
from tests.unit.shards import START, collection, principal

SHARD = 1
VOTERS = (1, 2, 3)
TIMES = StorageTimes(
    checkpoint_ms=0, checkpoint_log_bytes=1 << 30, segment_bytes=1 << 16, retained_log_bytes=1
)
PATIENCE_SECONDS = 30.0

Carried = deque[tuple[int, int, Message | Snapshot]]
"""(from, to, message) on their way."""


class Node:
    """One replica; `carry` takes what it sends."""

    def __init__(
        self, number: int, root: Path, carried: Carried, times: StorageTimes = TIMES, *, shard: int = SHARD
    ) -> None:
        self.number = number
        directory = root / f"node{number}"
        self.place = directory / "worker-0" / f"shard-{shard}"
        self.place.mkdir(parents=True, mode=0o700, exist_ok=True)
        self.content = shards.Shard(
            directory / "commands", shard=shard, resources=[collection()], principals=[principal()]
        )
        self._carried = carried
        self.wal = Wal(
            directory / "worker-0" / "wal",
            worker=0,
            incarnation=shards.INCARNATION,
            segment_bytes=times.segment_bytes,
        ).begin()
        store = Store(self.place, 1 << 30, membership=Membership(VOTERS).packed())
        log = self.wal.log(shard)
        state = log.hard_state if log.hard_state.joined else HardState(joined=True)
        raft = Raft(
            Config(id=number, rng=Random(number)), log, state, store.applied.index, Membership(VOTERS)
        )
        self.shard = Shard(shard, raft, store, self.content.executor, lambda step: None, repeat=0.3)
        self.replaced = 0
        launch = WorkerLaunch(
            worker=0,
            workers=1,
            shards=1,
            node_number=number,
            node_id=f"node{number}",
            incarnation=shards.INCARNATION,
            directory=str(directory),
            endpoint="",
            guard=b"",
            durability="",
            storage=times,
        )
        self.upkeep = Upkeep(
            launch,
            self.wal,
            {shard: self.shard},
            now=0.0,
            images=ImageDesk(directory, lambda message: None),
            space=Space(directory, 0, {shard: self.shard}),
            send=self._send,
            release=lambda shard: None,
            replaced=self._count,
            step=lambda step: None,
        )

    def _send(self, number: int, message: PeerToPeer) -> None:
        self._carried.append((self.number, number, message))  # type: ignore[arg-type]

    def _count(self, shard: Shard) -> None:
        self.replaced += 1

    def settle(self) -> None:
        """Write, apply and send until consensus rests."""
        raft = self.shard.raft
        while raft.has_ready():
            work = raft.ready()
            if work.hard_state is not None or work.entries:
                self.wal.write([(self.shard.number, work.hard_state, work.entries)])
            for message in (*work.messages, *work.messages_after_sync):
                self._carried.append((self.number, message.to, message))
            if work.committed:
                self.shard.apply(work.committed)
            raft.advance(work)

    def put(self, name: str, text: str = "{}") -> None:
        """Propose one put."""
        command = self.content.commit_command([PutDocument(collection="orders", id=name, json=text)])
        self.shard.queue.add(CommandCall(command, 0, 1, 1e9))
        self.shard.execute(self.content.catalog, START)
        self.settle()

    def close(self) -> None:
        self.upkeep.close()
        self.shard.store.close()
        self.content.store.close()
        self.wal.close()


class Trio:
    """Nodes 1 to 3; `cut` are those that get and send nothing. Node 1 leads after `lead`."""

    def __init__(self, root: Path, times: StorageTimes = TIMES) -> None:
        self.root = root
        self.carried: Carried = deque()
        self.now = 1.0
        self.cut: set[int] = set()
        self.lose: Callable[[Message | Snapshot], bool] = lambda message: False
        self.nodes = {number: Node(number, root, self.carried, times) for number in VOTERS}

    def carry(self) -> None:
        """Bring everything that is on its way, and what that leads to."""
        while self.carried:
            sender, target, message = self.carried.popleft()
            if self.cut & {sender, target} or self.lose(message):
                continue
            node = self.nodes[target]
            if isinstance(message, Message):
                node.shard.raft.step(message)
                node.settle()
            else:
                node.upkeep.arrived(sender, message, self.now)

    def lead(self) -> Node:
        """Node 1 wins an election."""
        self.nodes[1].shard.raft.campaign()
        self.nodes[1].settle()
        self.carry()
        assert self.nodes[1].shard.leads
        return self.nodes[1]

    def pass_time(self, reached: Callable[[], bool]) -> None:
        """Tick until something is reached; threads work meanwhile, so real time bounds it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not reached():
            assert time.monotonic() < deadline, "it was not reached"
            self.now += 0.05
            for node in self.nodes.values():
                node.shard.raft.tick()
                node.settle()
                node.upkeep.tick(self.now)
            self.carry()

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()
