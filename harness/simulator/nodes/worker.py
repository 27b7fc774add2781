"""The worker process of a simulated node: the parts of the real one, and its turn, under virtual time.

It does what `keyload.worker.loop.Worker` does, with the log and the state of a model disk. While it waits for
a sync it takes no events, as the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from harness.simulator.nodes.clients import Calls
from harness.simulator.nodes.orders import INCARNATION, SHARD
from harness.simulator.nodes.snapshots import Chunk, Offer, Want
from harness.simulator.nodes.state import Image
from harness.simulator.nodes.transfers import Transfers
from harness.simulator.nodes.world import Packet, World
from keyload.consensus import Config, Membership, Message, Ready, Role, decode_messages, encode_messages
from keyload.link.launch import CommandLimits, PeerAddress, WorkerLaunch
from keyload.link.messages import (
    BackupShard,
    Command,
    Condition,
    Confirmed,
    Forward,
    ForwardReply,
    PeerToPeer,
    Read,
    Refusal,
    Reply,
)
from keyload.worker.admission import CommandGate
from keyload.worker.commands import CommandDesk
from keyload.worker.conditions import Conditions
from keyload.worker.leadership import Leadership
from keyload.worker.nodes import Nodes
from keyload.worker.readers import ReadDesk
from keyload.worker.shard import Shard

if TYPE_CHECKING:
    from harness.simulator.nodes.node import Node

INBOX_MAX = 2_000
"""What the sockets of a stopped process hold."""

REPEAT_HEARTBEATS = 3
CALL_MS = 2_000


class Worker:
    """One life of a worker."""

    def __init__(self, node: Node, world: World, calls: Calls) -> None:
        self._node = node
        self._world = world
        self._calls = calls
        self._life = node.life
        self._disk = node.disk
        self._inbox: list[Packet] = []
        self._from_front: list[Command | Read] = []
        self._saved: list[Image] = []  # checkpoints that are durable and not adopted
        self._woken = False
        self._open: Ready | None = None
        self._previous = 0  # the term before the entries of the open Ready
        self._rounds = 0
        self._checkpointing = False
        self._installing = False
        self._next_checkpoint = world.agenda.now + world.options.checkpoint_ms
        options = world.options
        self._ticks_due = 0
        log, state = self._disk.log, self._disk.state
        membership = Membership.unpacked(state.membership)
        self.raft = world.parts.raft(self._config(), log, log.hard_state, state.applied.index, membership)
        repeat = options.heartbeat_ticks * options.tick_ms * REPEAT_HEARTBEATS / 1000
        self.shard = world.parts.shard(SHARD, self.raft, state, world.executor, _no_step, repeat)  # type: ignore[arg-type]
        self.transfers = Transfers(node, self, world)
        launch = _launch(node.number, sorted({*node.initial.members, node.number}))
        self.desk, self.reads = self._desks(launch)
        others = [peer.number for peer in launch.peers if peer.number != node.number]
        self._conditions = Conditions(lambda: others, self._send_peer)
        self._leadership = Leadership(
            launch, {SHARD: self.shard}, world.catalog, self.desk, self._conditions, world.now
        )
        world.history.restarted(node.number)
        world.history.state(self.raft)
        self._led = 0
        if membership.voters == (node.number,):
            self.raft.campaign()
        world.agenda.plan(0, self._wake)
        self._plan_tick()

    def _desks(self, launch: WorkerLaunch) -> tuple[CommandDesk, ReadDesk]:
        shards = {SHARD: self.shard}
        catalog = self._world.catalog
        commands = CommandDesk(
            me=self._node.number,
            shards=shards,
            data_shards=1,
            catalog=catalog,
            gate=CommandGate(CommandLimits()),
            space=self._node,  # type: ignore[arg-type]
            call_seconds=CALL_MS / 1000,
            hold_seconds=self._world.options.tick_ms / 1000,
            send_front=self._answer,
            send_peer=self._send_peer,
        )
        reads = ReadDesk(
            launch,
            shards=shards,
            catalog=catalog,
            nodes=Nodes(launch, catalog),
            send_front=self._answer,
            evidence_found=commands.evidence_found,
            take_image=_no_image,
        )
        return commands, reads

    def _config(self) -> Config:
        options = self._world.options
        return Config(
            id=self._node.number,
            rng=Random(f"{self._world.seed}/{self._node.number}/{self._life}"),
            election_ticks_min=options.election_ticks[0],
            election_ticks_max=options.election_ticks[1],
            heartbeat_ticks=options.heartbeat_ticks,
            max_append_bytes=options.max_append_bytes,
            max_inflight_messages=options.max_inflight_messages,
            max_uncommitted_bytes=options.max_uncommitted_bytes,
            max_committed_bytes=options.max_committed_bytes,
        )

    # -- events

    def deliver(self, packet: Packet) -> None:
        """A frame of another node."""
        if len(self._inbox) < INBOX_MAX:
            self._inbox.append(packet)
            self.wake_soon()

    def ask(self, message: Command | Read) -> None:
        """A call of this node's front."""
        self._from_front.append(message)
        self.wake_soon()

    def wake_soon(self) -> None:
        """Take a turn at this instant, after what else happens in it."""
        if not self._woken:
            self._woken = True
            self._world.agenda.plan(0, self._wake)

    def _wake(self) -> None:
        self._woken = False
        if self._node.worker is self:
            self.run()

    def end(self) -> None:
        """The process is gone; the descriptors it had in this one are given back."""
        self.reads.pool.close()

    def _plan_tick(self) -> None:
        options = self._world.options
        factor = 1 + self._world.rng.uniform(-1, 1) * options.tick_drift if self._world.faulty else 1
        self._world.agenda.plan(max(1, round(options.tick_ms * factor)), self._tick_due)

    def _tick_due(self) -> None:
        if self._node.worker is self:
            self._plan_tick()
            self._ticks_due += 1
            self.run()

    # -- turns

    def run(self) -> None:
        """Turns until nothing is left to do, or until the disk is waited for."""
        while self._works:
            if not self._rounds:
                self._begin_turn()
                if not self._works:
                    return
                self._rounds = self._world.options.rounds
            if self.raft.has_ready():
                self._rounds -= 1
                self._begin_round()
                if self._rounds or not self._works:
                    continue
            self._rounds = 0
            self.reads.serve(self._node.clock, self._world.now)
            if not self.shard.more and not self.raft.has_ready():
                return

    @property
    def _works(self) -> bool:
        """Whether the loop goes on: it lives, runs, and does not wait for the disk."""
        waits = self._open is not None or self._installing
        return not waits and self._node.worker is self and not self._node.paused

    def _begin_turn(self) -> None:
        now = self._world.now
        self._take_arrivals(now)
        if self._ticks_due:
            self._tick(now)
        if self.transfers.received is not None:
            self._begin_install(self.transfers.received)
            if self._installing:
                return
        shard = self.shard
        self.desk.route(shard, now)
        executed = shard.execute(self._world.catalog, self._node.clock)
        self.desk.finish_all([*executed.completed])
        shard.reads.ask(self.raft.read_index, now)
        self._check_leadership()

    def _take_arrivals(self, now: float) -> None:
        inbox, self._inbox = self._inbox, []
        for packet in inbox:
            match packet.content:
                case list() | bytes():
                    self._step(packet)
                case Forward() as forward:
                    self.desk.from_peer(packet.sender, forward, now)
                case ForwardReply() as reply:
                    self.desk.forward_answered(reply, now)
                case Condition() as condition:
                    self._conditions.heard(packet.sender, condition, now, self._node.clock)
                case Offer() as offer:
                    self.transfers.offered(packet.sender, offer)
                case Want() as want:
                    self.transfers.wanted(packet.sender, want)
                case Chunk() as chunk:
                    self.transfers.arrived(packet.sender, chunk)
        calls, self._from_front = self._from_front, []
        for call in calls:
            if isinstance(call, Command):
                self.desk.from_front(call, now)
            else:
                self.reads.arrive(call, now)
        for image in self._saved:
            self._disk.state.adopt(image)
        if self._saved:
            self._saved.clear()
            self._trim()

    def _step(self, packet: Packet) -> None:
        content = packet.content
        messages = decode_messages(content) if isinstance(content, bytes) else content
        for message in messages:  # type: ignore[union-attr]
            self._world.agenda.note(
                message.kind, packet.sender, packet.to, message.term, message.index, message.commit
            )
            self.raft.step(message)
            self._check_leadership()

    def _check_leadership(self) -> None:
        raft = self.raft
        if raft.role is Role.LEADER and raft.term != self._led:
            self._led = raft.term
            self._world.history.state(raft)
            self._world.tell(f"node {raft.id} leads term {raft.term}")

    def _tick(self, now: float) -> None:
        due, self._ticks_due = self._ticks_due, 0
        for _ in range(due if due * self._world.options.tick_ms <= 1000 else 2):
            self.raft.tick()
        self.desk.finish_all(self.shard.sweep(now))
        self.reads.refuse_all(self.shard.reads.sweep(now))
        self.desk.sweep(now)
        self.reads.sweep(now)
        self._conditions.tick(now, self._node.clock, not self._disk.full)
        self._leadership.tick(now, self._node.clock)
        self.transfers.tick()
        if self._world.agenda.now >= self._next_checkpoint:
            self._begin_checkpoint()

    # -- replication

    def _begin_round(self) -> None:
        """A Ready up to its sync."""
        ready = self._open = self.raft.ready()
        if ready.entries:
            self._previous = self._disk.log.term(ready.entries[0].index - 1)
        self._send(ready.messages)
        if ready.hard_state is None and not ready.entries:
            self._end_round()
            return
        if not self._disk.write(ready.hard_state, ready.entries):
            self._node.die("no room for the log")
            return
        delay = self._disk.sync_ms(self._world)
        accident, self._disk.in_next_sync = self._disk.in_next_sync, None
        if accident is not None:
            self._world.agenda.plan(delay, self._synced)
            accident()
        elif delay:
            self._world.agenda.plan(delay, self._synced)
        else:
            self._finish_sync()

    def _synced(self) -> None:
        """The sync is over, in one way or the other."""
        if self._node.worker is not self:
            return
        if self._node.paused:
            self._world.agenda.plan(self._world.options.tick_ms, self._synced)
            return
        self._finish_sync()
        self.run()

    def _finish_sync(self) -> None:
        if self._disk.sync():
            self._end_round()
        else:
            self._node.die("a sync failed")

    def _end_round(self) -> None:
        ready = self._open
        assert ready is not None
        self._open = None
        self._send(ready.messages_after_sync)
        history = self._world.history
        if ready.entries:
            history.written(self._node.number, self._previous, ready.entries)
        history.state(self.raft)
        if ready.committed:
            state = self._disk.state
            completed, _ = self.shard.apply(ready.committed)
            history.holds(self._node.number, state.applied.index, state.rows.digest)
            self.desk.finish_all(completed)
        for context, index in ready.reads:
            self.shard.reads.confirm(context, index)
        for context in ready.lost_reads:
            self.shard.reads.lose(context)
        self.raft.advance(ready)
        history.state(self.raft)

    # -- checkpoints

    def _begin_checkpoint(self) -> None:
        options = self._world.options
        self._next_checkpoint = self._world.agenda.now + options.checkpoint_ms
        state = self._disk.state
        if not self._checkpointing and state.applied != state.durable:
            self._checkpointing = True
            longest = options.checkpoint_takes_ms * (10 if self._disk.slow else 1)
            delay = self._world.rng.randint(1, longest)
            self._world.agenda.plan(delay, self._checkpoint_done, state.image())

    def _checkpoint_done(self, image: Image) -> None:
        """The thread has it on disk; the loop hears of it in its next turn."""
        if self._node.worker is self:
            self._checkpointing = False
            self._disk.state.save(image)
            self._disk.check()
            self._saved.append(image)
            self.wake_soon()

    def _trim(self) -> None:
        """Drop the log that neither a restart nor, within bounds, a follower needs."""
        options, log = self._world.options, self._disk.log
        needed = self._disk.state.durable.index + 1
        if self.shard.leads:
            statuses = [self.raft.peer_status(peer) for peer in self.raft.peers]
            wanted = [status.match + 1 for status in statuses if status is not None]
            if self._disk.outgoing is not None:
                wanted.append(self._disk.outgoing.manifest.position.index + 1)
            first = min(wanted, default=needed)
            if log.last_index - first < options.retained:
                needed = min(needed, first)
        log.trim(needed, options.segment_entries)
        self._disk.check()

    # -- snapshots

    def _begin_install(self, image: Image) -> None:
        """From here on the snapshot will take the place of the state, whatever happens."""
        if self._must_wait(image):
            return
        self.transfers.received = None
        if self.shard.leads or image.applied.index <= self._disk.state.applied.index:
            return
        self._installing = True
        self.reads.drain(self.shard)
        self._disk.installing = image
        self._after_a_while(self._install_state, image)

    def _must_wait(self, image: Image) -> bool:
        """As the real one: a checkpoint is being made, or the log does not know the image's term yet."""
        return self._checkpointing or self._disk.log.hard_state.term < image.applied.term

    def _after_a_while(self, action: Callable[[Image], None], image: Image) -> None:
        self._world.agenda.plan(self._world.rng.randint(0, 50), self._install, action, image)

    def _install(self, action: Callable[[Image], None], image: Image) -> None:
        """One step of an installation, unless the worker is gone or stopped."""
        if self._node.worker is self:
            accident = self._disk.in_next_install
            if self._node.paused:
                self._after_a_while(action, image)
            elif accident is not None and self._world.rng.random() < 0.5:
                self._disk.in_next_install = None
                accident()
            else:
                action(image)

    def _install_state(self, image: Image) -> None:
        self._disk.state.replace(image)
        self._after_a_while(self._install_log, image)

    def _install_log(self, image: Image) -> None:
        index = image.applied.index
        self._disk.log.rebase(index, image.applied.term)
        self._disk.installing = None
        self._disk.check()
        self.shard.restored(self._disk.state)  # type: ignore[arg-type]
        self._installing = False
        world = self._world
        world.counts["snapshots installed"] += 1
        world.tell(f"node {self._node.number} has installed a snapshot of {index}")
        world.history.holds(self._node.number, index, self._disk.state.rows.digest)
        world.history.state(self.raft)
        self.run()

    # -- sending

    def _send(self, messages: Sequence[Message]) -> None:
        if not messages:
            return
        groups: dict[int, list[Message]] = {}
        for message in messages:
            groups.setdefault(message.to, []).append(message)
        for to, group in groups.items():
            content = encode_messages(group) if self._world.options.encoded else group
            self._world.send(self._node.number, to, content)

    def _send_peer(self, to: int, message: PeerToPeer) -> None:
        self._world.send(self._node.number, to, message)

    def _answer(self, message: object) -> None:
        assert isinstance(message, Reply | Refusal | Confirmed)
        if not isinstance(message, Confirmed):
            cut = self._disk.state.applied.index
            self._calls.answered(message.call, isinstance(message, Refusal), message.payload, cut)


def _no_step(name: str) -> None:
    """Nobody kills at steps here: a simulated process dies between any two events."""


def _no_image(shard: Shard, message: BackupShard) -> None:
    """No backups are made here."""


def _launch(number: int, nodes: list[int]) -> WorkerLaunch:
    return WorkerLaunch(
        worker=0,
        workers=1,
        shards=1,
        node_number=number,
        node_id=f"node-{number}",
        incarnation=INCARNATION,
        directory="",
        endpoint="",
        guard=b"",
        durability="QuorumProcessDurable",
        peers=[PeerAddress(each, f"node-{each}", "", 1, "") for each in nodes],
        call_ms=CALL_MS,
    )
