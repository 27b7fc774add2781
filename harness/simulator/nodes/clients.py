"""The clients: they send commands and reads to any node, repeat them, and hold every answer against the
history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from harness.simulator.checker import Violation
from harness.simulator.nodes.orders import Menu, Order, read_of
from harness.simulator.nodes.world import World
from keyload.contract.errors import ErrorCode, Problem
from keyload.contract.shared import CommitReceipt
from keyload.link.messages import Command, PartitionKey, Read

PATIENCE_MS = 3_000
"""How long a client waits for an answer, a little longer than a server should take."""

OPEN_ANSWERS = frozenset(
    str(code)
    for code in (
        ErrorCode.OWNERSHIP_LOST,
        ErrorCode.UNKNOWN_WRITE_OUTCOME,
        ErrorCode.RESOURCE_EXHAUSTED,
        ErrorCode.CLOCK_UNCERTAIN,
        ErrorCode.RECOVERY_REQUIRED,
    )
)
"""Refusals that say nothing about the command itself, or nothing yet."""

_problem = msgspec.msgpack.Decoder(Problem)
_receipt = msgspec.json.Decoder(CommitReceipt)


class Asked(Protocol):
    """A node, as its clients see it."""

    number: int

    def ask(self, message: Command | Read) -> bool:
        """A call; False when nobody takes it."""
        ...


class _Write(NamedTuple):
    order: Order
    node: int


class _Read(NamedTuple):
    node: int
    floor: int
    partition: PartitionKey
    name: str


class Calls:
    """Every call that clients have open, and what they will send next."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.nodes: Mapping[int, Asked] = {}
        self.menu = Menu(world.options, world.rng)
        self.unfinished: dict[bytes, Order] = {}
        """Commands that are to be repeated until their answer is definite."""
        self._open: dict[int, _Write | _Read] = {}
        self._numbers = 0
        self.quiet = False
        """No new commands are sent, only open ones repeated."""

    def begin(self) -> None:
        """Send the first call soon."""
        self._world.agenda.plan(self._pause(), self._act)

    @property
    def reads_open(self) -> bool:
        """Whether a read waits for its answer."""
        return any(isinstance(call, _Read) for call in self._open.values())

    def _pause(self) -> int:
        return 1 + int(self._world.rng.expovariate(1 / self._world.options.client_ms))

    def _act(self) -> None:
        self._world.agenda.plan(self._pause(), self._act)
        if self.quiet or max(len(self._open), len(self.unfinished)) >= self._world.options.open_calls:
            return
        rng, options = self._world.rng, self._world.options
        if rng.random() < options.read_share:
            self.read(self._any())
            return
        order = self.menu.order()
        order.floor = self._world.history.floor
        self._world.history.orders[order.identity] = order
        self.unfinished[order.identity] = order
        self._send(order)
        if rng.random() < options.double_share:
            self._send(order)

    def _any(self) -> Asked:
        return self._world.rng.choice(list(self.nodes.values()))

    # -- sending

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _send(self, order: Order) -> None:
        node = self._any()
        number = self._number()
        order.sends += 1
        self._world.counts["commands"] += 1
        if node.ask(replace(order.command, call=number)):
            self._open[number] = _Write(order, node.number)
            self._world.agenda.plan(PATIENCE_MS, self._give_up, number)
        else:
            self._again(order)

    def read(self, node: Asked) -> None:
        """Read a document drawn from the menu through one node."""
        _, partition, name = self.menu.read()
        number = self._number()
        self._world.counts["reads"] += 1
        if node.ask(replace(read_of(partition, name), call=number)):
            self._open[number] = _Read(node.number, self._world.history.floor, partition, name)
            self._world.agenda.plan(PATIENCE_MS, self._give_up, number)

    def _give_up(self, number: int) -> None:
        call = self._open.pop(number, None)
        if isinstance(call, _Write):
            self._again(call.order)

    def _again(self, order: Order) -> None:
        """Repeat it later, unless its answer is known."""
        if not order.definite and order.identity in self.unfinished:
            self._world.agenda.plan(self._world.rng.randint(1, 400), self._repeat, order)

    def _repeat(self, order: Order) -> None:
        if not order.definite and order.identity in self.unfinished:
            self._send(order)

    # -- answers

    def answered(self, number: int, refused: bool, payload: bytes, cut: int) -> None:
        """A node answers a call, a read from the cut `cut`."""
        call = self._open.pop(number, None)
        self._world.agenda.note(number, refused, cut)
        if isinstance(call, _Read):
            self._read_answered(call, refused, payload, cut)
        elif call is not None:
            self._write_answered(call.order, refused, payload)

    def _read_answered(self, call: _Read, refused: bool, payload: bytes, cut: int) -> None:
        if refused:
            code = _problem.decode(payload).error_code
            if code not in OPEN_ANSWERS:
                raise Violation(f"node {call.node} answers a read with {code}")
            return
        self._world.counts["reads served"] += 1
        history = self._world.history
        revision = history.shown(call.node, cut, call.floor, call.partition, call.name, payload)
        self.menu.revisions[call.partition, call.name] = revision

    def _write_answered(self, order: Order, refused: bool, payload: bytes) -> None:
        code = self._world.history.answered(order, refused, payload)
        if order.definite:
            self.unfinished.pop(order.identity, None)
            self._world.counts["acknowledged"] += 1
            if not refused:
                self._learn(order, payload)
            if not self.quiet and self._world.rng.random() < self._world.options.repeat_share:
                self._world.agenda.plan(self._world.rng.randint(0, 5_000), self._send, order)
            return
        if code not in OPEN_ANSWERS or "internal failure" in _problem.decode(payload).detail:
            raise Violation(f"a command is answered {_problem.decode(payload)}, which is not its outcome")
        if code == ErrorCode.OWNERSHIP_LOST and order.sends == 1 and self._world.rng.random() < 0.3:
            self._refute(order)
        else:
            self._again(order)

    def _refute(self, order: Order) -> None:
        """Take the server at its word that nothing was submitted, and never send the command again."""
        if order.identity in self._world.history.outcomes:
            raise Violation(f"OwnershipLost to a command committed at {order.identity.hex()}")
        order.refuted = True
        del self.unfinished[order.identity]

    def _learn(self, order: Order, payload: bytes) -> None:
        partition = order.command.partition
        assert partition is not None
        for receipt in _receipt.decode(payload).mutations:
            self.menu.revisions[partition, receipt.id] = receipt.revision
