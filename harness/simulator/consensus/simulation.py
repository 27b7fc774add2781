"""A whole cluster in one process and in virtual time."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from random import Random

from harness.simulator.agenda import Agenda
from harness.simulator.checker import Violation
from harness.simulator.consensus.checker import RegisterChecker
from harness.simulator.consensus.node import Machine, Node
from harness.simulator.consensus.options import Options, draw
from harness.simulator.network import Network
from harness.simulator.recovery import RECOVERY_MS, until
from harness.simulator.report import Report
from keyload.consensus import (
    ConsensusError,
    Membership,
    Message,
    Raft,
    decode_messages,
    encode_messages,
)

STEPS = 4_000

STORY_LINES = 60


class Simulation:
    """Events in the order of virtual time; every choice comes from one seed."""

    def __init__(self, seed: int, raft_class: type[Raft] = Raft, options: Options | None = None) -> None:
        self.rng = Random(seed)
        self._alarms = Random(f"{seed} alarms")
        self.options = options or draw(self.rng)
        self.agenda = Agenda()
        self.checker = RegisterChecker(Membership(tuple(range(1, self.options.nodes + 1))))
        self.counts: Counter[str] = Counter()
        self.story: deque[str] = deque(maxlen=STORY_LINES)
        self._faulty = True
        self._proposals = 0
        self._contexts = 0
        self._erased: Node | None = None  # the last node that lost its disk
        self._removed: set[int] = set()  # nodes are not taken in twice
        self.network = Network(self.options, self.rng)
        self.nodes = {
            number: Node(number, self.options, seed, raft_class, self.checker, self._send)
            for number in range(1, self.options.nodes + self.options.spares + 1)
        }
        for number in self.nodes:
            self._plan_tick(number)
        self._plan(self._pause(self.options.client_ms), self._client)
        self._plan(self._pause(self.options.fault_ms), self._fault)

    # --- time

    @property
    def now(self) -> int:
        return self.agenda.now

    def _plan(self, delay: int, action: Callable[..., None], *arguments: object) -> None:
        self.agenda.plan(delay, action, *arguments)

    def _pause(self, mean: int) -> int:
        return 1 + int(self.rng.expovariate(1 / mean))

    def run(self, steps: int) -> None:
        """`steps` events with faults, then calm until the cluster has recovered; raises Violation."""
        for _ in range(steps):
            self.agenda.step()
        self._calm_down()
        self._recover()

    # --- nodes and network

    def _plan_tick(self, number: int) -> None:
        drift = self.options.tick_drift
        factor = 1 + self.rng.uniform(-drift, drift) if self._faulty else 1
        self._plan(max(1, round(self.options.tick_ms * factor)), self._tick, number)

    def _tick(self, number: int) -> None:
        self._plan_tick(number)
        node = self.nodes[number]
        node.tick()
        self._turn(node)
        if node.leads:
            self._send_snapshots(node)

    def _send_snapshots(self, leader: Node) -> None:
        for peer in leader.raft.lagging():
            if self.rng.random() < 0.3:
                for arrival in self.network.arrivals(self.now, leader.number, peer):
                    delay = arrival - self.now + self.rng.randint(0, self.options.snapshot_ms_max)
                    self._plan(delay, self._install, self.nodes[peer], leader.machine.copy())

    def _install(self, node: Node, snapshot: Machine) -> None:
        self.counts["installed"] += node.install(snapshot)
        self._turn(node)

    def _send(self, messages: Iterable[Message]) -> None:
        for message in messages:
            for arrival in self.network.arrivals(self.now, message.sender, message.to):
                self._plan(arrival - self.now, self._arrive, message)

    def _arrive(self, message: Message) -> None:
        self.agenda.note(message.kind, message.sender, message.term, message.index, message.commit)
        if self.options.encoded:
            (message,) = decode_messages(encode_messages([message]))
        node = self.nodes[message.to]
        node.receive(message)
        self._turn(node)

    def _turn(self, node: Node) -> None:
        """Takes turns until the node has nothing to do or waits for its disk."""
        while node.begin_turn():
            if node.must_sync and self.options.sync_ms_max:
                delay = self.rng.randint(1, self.options.sync_ms_max if self._faulty else 1)
                self._plan(delay, self._synced, node.number, node.life)
                return
            node.end_turn()

    def _synced(self, number: int, life: int) -> None:
        node = self.nodes[number]
        if node.life != life or not node.up:
            return
        if node.paused:
            self._plan(self.options.tick_ms, self._synced, number, life)
            return
        node.end_turn()
        self._turn(node)

    # --- clients

    def _client(self) -> None:
        self._plan(self._pause(self.options.client_ms), self._client)
        node = self.rng.choice(list(self.nodes.values()))
        if self.rng.random() < 0.4:
            self._read(node)
        else:
            leaders = [each for each in self.nodes.values() if each.leads]
            self._propose(self.rng.choice(leaders) if leaders else node)

    def _propose(self, node: Node) -> None:
        self._proposals += 1
        padding = b"." * self.rng.randint(0, self.options.payload_max)
        data = b"r%d=%d%s" % (self.rng.randint(0, 4), self._proposals, padding)
        self.counts["proposals"] += node.propose(data)
        self._turn(node)

    def _read(self, node: Node) -> bool:
        self._contexts += 1
        asked = node.read(self._contexts)
        self.counts["reads"] += asked
        self._turn(node)
        return asked

    # --- faults

    def _fault(self) -> None:
        if not self._faulty:
            return
        self._plan(self._pause(self.options.fault_ms), self._fault)
        weights = self.options.faults
        if not any(weights.values()):
            return
        fault = self.rng.choices(list(weights), list(weights.values()))[0]
        leaders = [each for each in self.nodes.values() if each.leads]
        aimed = leaders and (fault == "change" or self.rng.random() < 0.3)
        node = self.rng.choice(leaders if aimed else list(self.nodes.values()))
        self.counts[fault] += 1
        self.story.append(f"{self.now} ms: {fault} (node {node.number})")
        numbers = list(self.nodes)
        self._alarm(node)
        match fault:
            case "crash" if node.up:
                node.crash(self.rng)
            case "reboot" if node.up:
                node.crash(self.rng)
                node.start()
            case "restart" if not node.up:
                node.start()
            case "pause":
                node.paused = True
            case "resume" if node.up:
                node.resume()
            case "split":
                self.network.split(numbers)
            case "one_way":
                self.network.one_way(numbers)
            case "cut":
                self.network.cut(numbers, self.rng.choice(numbers))
            case "heal":
                self.network.heal()
            case "erase" if node.up and self._may_erase(node):
                self._erased = node
                self.counts["erased"] += 1
                node.erase(self.rng)
                if self.rng.random() < 0.7:
                    node.start()
            case "trim":
                node.trim(self.rng)
            case "change" if node.leads:
                self._change(node)
            case "campaign" if node.runs:
                node.raft.campaign()
            case "transfer" if node.runs:
                node.raft.transfer(self.rng.choice(numbers))
            case _:
                return
        self._turn(node)

    def _may_erase(self, node: Node) -> bool:
        """One disk at a time, the next only after all voters have joined: else data could really be lost.

        Among fewer than three voters the one that is left could not bring the other back without leading.
        """
        memberships = [self.checker.membership, *(each.raft.membership for each in self._members())]
        voters = {voter for membership in memberships for voter in membership.voters}
        enough = all(len(membership.voters) >= 3 for membership in memberships)
        whole = all(self.nodes[voter].joined for voter in voters)
        return enough and whole and node in self._members()

    def _change(self, leader: Node) -> None:
        """One step to a random other membership."""
        present = leader.raft.membership
        steps = [
            Membership(present.voters, (*present.learners, number))
            for number in set(self.nodes) - set(present.members) - self._removed
        ]
        for learner in present.learners:
            rest = tuple(set(present.learners) - {learner})
            steps += [Membership((*present.voters, learner), rest)] * 2 + [Membership(present.voters, rest)]
        least = 1 if self._erased is None or self._erased.joined else 3
        if len(present.voters) > least:
            steps += [
                Membership(tuple(set(present.voters) - {voter}), present.learners) for voter in present.voters
            ]
        if not steps:
            return
        chosen = self.rng.choice(steps)
        if leader.raft.propose_membership(chosen) is not None:
            self._removed |= set(present.members) - set(chosen.members)
            self.counts["changes"] += 1
            self.story.append(f"{self.now} ms: {leader.number} proposes {chosen}")

    def _alarm(self, node: Node) -> None:
        """Others see their connection to a node break, rightly or not."""
        for other in self.nodes.values():
            if other is not node and other.runs and self._alarms.random() < self.options.alarm_rate:
                other.raft.peer_ended(node.number)
                self._turn(other)

    def _calm_down(self) -> None:
        self._faulty = False
        self.network.calm_down()
        for node in self.nodes.values():
            if not node.up:
                node.start()
            node.resume()
            self._turn(node)

    # --- liveness

    def _recover(self) -> None:
        deadline = self.now + RECOVERY_MS
        self._until(deadline, self._settled, "a leader")
        before = len(self.checker.acknowledged)
        self._until(deadline, lambda: len(self.checker.acknowledged) > before + 2, "acknowledgements")
        for node in self._members():
            self._until(deadline, lambda node=node: self._read(node), f"a leader known to {node.number}")
        self._until(deadline, lambda: all(node.idle for node in self._members()), "answers to all reads")
        self._until(deadline, self._level, "equal nodes")
        for node in self._members():
            self.checker.finish(node.number, node.machine.history)
        self._stay_calm()

    def _pass(self, milliseconds: int) -> None:
        end = self.now + milliseconds
        while self.now < end:
            self.agenda.step()

    def _members(self) -> list[Node]:
        return [self.nodes[number] for number in self.checker.membership.members]

    def _settled(self) -> bool:
        """Whether a leader works under a committed membership that has it."""
        return any(
            node.raft.leader_ready and node.raft.log.settled and node.number in self.checker.membership.voters
            for node in self.nodes.values()
        )

    def _stay_calm(self) -> None:
        """Once old messages are gone nobody disturbs the leader, nor does who never heard of his removal."""
        timeout = self.options.election_ticks[1] * self.options.tick_ms
        self._pass(10 * self.options.delay_ms_max + 2 * timeout)
        terms = {node.raft.term for node in self._members()}
        self._pass(3 * timeout)
        if len(terms) > 1 or {node.raft.term for node in self._members()} != terms:
            raise Violation("a quiet cluster elects another leader")

    def _until(self, deadline: int, reached: Callable[[], bool], goal: str) -> None:
        until(self.agenda, deadline, reached, goal)

    def _level(self) -> bool:
        committed = len(self.checker.committed)
        return all(
            node.joined and node.machine.applied == committed and node.raft.commit == committed
            for node in self._members()
        )


def simulate(
    seed: int, steps: int = STEPS, raft_class: type[Raft] = Raft, options: Options | None = None
) -> Report:
    """Runs one cluster through `steps` events with faults and through its recovery."""
    simulation = Simulation(seed, raft_class, options)
    violation = None
    try:
        simulation.run(steps)
    except (Violation, ConsensusError) as found:
        violation = f"{type(found).__name__}: {found} (at {simulation.now} ms)"
    counts = simulation.counts
    counts["committed"] = len(simulation.checker.committed)
    counts["acknowledged"] = len(simulation.checker.acknowledged)
    counts["terms"] = len(simulation.checker.leaders)
    counts["reads served"] = sum(node.reads_served for node in simulation.nodes.values())
    counts["reads lost"] = sum(node.reads_lost for node in simulation.nodes.values())
    return Report(
        "consensus",
        seed,
        steps,
        simulation.options,
        violation,
        simulation.agenda.digest,
        simulation.agenda.count,
        simulation.agenda.now,
        counts,
        tuple(simulation.story),
    )
