"""One simulated node: a replica, its disk, its state machine and the process around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random

from harness.simulator.consensus.checker import RegisterChecker
from harness.simulator.consensus.options import Options
from harness.simulator.disk import Disk
from keyload.consensus import Config, Entry, HardState, Membership, Message, Raft, Ready, Role

INBOX_MAX = 2_000
"""What the sockets of a stopped process hold."""


@dataclass(slots=True)
class Machine:
    """Registers; a command is b"register=value". The digest stands for the whole history of states."""

    registers: dict[bytes, bytes]
    history: list[Entry]
    membership: Membership
    digest: int = 0

    @property
    def applied(self) -> int:
        return len(self.history)

    def copy(self) -> Machine:
        return replace(self, registers=dict(self.registers), history=list(self.history))

    def apply(self, entry: Entry) -> None:
        self.history.append(entry)
        if entry.membership:
            self.membership = Membership.unpacked(entry.data)
        elif entry.data:
            register, _, value = entry.data.partition(b"=")
            self.registers[register] = value
        self.digest = hash((self.digest, entry.index, entry.data and tuple(sorted(self.registers.items()))))


class Node:
    """Runs a `Raft` as the worker does: send, write, sync, send, apply, advance."""

    def __init__(
        self,
        number: int,
        options: Options,
        seed: int,
        raft_class: type[Raft],
        checker: RegisterChecker,
        send: Callable[[Iterable[Message]], None],
    ) -> None:
        self.number = number
        self.initial = checker.membership
        self.disk = Disk()
        if number in self.initial.voters and not options.first_start:
            self.disk.write(HardState(joined=True), ())
            self.disk.sync()
        self.machine = Machine({}, [], self.initial)
        self.up = True
        self.paused = False
        self.life = 0  # counts starts
        self._durable = 0  # the machine's state survives a crash up to here at least
        self._options = options
        self._seed = seed
        self._raft_class = raft_class
        self._checker = checker
        self._send = send
        self._inbox: list[Message] = []
        self._syncing: Ready | None = None
        self._previous = 0  # the term before the entries that are being synced
        self._proposals: dict[int, Entry] = {}
        self._reads: dict[int, int] = {}  # context -> what clients knew when it began
        self._waiting: list[tuple[int, int]] = []  # (index, known) of reads that wait for the machine
        self.reads_served = 0
        self.reads_lost = 0
        self.start()

    # --- process

    def start(self) -> None:
        self.life += 1
        self.up, self.paused = True, False
        options = self._options
        config = Config(
            id=self.number,
            rng=Random(f"{self._seed}/{self.number}/{self.life}"),
            election_ticks_min=options.election_ticks[0],
            election_ticks_max=options.election_ticks[1],
            heartbeat_ticks=options.heartbeat_ticks,
            max_append_bytes=options.max_append_bytes,
            max_inflight_messages=options.max_inflight_messages,
            max_uncommitted_bytes=options.max_uncommitted_bytes,
            max_committed_bytes=options.max_committed_bytes,
        )
        self._checker.restarted(self.number)
        self.raft = self._raft_class(
            config, self.disk, self.disk.hard_state, self.machine.applied, self.machine.membership
        )
        self._checker.state(self.raft)

    def crash(self, rng: Random) -> None:
        """The process is gone; so is what its disk had not synced and its machine not kept."""
        self.up = False
        self.disk.crash(rng)
        self._durable = rng.randint(self._durable, self.machine.applied)
        history = self.machine.history[: self._durable]
        self.machine = Machine({}, [], self.initial)
        for entry in history:
            self.machine.apply(entry)
        self._inbox.clear()
        self._syncing = None
        self._proposals.clear()
        self._reads.clear()
        self._waiting.clear()

    def erase(self, rng: Random) -> None:
        """Process and disk are gone."""
        self.crash(rng)
        self.disk = Disk()
        self.machine = Machine({}, [], self.initial)
        self._durable = 0

    @property
    def joined(self) -> bool:
        """Whether it will know after a crash that it has joined."""
        return self.disk.synced_state.joined

    @property
    def runs(self) -> bool:
        return self.up and not self.paused

    @property
    def _takes_events(self) -> bool:
        return self.runs and not (self._syncing is not None and self._options.blocking_sync)

    def resume(self) -> None:
        self.paused = False
        self._drain()

    # --- log and state as a whole

    @property
    def _between_turns(self) -> bool:
        return self.runs and self._syncing is None

    def trim(self, rng: Random) -> bool:
        """Makes the state durable and drops entries it holds."""
        if not self._between_turns:
            return False
        self._durable = rng.randint(self._durable, self.machine.applied)
        index = rng.randint(self.disk.base, self._durable)
        self.disk.rebase(index, self.disk.term(index))
        self._checker.state(self.raft)
        return True

    def install(self, snapshot: Machine) -> bool:
        """Replaces state and log, if the snapshot is news."""
        index = snapshot.applied
        if not self._between_turns or self.leads or index <= self.machine.applied:
            return False
        self.machine = snapshot.copy()
        self._durable = index
        term = self.machine.history[-1].term
        self.disk.rebase(index, term)
        self._checker.restarted(self.number)
        self.raft.restore(index, term, self.machine.membership)
        self._checker.applied(self.number, index, self.machine.digest)
        self._checker.state(self.raft)
        self._proposals.clear()
        self._serve_reads()
        return True

    # --- events

    def tick(self) -> None:
        if self._takes_events:
            self.raft.tick()
            self._checker.state(self.raft)

    def receive(self, message: Message) -> None:
        if self.up and len(self._inbox) < INBOX_MAX:
            self._inbox.append(message)
            self._drain()

    def _drain(self) -> None:
        if self._takes_events:
            for message in self._inbox:
                self.raft.step(message)
                self._checker.state(self.raft)
            self._inbox.clear()

    def propose(self, data: bytes) -> bool:
        index = self.raft.propose(data) if self._takes_events else None
        if index is None:
            return False
        self._proposals[index] = Entry(self.raft.term, index, data)
        return True

    def read(self, context: int) -> bool:
        known = self._checker.floor
        if self._takes_events and self.raft.read_index(context):
            self._reads[context] = known
            return True
        return False

    # --- turns

    def begin_turn(self) -> bool:
        """Takes a Ready up to its sync; False when there is nothing to do."""
        if not self._takes_events or self._syncing is not None or not self.raft.has_ready():
            return False
        ready = self._syncing = self.raft.ready()
        if ready.entries:
            self._previous = self.raft.log.term(ready.entries[0].index - 1)
        self._send(ready.messages)
        self.disk.write(ready.hard_state, ready.entries)
        return True

    @property
    def must_sync(self) -> bool:
        """Whether the open turn wrote anything."""
        return self._syncing is not None and (
            self._syncing.hard_state is not None or bool(self._syncing.entries)
        )

    def end_turn(self) -> None:
        """The sync is done."""
        ready = self._syncing
        if ready is None:
            return
        self._syncing = None
        self.disk.sync()
        if ready.entries:
            self._checker.written(self.number, self._previous, ready.entries)
        self._send(ready.messages_after_sync)
        for entry in ready.committed:
            self._apply(entry)
        for context, index in ready.reads:
            self._waiting.append((index, self._reads.pop(context)))
        for context in ready.lost_reads:
            del self._reads[context]
            self.reads_lost += 1
        self._serve_reads()
        self.raft.advance(ready)
        self._checker.state(self.raft)
        self._drain()

    def _apply(self, entry: Entry) -> None:
        self.machine.apply(entry)
        self._checker.applied(self.number, entry.index, self.machine.digest)
        if self._proposals.pop(entry.index, None) == entry:
            self._checker.acknowledge(entry.data, entry.index)

    def _serve_reads(self) -> None:
        shown = self.machine.applied
        for index, known in self._waiting:
            if index <= shown:
                self._checker.read(self.number, index, known, shown)
                self.reads_served += 1
        self._waiting = [read for read in self._waiting if read[0] > shown]

    @property
    def leads(self) -> bool:
        return self.runs and self.raft.role is Role.LEADER

    @property
    def idle(self) -> bool:
        """Whether no read of a client is open."""
        return not self._reads and not self._waiting
