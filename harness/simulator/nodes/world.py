"""What the nodes of one run share."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple, Protocol

from harness.simulator.agenda import Agenda
from harness.simulator.network import Network
from harness.simulator.nodes.history import History
from harness.simulator.nodes.log import Log
from harness.simulator.nodes.options import Options
from harness.simulator.nodes.orders import INCARNATION, SHARD
from harness.simulator.nodes.state import State
from keyload.consensus import Membership, Raft
from keyload.link.catalog import Catalog
from keyload.models.outbox import OutboxLimits
from keyload.worker.executor import Executor
from keyload.worker.shard import Shard

STORY_LINES = 60
START = 20_000 * 86_400 * 10_000_000
"""The wall clock at virtual time zero, in ticks of 100 ns."""

TICKS_PER_MS = 10_000


class Packet(NamedTuple):
    """One frame between two nodes."""

    sender: int
    to: int
    content: object


class Receiver(Protocol):
    """A node, for those that send to it."""

    def receive(self, packet: Packet) -> None:
        """A frame has arrived."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """The classes a run is made of; tests put broken ones in their place."""

    raft: type[Raft] = Raft
    shard: type[Shard] = Shard
    executor: type[Executor] = Executor
    log: type[Log] = Log
    state: type[State] = State
    disk: Callable[..., Any] | None = None
    """None for `nodes.node.Disk`."""
    worker: Callable[..., Any] | None = None
    """None for `nodes.worker.Worker`."""


@dataclass(slots=True)
class World:
    """Time, chance, network, and what is known of the whole cluster."""

    seed: int
    options: Options
    rng: Random
    parts: Parts
    catalog: Catalog
    agenda: Agenda = field(init=False)
    history: History = field(init=False)
    network: Network = field(init=False)
    executor: Executor = field(init=False)
    counts: Counter[str] = field(default_factory=Counter)
    story: deque[str] = field(default_factory=lambda: deque(maxlen=STORY_LINES))
    nodes: dict[int, Receiver] = field(default_factory=dict)
    faulty: bool = True

    def __post_init__(self) -> None:
        self.agenda = Agenda()
        self.history = History(self.agenda, Membership(tuple(range(1, self.options.nodes + 1))))
        self.network = Network(self.options, self.rng)
        self.executor = self.parts.executor(
            shard=SHARD,
            incarnation=INCARNATION,
            durability="QuorumProcessDurable",
            data_shards=1,
            outbox=OutboxLimits(max_records=self.options.outbox_records),
        )

    @property
    def now(self) -> float:
        """The monotonic clock of every node, in seconds."""
        return self.agenda.now / 1000

    def send(self, sender: int, to: int, content: object) -> None:
        """Put a frame on the network."""
        packet = Packet(sender, to, content)
        now = self.agenda.now
        for arrival in self.network.arrivals(now, sender, to):
            self.agenda.plan(arrival - now, self.nodes[to].receive, packet)

    def tell(self, text: str) -> None:
        """Add a line to the story of this run."""
        self.story.append(f"{self.agenda.now:>8} ms: {text}")
