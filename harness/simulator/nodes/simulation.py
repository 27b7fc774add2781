"""A whole cluster of whole nodes in virtual time: faults, then calm, then the proof that all is well."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from harness.simulator.nodes.clients import Calls
from harness.simulator.nodes.faults import Faults
from harness.simulator.nodes.node import Node
from harness.simulator.nodes.options import Options, draw
from harness.simulator.nodes.orders import catalog
from harness.simulator.nodes.world import Parts, World
from harness.simulator.recovery import RECOVERY_MS, until
from harness.simulator.report import Report

STEPS = 20_000


class Simulation:
    """One run; every choice comes from one seed."""

    def __init__(self, seed: int, parts: Parts | None = None, options: Options | None = None) -> None:
        rng = Random(seed)
        drawn = draw(rng)
        self.world = World(seed, options or drawn, rng, parts or Parts(), catalog())
        self.calls = Calls(self.world)
        self.nodes: dict[int, Node] = {}
        self.world.nodes = self.nodes  # type: ignore[assignment]
        self.calls.nodes = self.nodes
        initial = self.world.history.membership
        for number in initial.voters:
            self.nodes[number] = Node(number, self.world, self.calls, initial)
        self.calls.begin()
        self.faults = Faults(
            self.world, self.nodes, lambda number: Node(number, self.world, self.calls, initial)
        )

    def run(self, steps: int) -> None:
        """`steps` events with faults, then calm until the cluster has recovered; raises Violation."""
        step = self.world.agenda.step
        for _ in range(steps):
            step()
        self.faults.calm_down()
        self._recover()

    def _recover(self) -> None:
        deadline = self.world.agenda.now + RECOVERY_MS
        nodes = self.nodes.values()
        self._until(deadline, lambda: any(_leads_ready(node) for node in nodes), "a leader")
        served = self.world.counts["acknowledged"] + 2
        self._until(deadline, lambda: self.world.counts["acknowledged"] > served, "acknowledgements")
        self.calls.quiet = True
        self._until(deadline, lambda: not self.calls.unfinished, "definite answers to all commands")
        self._until(deadline, lambda: not self.calls.reads_open, "answers to old reads")
        for node in self._members():
            wanted = self.world.counts["reads served"] + 1
            self._until(
                deadline, lambda node=node, wanted=wanted: self._reads(node, wanted), "reads by everybody"
            )
        self._until(deadline, self._level, "equal nodes")
        self.world.history.complete()

    def _reads(self, node: Node, wanted: int) -> bool:
        if not self.calls.reads_open:
            self.calls.read(node)
        return self.world.counts["reads served"] >= wanted

    def _until(self, deadline: int, reached: Callable[[], bool], goal: str) -> None:
        until(self.world.agenda, deadline, reached, goal)

    def _level(self) -> bool:
        committed = len(self.world.history.committed)
        return all(node.disk.state.applied.index == committed and node.joined for node in self._members())

    def _members(self) -> list[Node]:
        return [self.nodes[number] for number in self.world.history.membership.members]


def _leads_ready(node: Node) -> bool:
    return node.leads and node.worker is not None and node.worker.raft.leader_ready


def simulate(
    seed: int, steps: int = STEPS, parts: Parts | None = None, options: Options | None = None
) -> Report:
    """Runs one cluster through `steps` events with faults and through its recovery.

    Any error a part raises is a finding as good as a broken promise.
    """
    simulation = Simulation(seed, parts, options)
    world = simulation.world
    violation = None
    try:
        simulation.run(steps)
    except Exception as found:
        violation = f"{type(found).__name__}: {found} (at {world.agenda.now} ms)"
    counts = world.counts
    counts["committed entries"] = len(world.history.committed)
    counts["committed commands"] = len(world.history.outcomes)
    counts["terms"] = len(world.history.leaders)
    return Report(
        "nodes",
        seed,
        steps,
        world.options,
        violation,
        world.agenda.digest,
        world.agenda.count,
        world.agenda.now,
        counts,
        tuple(world.story),
    )
