"""What goes wrong on purpose, and how it is mended."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from harness.simulator.nodes.node import Node
from harness.simulator.nodes.world import START, TICKS_PER_MS, World
from keyload.consensus import Membership
from keyload.models.partitions import load_meta

CLOCKS_MS = 500
"""How often somebody looks at the clocks once the faults are over."""

ALARMED = 0.5
"""Probability that a node sees its connection to the one that was struck break."""

ALARMS_FROM = 10_000
"""Smaller seeds were named in tests before there were alarms, and go on telling their stories."""

AIMED = 0.3
"""Probability that a fault is aimed at the leader."""


class Faults:
    """Draws one fault after the other until `calm_down`."""

    def __init__(self, world: World, nodes: dict[int, Node], install: Callable[[int], Node]) -> None:
        self._world = world
        self._nodes = nodes
        self._install = install
        self._alarms = Random(f"{world.seed} alarms")
        self._spares = world.options.spares
        self._removed: set[int] = set()
        network = world.network
        self._actions: dict[str, Callable[[Node], bool | None]] = {
            "kill": self._kill,
            "power": self._power,
            "blackout": self._blackout,
            "power_in_sync": lambda node: self._in_sync(node, self._power),
            "blackout_in_sync": lambda node: self._in_sync(node, self._blackout),
            "kill_in_install": lambda node: self._in_install(node, self._kill),
            "power_in_install": lambda node: self._in_install(node, self._power),
            "pause": self._pause,
            "split": lambda node: network.split(list(nodes)),
            "one_way": lambda node: network.one_way(list(nodes)),
            "cut": lambda node: network.cut(list(nodes), node.number),
            "transfer": self._transfer,
            "campaign": self._campaign,
            "disk_full": self._disk_full,
            "slow_disk": self._slow_disk,
            "failing_sync": self._failing_sync,
            "clock": self._clock,
            "erase": self._erase,
            "change": self._change,
            "restart": lambda node: node.restart(node.life),
            "resume": lambda node: node.resume(),
            "heal": lambda node: network.heal(),
            "room": self._room,
            "fast_disk": self._fast_disk,
            "set_clock": self._set_clock,
            "mend": self._mend,
        }
        self._plan(world.options.fault_ms)

    def _plan(self, mean: int) -> None:
        self._world.agenda.plan(1 + int(self._world.rng.expovariate(1 / mean)), self._strike)

    def _strike(self) -> None:
        if not self._world.faulty:
            return
        rng, options = self._world.rng, self._world.options
        name = rng.choices(list(options.faults), list(options.faults.values()))[0]
        self._plan(options.lull_ms if name == "mend" else options.fault_ms)
        leaders = [node for node in self._nodes.values() if node.leads]
        aimed = leaders and (name in ("change", "transfer") or rng.random() < AIMED)
        node = rng.choice(leaders if aimed else list(self._nodes.values()))
        self._world.tell(f"{name} (node {node.number})")
        self._world.counts[name] += 1
        self._actions[name](node)
        self._alarm(node)

    def _alarm(self, node: Node) -> None:
        """Others see their connection to a node break, rightly or not."""
        if self._world.seed < ALARMS_FROM:
            return
        for other in self._nodes.values():
            if other is not node and other.worker is not None and self._alarms.random() < ALARMED:
                other.worker.raft.peer_ended(node.number)
                other.worker.wake_soon()

    # -- processes and power

    def _down(self, node: Node) -> None:
        mean = self._world.options.restart_ms
        self._world.agenda.plan(int(self._world.rng.expovariate(1 / mean)), node.restart, node.life)

    def _kill(self, node: Node) -> None:
        if node.worker is not None:
            node.kill()
            self._down(node)

    def _power(self, node: Node) -> None:
        node.lose_power()
        self._down(node)

    def _blackout(self, node: Node) -> None:
        for each in self._nodes.values():
            self._power(each)

    def _in_sync(self, node: Node, strike: Callable[[Node], None]) -> None:
        """The next sync of the log does not come to its end."""
        node.disk.in_next_sync = lambda: strike(node)

    def _in_install(self, node: Node, strike: Callable[[Node], None]) -> None:
        """A step of the next installation of a snapshot is the last one."""
        node.disk.in_next_install = lambda: strike(node)

    def _pause(self, node: Node) -> None:
        node.paused = node.worker is not None

    def _campaign(self, node: Node) -> None:
        if node.worker is not None and not node.paused:
            node.worker.raft.campaign()
            node.worker.wake_soon()

    def _transfer(self, node: Node) -> None:
        if node.worker is not None and not node.paused:
            node.worker.raft.transfer(self._world.rng.choice(list(self._nodes)))
            node.worker.wake_soon()

    # -- disks

    def _disk_full(self, node: Node) -> None:
        node.disk.full = True

    def _room(self, node: Node) -> None:
        node.disk.full = False

    def _slow_disk(self, node: Node) -> None:
        node.disk.slow = True

    def _fast_disk(self, node: Node) -> None:
        node.disk.slow = False

    def _failing_sync(self, node: Node) -> None:
        node.disk.fails_next_sync = True

    # -- members

    def _erase(self, node: Node) -> None:
        """A disk is lost; one at a time, and never where the others are no majority (CLU-18)."""
        known = [self._world.history.membership]
        known += [_last_membership(each) for each in self._nodes.values()]
        voters = {voter for membership in known for voter in membership.voters}
        if node.number in self._removed or any(len(membership.voters) < 3 for membership in known):
            return
        if not all(self._nodes[voter].disk.log.joined for voter in voters - self._removed - {node.number}):
            return
        self._world.counts["erased"] += 1
        node.erase()
        self._down(node)

    def _change(self, node: Node) -> None:
        """The leader changes the membership by one step, if there is one to do."""
        if node.worker is None or not node.leads:
            return
        raft = node.worker.raft
        voters, learners = raft.membership.voters, raft.membership.learners
        steps = [Membership((*voters, each), _without(learners, each)) for each in learners] * 3
        steps += [Membership(voters, _without(learners, each)) for each in learners]
        if len(voters) > 3:
            steps += [Membership(_without(voters, each), learners) for each in voters]
        new = max(self._nodes) + 1
        if self._spares:
            steps.append(Membership(voters, (*learners, new)))
        if not steps:
            return
        step = self._world.rng.choice(steps)
        if raft.propose_membership(step) is not None:
            self._world.counts["changes"] += 1
            self._removed |= {*voters, *learners} - set(step.members)
            self._world.tell(f"voters {step.voters}, learners {step.learners}")
            node.worker.wake_soon()
            if new in step.members:
                self._spares -= 1
                self._nodes[new] = self._install(new)

    # -- clocks

    def _clock(self, node: Node) -> None:
        rng = self._world.rng
        size = rng.choice((100, 2_000, 60_000, 3_600_000))
        node.clock_offset += rng.randint(-size, size) * TICKS_PER_MS

    def _set_clock(self, node: Node) -> None:
        """Somebody sets the clock, to no time before what the cluster has logged."""
        logged = load_meta(self._world.history.reference).instant
        right = START + self._world.agenda.now * TICKS_PER_MS
        node.clock_offset = max(logged - right, 0)

    # -- repairs of everything

    def _mend(self, node: Node) -> None:
        """Everything is repaired, and stays so for a while."""
        self._world.network.heal()
        for each in self._nodes.values():
            self._room(each)
            self._fast_disk(each)
            self._set_clock(each)
            each.disk.fails_next_sync = False
            each.disk.in_next_sync = None
            each.disk.in_next_install = None
            each.restart(each.life)
            each.resume()

    def calm_down(self) -> None:
        """No more faults: everything is mended, and everybody runs."""
        self._world.faulty = False
        self._world.network.calm_down()
        self._world.tell("the faults are over")
        for node in self._nodes.values():
            self._mend(node)
        self._keep_clocks()

    def _keep_clocks(self) -> None:
        """A batch executed before the clocks were set may carry a later instant; they follow it."""
        for node in self._nodes.values():
            self._set_clock(node)
        self._world.agenda.plan(CLOCKS_MS, self._keep_clocks)


def _without(numbers: tuple[int, ...], gone: int) -> tuple[int, ...]:
    return tuple(number for number in numbers if number != gone)


def _last_membership(node: Node) -> Membership:
    """The last membership in a node's log, or that of its state."""
    entries = node.disk.log.memberships(node.disk.state.applied.index)
    return Membership.unpacked(entries[-1].data if entries else node.disk.state.membership)
