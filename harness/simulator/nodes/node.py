"""One simulated computer: its disk, its clock, and the worker process that comes and goes on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from harness.simulator.checker import Violation
from harness.simulator.nodes.clients import Calls
from harness.simulator.nodes.snapshots import Incoming, Outgoing
from harness.simulator.nodes.state import Image
from harness.simulator.nodes.worker import Worker
from harness.simulator.nodes.world import START, TICKS_PER_MS, Packet, World
from keyload.consensus import Entry, HardState, Membership, Role
from keyload.link.messages import Command, Read


class Disk:
    """Log and state of one node, with the faults of a disk."""

    def __init__(self, world: World, initial: Membership) -> None:
        self.log = world.parts.log()
        self.state = world.parts.state(initial)
        self.full = False
        self.slow = False
        self.fails_next_sync = False
        self.in_next_sync: Callable[[], None] | None = None
        """What happens in the middle of the next sync."""
        self.in_next_install: Callable[[], None] | None = None
        """What happens between two steps of the next installation."""
        self.outgoing: Outgoing | None = None
        self.incoming: Incoming | None = None
        self.installing: Image | None = None
        """The snapshot that is to take the place of the state; written down durably before anything else."""
        self._sync_ms_max = world.options.sync_ms_max

    def write(self, hard_state: HardState | None, entries: Sequence[Entry]) -> bool:
        """One turn of the log; False, and nothing written, when there is no room."""
        if self.full and len(entries) > 1:
            return False
        self.log.write(hard_state, entries)
        return True

    def sync_ms(self, world: World) -> int:
        """How long the next sync takes."""
        longest = self._sync_ms_max if world.faulty else min(1, self._sync_ms_max)
        return world.rng.randint(0, longest * 10 if self.slow else longest) if longest else 0

    def sync(self) -> bool:
        """Make the log safe; False when it fails, and then nothing is said about what was written."""
        if self.fails_next_sync:
            self.fails_next_sync = False
            return False
        self.log.sync()
        return True

    def open(self) -> None:
        """What a starting process does before it uses the disk, an interrupted installation included."""
        self.log.reopen()
        if self.installing is not None:
            self.state.replace(self.installing)
            self.log.rebase(self.installing.applied.index, self.installing.applied.term)
            self.installing = None
        self.state.reopen()

    def check(self) -> None:
        """A power loss now would leave a state that the log can bring up to date."""
        if self.installing is None and self.state.saved_index < self.log.base:
            raise Violation(
                f"a checkpoint of {self.state.saved_index} lies before the log of {self.log.base}"
            )

    def lose_power(self, rng: Random) -> None:
        """What was not synced is gone."""
        self.log.crash(rng)
        self.state.lose_power()
        if self.incoming is not None:
            self.incoming.lose_power(rng)


class Node:
    """One computer. `clock_offset` is what its wall clock is off by, in ticks; `initial` is the membership of
    the configuration it was installed with."""

    def __init__(self, number: int, world: World, calls: Calls, initial: Membership) -> None:
        self.number = number
        self.initial = initial
        self.disk: Disk = (world.parts.disk or Disk)(world, initial)
        self.worker: Worker | None = None
        self.life = 0
        self.paused = False
        self.clock_offset = 0
        self._world = world
        self._calls = calls
        self.start()

    # -- what the worker asks of it

    @property
    def clock(self) -> int:
        """The wall clock, in ticks since 1970."""
        return START + self._world.agenda.now * TICKS_PER_MS + self.clock_offset

    def full(self, shard: int) -> bool:
        """As `worker.space.Space`."""
        return self.disk.full

    def die(self, reason: str) -> None:
        """The worker ends itself; its front starts it again a little later."""
        self._world.tell(f"node {self.number} stops: {reason}")
        self._world.counts["stops"] += 1
        self.kill()
        self._world.agenda.plan(self._world.rng.randint(100, 5000), self.restart, self.life)

    # -- events

    def receive(self, packet: Packet) -> None:
        """A frame has arrived."""
        if self.worker is not None:
            self.worker.deliver(packet)

    def ask(self, message: Command | Read) -> bool:
        """A call of a client; False when no worker is there."""
        if self.worker is None:
            return False
        self.worker.ask(message)
        return True

    # -- life

    def start(self) -> None:
        """A worker begins on what the disk holds."""
        self.life += 1
        self.paused = False
        self.disk.open()
        self.worker = (self._world.parts.worker or Worker)(self, self._world, self._calls)

    def restart(self, life: int) -> None:
        """Start again unless that has happened since `life`."""
        if self.worker is None and self.life == life:
            self.start()

    def kill(self) -> None:
        """The process is gone; the page cache is not."""
        if self.worker is not None:
            self.worker.end()
        self.worker = None

    def lose_power(self) -> None:
        """The process is gone, and everything that was not synced."""
        self.kill()
        self.disk.lose_power(self._world.rng)

    def erase(self) -> None:
        """The process is gone, and so is everything on the disk."""
        self.kill()
        self.disk = (self._world.parts.disk or Disk)(self._world, self.initial)

    def resume(self) -> None:
        """A stopped process goes on."""
        if self.paused:
            self.paused = False
            if self.worker is not None:
                self.worker.run()

    @property
    def joined(self) -> bool:
        """Whether its worker runs and may vote."""
        return self.worker is not None and self.worker.raft.joined

    @property
    def leads(self) -> bool:
        """Whether its worker runs and leads."""
        return self.worker is not None and not self.paused and self.worker.raft.role is Role.LEADER
