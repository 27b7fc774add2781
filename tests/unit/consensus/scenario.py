"""Runs scenario scripts: commands, a line of dashes, and what they are expected to show.

`python -m tests.unit.consensus.scenario` writes the present output into the scripts; read the difference
before committing it. Commands (nodes are numbers, links are a->b):

    nodes N [option=value ...]      a cluster of N, with options of Config; fresh=1: that have yet to join,
                                    voters=M: of which the first M are voters and the rest nobody yet
    campaign/tick N [count]         stand for election / let time pass
    propose N text                  into the log of a leader
    read N context                  ask for a barrier
    transfer N target               hand the office over
    change N voters [learners]      propose a membership: 1,2,3 4
    begin N, sync N                 the two halves of a turn: up to the write; from the sync on
    turn N ...                      whole turns of these nodes, once each
    deliver a->b ...                the messages on the way on these links; a->b*1 only the first; alone: all
    duplicate a->b ...              they will arrive twice, the second time behind all others
    settle                          turns and deliveries until nothing moves
    drop a->b ..., block a->b ..., isolate N, heal
    hold a->b ..., release          keep messages on the way out of `deliver` and `settle`, put them back
    crash N [kept], restart N, erase N, compact N index
    snapshot a b                    the state of a replaces that of b
    status, log N, way, progress N  show state
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec

from harness.simulator.consensus.checker import RegisterChecker
from harness.simulator.disk import Disk
from keyload.consensus import Config, Entry, HardState, Membership, Message, MessageKind, Raft, Ready

SCENARIOS = Path(__file__).parent / "scenarios"


class Chance(Random):
    """Node n waits n - 1 ticks longer than the shortest election timeout; groups are numbered readably."""

    def __init__(self, node: int, life: int) -> None:
        super().__init__()
        self._node = node
        self._life = life

    def randint(self, a: int, b: int) -> int:
        return min(a + self._node - 1, b)

    def getrandbits(self, k: int, /) -> int:
        return self._node * 1000 + self._life * 100


class Scenario:
    """A cluster under the commands of a script."""

    def __init__(self, raft_class: type[Raft] = Raft) -> None:
        self.raft_class = raft_class
        self.checker = RegisterChecker(Membership((1, 2, 3)))
        self.nodes: dict[int, Raft] = {}
        self.disks: dict[int, Disk] = {}
        self.open: dict[int, Ready] = {}
        self.applied: dict[int, int] = {}
        self.way: list[Message] = []
        self.held: list[Message] = []
        self.reads: dict[str, int] = {}  # context -> what was committed when it began
        self.blocked: set[tuple[int, int]] = set()
        self.lives: dict[int, int] = {}
        self.initial = Membership((1,))
        self.memberships: dict[int, Membership] = {}
        self.options: dict[str, int] = {}
        self.output: list[str] = []
        self._shown: dict[int, str] = {}

    def run(self, line: str) -> None:
        command, *arguments = line.split()
        getattr(self, f"do_{command}")(*arguments)
        self._show_changes()

    def say(self, text: str) -> None:
        self.output.append(text)

    # --- cluster

    def do_nodes(self, count: str, *options: str) -> None:
        self.options = {name: int(value) for name, value in (option.split("=") for option in options)}
        fresh = self.options.pop("fresh", None)
        voters = self.options.pop("voters", int(count))
        for node in range(1, int(count) + 1):
            self.disks[node] = Disk()
            self.applied[node] = 0
            self.lives[node] = 0
            if fresh is None and node <= voters:
                self.disks[node].write(HardState(joined=True), [])
                self.disks[node].sync()
        self.initial = Membership(tuple(range(1, voters + 1)))
        for node in self.disks:
            self.memberships[node] = self.initial
            self._start(node)

    def _start(self, node: int) -> None:
        self.lives[node] += 1
        config = Config(id=node, rng=Chance(node, self.lives[node]), **self.options)
        disk = self.disks[node]
        self.checker.restarted(node)
        self.nodes[node] = self.raft_class(
            config, disk, disk.hard_state, self.applied[node], self.memberships[node]
        )
        self._shown[node] = self._role(node)

    def do_crash(self, node: str, kept: str = "0") -> None:
        """The unsynced writes are lost but for the first `kept` records."""
        number = int(node)
        del self.nodes[number]
        self.open.pop(number, None)
        disk = self.disks[number]

        class Keep(Random):
            def randint(self, a: int, b: int) -> int:
                return min(int(kept), b)

        disk.crash(Keep())

    def do_restart(self, node: str) -> None:
        self._start(int(node))
        self.do_status(node)

    def do_erase(self, node: str) -> None:
        self.do_crash(node)
        self.disks[int(node)] = Disk()
        self.applied[int(node)] = 0
        self.memberships[int(node)] = self.initial

    def do_snapshot(self, source: str, target: str) -> None:
        """The log storage says so before consensus hears of it."""
        number, index = int(target), self.applied[int(source)]
        term = self.nodes[int(source)].log.term(index)
        self.disks[number].rebase(index, term)
        self.applied[number] = index
        self.memberships[number] = self.memberships[int(source)]
        self.checker.restarted(number)
        self.nodes[number].restore(index, term, self.memberships[number])

    def do_compact(self, node: str, index: str) -> None:
        disk = self.disks[int(node)]
        disk.rebase(int(index), disk.term(int(index)))

    # --- events

    def do_campaign(self, node: str) -> None:
        self.nodes[int(node)].campaign()

    def do_tick(self, node: str, count: str = "1") -> None:
        for _ in range(int(count)):
            self.nodes[int(node)].tick()
            self._show_changes()

    def do_propose(self, node: str, text: str) -> None:
        self.say(f"{node} proposes {text}: {self.nodes[int(node)].propose(text.encode())}")

    def do_read(self, node: str, context: str) -> None:
        self.reads[context] = len(self.checker.committed)
        if not self.nodes[int(node)].read_index(int(context)):
            self.say(f"read {context} on {node}: refused")

    def do_transfer(self, node: str, target: str) -> None:
        if not self.nodes[int(node)].transfer(int(target)):
            self.say(f"{node} refuses to hand over to {target}")

    def do_change(self, node: str, voters: str, learners: str = "") -> None:
        membership = Membership(_numbers(voters), _numbers(learners))
        index = self.nodes[int(node)].propose_membership(membership)
        self.say(f"{node} proposes {_members(membership)}: {index}")

    # --- turns

    def do_begin(self, node: str) -> None:
        number = int(node)
        raft = self.nodes[number]
        if not raft.has_ready():
            self.say(f"{node} has nothing to do")
            return
        ready = self.open[number] = raft.ready()
        if ready.entries:
            self.checker.written(number, raft.log.term(ready.entries[0].index - 1), ready.entries)
        self._send(ready.messages)
        self.disks[number].write(ready.hard_state, ready.entries)

    def do_sync(self, node: str) -> None:
        number = int(node)
        ready = self.open.pop(number)
        self.disks[number].sync()
        self._send(ready.messages_after_sync)
        for entry in ready.committed:
            self.applied[number] = entry.index
            if entry.membership:
                self.memberships[number] = Membership.unpacked(entry.data)
        if ready.committed:
            indexes = [str(entry.index) for entry in ready.committed]
            self.say(f"{node} applies {' '.join(indexes)}")
        for context, index in ready.reads:
            self.say(f"read {context} on {node}: at {index}")
            self.checker.read(number, index, self.reads[str(context)], index)
        for context in ready.lost_reads:
            self.say(f"read {context} on {node}: lost")
        self.nodes[number].advance(ready)

    def do_turn(self, *nodes: str) -> None:
        for node in nodes:
            self.do_begin(node)
            if int(node) in self.open:
                self.do_sync(node)
            self._show_changes()

    def _send(self, messages: list[Message]) -> None:
        self.way += [message for message in messages if (message.sender, message.to) not in self.blocked]

    def do_deliver(self, *links: str) -> None:
        taken = self._take(links)
        for message in taken:
            if message.to in self.nodes:
                self.say(describe(message))
                self.nodes[message.to].step(message)
                self._show_changes()

    def do_settle(self) -> None:
        for _ in range(1000):
            busy = [node for node, raft in self.nodes.items() if raft.has_ready()]
            if not busy and not self.way:
                return
            self.do_turn(*map(str, busy))
            way, self.way = self.way, []
            for message in way:
                if message.to in self.nodes:
                    self.nodes[message.to].step(message)
                    self._show_changes()
        raise AssertionError("the cluster does not come to rest")

    # --- network

    def _take(self, links: tuple[str, ...]) -> list[Message]:
        """The messages on these links, or all; "a->b*n" takes n of them."""
        if not links:
            taken, self.way = self.way, []
            return taken
        taken = []
        for text in links:
            link, _, most = text.partition("*")
            found = [message for message in self.way if (message.sender, message.to) == _link(link)]
            taken += found[: int(most)] if most else found
        self.way = [message for message in self.way if not any(message is other for other in taken)]
        return taken

    def do_hold(self, *links: str) -> None:
        self.held += self._take(links)

    def do_release(self) -> None:
        self.way += self.held
        self.held = []

    def do_drop(self, *links: str) -> None:
        self._take(links)

    def do_duplicate(self, *links: str) -> None:
        way = self.way
        copies = self._take(links)
        self.way = way + [msgspec.structs.replace(message) for message in copies]

    def do_block(self, *links: str) -> None:
        self.blocked |= {_link(link) for link in links}

    def do_isolate(self, node: str) -> None:
        for other in self.disks:
            self.blocked |= {(int(node), other), (other, int(node))}

    def do_heal(self) -> None:
        self.blocked.clear()

    # --- what is shown

    def _role(self, node: int) -> str:
        raft = self.nodes[node]
        return f"{node} is {raft.role.name} of term {raft.term}, leader {raft.leader}"

    def _show_changes(self) -> None:
        for node, raft in self.nodes.items():
            role = self._role(node)
            if self._shown[node] != role:
                self._shown[node] = role
                self.say(role)
            self.checker.state(raft)

    def do_status(self, *nodes: str) -> None:
        for node in map(int, nodes or [str(node) for node in self.nodes]):
            raft = self.nodes[node]
            ready = ", ready to lead" if raft.leader_ready else ""
            numbers = (
                f"vote {raft.vote}, last {raft.last_index}, commit {raft.commit}, applied {raft.applied}"
            )
            waits = "" if raft.joined else ", has not joined"
            members = "" if raft.membership == self.initial else f", {_members(raft.membership)}"
            self.say(f"{self._role(node)}, {numbers}{ready}{waits}{members}")
            self._shown[node] = self._role(node)

    def do_log(self, node: str) -> None:
        log = self.nodes[int(node)].log
        entries = log.entries(log.first_index, log.last + 1, 1 << 20) if log.last >= log.first_index else []
        if entries and entries[-1].index < log.last:
            entries += log.entries(entries[-1].index + 1, log.last + 1, 1 << 20)
        self.say(" ".join([_text(entry) for entry in entries]) or "empty")

    def do_way(self) -> None:
        for message in self.way:
            self.say(describe(message))

    def do_progress(self, node: str) -> None:
        for peer, progress in self.nodes[int(node)]._progress.items():
            state = "replicate" if progress.replicating else "probe"
            window = f"inflight {len(progress.inflight)}"
            snapshot = ", needs a snapshot" if progress.needs_snapshot else ""
            paused = ", paused" if progress.paused else ""
            self.say(
                f"{peer}: {state}, match {progress.match}, next {progress.next}, {window}{paused}{snapshot}"
            )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)


def _members(membership: Membership) -> str:
    voters = "voters " + ",".join(map(str, membership.voters))
    return voters + (" learners " + ",".join(map(str, membership.learners)) if membership.learners else "")


def _text(entry: Entry) -> str:
    """An entry in a word."""
    if entry.membership:
        return f"{entry.index}/{entry.term}:<{_members(Membership.unpacked(entry.data))}>"
    return f"{entry.index}/{entry.term}:{entry.data.decode()}"


def _link(text: str) -> tuple[int, int]:
    sender, to = text.split("->")
    return int(sender), int(to)


def describe(message: Message) -> str:
    """A message in one line, without the members that stand at their defaults."""
    parts = [f"{message.sender}->{message.to} {message.kind.name} term {message.term}"]
    if message.kind in (MessageKind.APPEND, MessageKind.VOTE, MessageKind.PRE_VOTE):
        parts.append(f"after {message.index}/{message.log_term}")
    elif message.index:
        parts.append(f"index {message.index}")
    if message.reject:
        parts.append(f"REJECT, agree at most {message.hint}/{message.log_term}" if message.hint else "REJECT")
    if message.commit:
        parts.append(f"commit {message.commit}")
    if message.context:
        parts.append(f"context {message.context}")
    if message.life:
        parts.append(f"life {message.life}")
    if message.entries:
        parts.append("[" + " ".join([_text(entry) for entry in message.entries]) + "]")
    return ", ".join(parts)


def blocks(text: str) -> Iterator[tuple[list[str], str]]:
    """The commands and the expected output of each block."""
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        dashes = lines.index("----") if "----" in lines else len(lines)
        yield lines[:dashes], "\n".join(lines[dashes + 1 :])


def play(text: str, raft_class: type[Raft] = Raft) -> Iterator[tuple[list[str], str, str]]:
    """Per block: its commands, the expected output, the output."""
    scenario = Scenario(raft_class)
    for commands, expected in blocks(text):
        scenario.output.clear()
        for command in commands:
            if not command.startswith("#"):
                scenario.run(command)
        yield commands, expected, "\n".join(scenario.output)


def rewrite() -> None:
    """Writes the present output into every script."""
    for path in sorted(SCENARIOS.glob("*.txt")):
        parts = []
        for commands, _, output in play(path.read_text()):
            shown = ["----", output] if output else []
            parts.append("\n".join([*commands, *shown]))
        path.write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    rewrite()
