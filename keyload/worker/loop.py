"""The worker: one plain loop over its sockets and shards (docs/architecture.md, one turn).

A turn drains what has arrived, lets every shard execute what waits as one batch, writes all new log entries
with one sync, applies what is committed, and sends everything out. Cost is per turn and batch, not per
command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import zmq

from keyload.consensus import MalformedMessage, Message, Ready, decode_messages, encode_messages
from keyload.link import log
from keyload.link.catalog import Catalog
from keyload.link.framing import FrameError, pack, unpack_from_front
from keyload.link.launch import WorkerLaunch
from keyload.link.log import Category
from keyload.link.messages import (
    BackupShard,
    Barrier,
    Cancel,
    CatalogDelta,
    Command,
    Condition,
    Fault,
    Forward,
    ForwardReply,
    PeerToPeer,
    Raft,
    Read,
    Refusal,
    Reply,
    SnapshotChunk,
    SnapshotOffer,
    SnapshotWant,
    Usage,
    WorkerToFront,
)
from keyload.link.messages import Ready as ShardsReady
from keyload.link.peers import PeerLinks
from keyload.storage import Wal, mark_clean
from keyload.storage.hooks import Step
from keyload.worker.admission import CommandGate
from keyload.worker.commands import CommandDesk
from keyload.worker.conditions import Conditions
from keyload.worker.duties import Duties
from keyload.worker.feed import CatalogFeed
from keyload.worker.front import FrontQueue, front_socket
from keyload.worker.images import ImageDesk
from keyload.worker.nodes import Nodes
from keyload.worker.readers import ReadDesk
from keyload.worker.shard import Shard
from keyload.worker.space import Space
from keyload.worker.upkeep import Upkeep
from keyload.worker.usage import usage

MAX_ROUNDS = 4
"""Rounds of log, apply and send in one turn; what is still ready then is done in the next turn at once."""

CLOSING_SECONDS = 1.0
TICKS_PER_SECOND = 10_000_000


class Worker:
    """One worker process. `lifeline` is the file descriptor whose end means that the parent is gone."""

    def __init__(
        self,
        launch: WorkerLaunch,
        *,
        context: zmq.Context[zmq.Socket[bytes]],
        wal: Wal,
        shards: Mapping[int, Shard],
        step: Step,
        lifeline: int,
    ) -> None:
        self._launch = launch
        self._wal = wal
        self._shards = shards
        self._step = step
        self._lifeline = lifeline
        self._tick_seconds = launch.tick_ms / 1000
        self._next_tick = time.monotonic() + self._tick_seconds
        self._front = front_socket(context, launch.endpoint)
        self._to_front = FrontQueue(self._front, self._state_for_front)
        self._links = _peer_links(context, launch)
        self._linked = launch.peers
        self.catalog = Catalog()
        self._nodes = Nodes(launch, self.catalog)
        self.gate = CommandGate(launch.commands)
        self._space = Space(Path(launch.directory), launch.minimum_free_bytes, shards)
        self._conditions = Conditions(self._nodes.others, self._send_peer)
        self._feed = CatalogFeed(self.catalog, self._to_front.append) if 0 in shards else None
        self._commands = CommandDesk(
            me=launch.node_number,
            shards=shards,
            data_shards=launch.shards,
            catalog=self.catalog,
            gate=self.gate,
            space=self._space,
            call_seconds=launch.call_ms / 1000,
            hold_seconds=self._tick_seconds,
            send_front=self._to_front.append,
            send_peer=self._send_peer,
        )
        self._images = ImageDesk(Path(launch.directory), self._to_front.append, self._space.has_room)
        self.reads = ReadDesk(
            launch,
            shards=shards,
            catalog=self.catalog,
            nodes=self._nodes,
            send_front=self._to_front.append,
            evidence_found=self._commands.evidence_found,
            take_image=self._images.ask,
        )
        self._inputs = self._all_inputs()
        self._duties = Duties(
            launch,
            shards,
            catalog=self.catalog,
            commands=self._commands,
            conditions=self._conditions,
            send_front=self._to_front.append,
            now=time.monotonic(),
        )
        self._upkeep = self._keep_files()
        self._announced = False
        self._unfinished = True

    def _keep_files(self) -> Upkeep:
        return Upkeep(
            self._launch,
            self._wal,
            self._shards,
            now=time.monotonic(),
            space=self._space,
            images=self._images,
            send=self._send_peer,
            release=self.reads.drain,
            replaced=self._replaced,
            step=self._step,
        )

    def _all_inputs(self) -> Mapping[zmq.Socket[bytes] | int, Callable[[float], None]]:
        """Everything the loop listens to, with what takes it in."""
        inputs: dict[zmq.Socket[bytes] | int, Callable[[float], None]] = {
            self._front: self._receive_front,
            self.reads.pool.descriptor: self.reads.pool.receive,
        }
        if self._links is not None:
            inputs[self._links.gate] = self._answer_handshakes
            inputs[self._links.inbox] = self._receive_peers
        return inputs

    # -- life

    def run(self) -> None:
        """Work until the lifeline ends, then hand leaderships on, answer what waits, and return.

        A failure of the log, the state or the program itself is told to the front, and raised.
        """
        try:
            self._work()
        except Exception:
            with suppress(zmq.Again):  # the front hears of the end in any case
                self._front.send(pack([Fault("worker-stopped")]), zmq.NOBLOCK)
            self._front.close(linger=200)
            raise
        finally:
            self._images.close()
        self._say_goodbye()

    def _work(self) -> None:
        if self._feed is not None:
            self._feed.load(self._shards[0])
        poller = zmq.Poller()
        for socket in self._inputs:
            poller.register(socket, zmq.POLLIN)
        poller.register(self._lifeline, zmq.POLLIN)
        closing_at: float | None = None
        while closing_at is None or time.monotonic() < closing_at:
            events = dict(poller.poll(self._patience()))
            if self._lifeline in events and closing_at is None:
                poller.unregister(self._lifeline)
                closing_at = time.monotonic() + CLOSING_SECONDS
                self._duties.resign()
            self._turn(events)
            if closing_at is not None and self._duties.idle():
                break

    def close(self) -> None:
        """Make all state durable, close every file, and note that the stop was an ordered one."""
        self._upkeep.close()
        for shard in self._shards.values():
            shard.store.close()
        self._wal.close()
        mark_clean(Path(self._launch.directory) / f"worker-{self._launch.worker}")

    def _patience(self) -> int:
        """Milliseconds the next poll may wait: none while consensus or commands have work, else until the
        next tick."""
        if self._unfinished or any(shard.more for shard in self._shards.values()):
            return 0
        return max(0, int((self._next_tick - time.monotonic()) * 1000) + 1)

    def _say_goodbye(self) -> None:
        for shard in self._shards.values():
            self._commands.finish_all(shard.drain())
        self.reads.close()
        self._flush()
        self._front.close(linger=200)
        if self._links is not None:
            self._links.close()

    # -- one turn

    def _turn(self, events: Mapping[object, int]) -> None:
        now = time.monotonic()
        for socket, receive in self._inputs.items():
            if socket in events:
                receive(now)
        if now >= self._next_tick:
            self._tick(now)
        ticks = wall_ticks()
        for shard in self._shards.values():
            self._commands.route(shard, now)
            executed = shard.execute(self.catalog, ticks)
            self._commands.finish_all([*executed.completed])
            for missing in executed.missing:
                self._commands.fetch_evidence(missing, now)
            shard.reads.ask(shard.raft.read_index, now)
        self._replicate()
        self.reads.serve(ticks, now)
        self._flush()

    def _receive_front(self, now: float) -> None:
        while True:
            try:
                frame = self._front.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                messages = unpack_from_front(frame)
            except FrameError:
                log.event(Category.LINK_FRAME_INVALID)
                continue
            for message in messages:
                self._from_front(message, now)
            self._step("Received")

    def _from_front(self, message: object, now: float) -> None:
        match message:
            case Command():
                self._commands.from_front(message, now)
            case Read() | Barrier() | BackupShard():
                self.reads.arrive(message, now)
            case Cancel():
                self.reads.cancel(message.call, now)
            case CatalogDelta():
                self.catalog.apply(message)
            case Usage():
                self._to_front.append(
                    Reply(message.call, usage(self._launch, self.gate, self._shards, self._wal))
                )
            case Reply() | Refusal():
                if not self._duties.answered(message, now):
                    self._commands.evidence_from_front(message)
            case _:
                log.event(Category.LINK_MESSAGE_UNEXPECTED)

    def _answer_handshakes(self, now: float) -> None:
        assert self._links is not None
        self._links.answer_handshakes()

    def _receive_peers(self, now: float) -> None:
        assert self._links is not None
        for number, message in self._links.receive():
            match message:
                case Raft(shard=shard, payload=payload):
                    self._step_raft(number, shard, payload)
                case Forward():
                    self._commands.from_peer(number, message, now)
                case ForwardReply():
                    self._commands.forward_answered(message, now)
                case SnapshotOffer() | SnapshotWant() | SnapshotChunk():
                    self._upkeep.arrived(number, message, now)
                case Condition():
                    self._conditions.heard(number, message, now, wall_ticks())

    def _step_raft(self, number: int, shard_number: int, payload: bytes) -> None:
        shard = self._shards.get(shard_number)
        if shard is None:
            log.event(Category.PEER_SHARD_UNKNOWN)
            return
        try:
            messages = decode_messages(payload)
        except MalformedMessage:
            log.event(Category.PEER_MESSAGE_MALFORMED)
            return
        for message in messages:
            if message.sender == number:
                shard.raft.step(self._space.admitted(message))
            else:
                log.event(Category.PEER_SOURCE_DIFFERS)

    def _tick(self, now: float) -> None:
        while self._next_tick <= now:
            self._next_tick += self._tick_seconds
            for shard in self._shards.values():
                shard.raft.tick()
            if self._next_tick < now - 1.0:
                self._next_tick = now
        for shard in self._shards.values():
            self._commands.finish_all(shard.sweep(now))
            self.reads.refuse_all(shard.reads.sweep(now))
        self._commands.sweep(now)
        self.reads.sweep(now)
        self._space.tick(now)
        ticks = wall_ticks()
        self._conditions.tick(now, ticks, not self._space.low)
        self._duties.tick(now, ticks)
        self._upkeep.tick(now)
        self._follow_nodes(now)
        if not self._announced and all(shard.replayed for shard in self._shards.values()):
            self._announced = True
            self._to_front.append(self._replayed())

    def _follow_nodes(self, now: float) -> None:
        """Link to the nodes that the catalog names (CLU-19); tell the shards which of them has ended."""
        if self._links is None:
            return
        for number in self._links.tick(now):
            for shard in self._shards.values():
                shard.raft.peer_ended(number)
        if self._linked != self._nodes.peers():
            self._linked = self._nodes.peers()
            self._links.update(self._linked)

    # -- replication

    def _replicate(self) -> None:
        self._unfinished = True
        for _ in range(MAX_ROUNDS):
            ready = [(shard, shard.raft.ready()) for shard in self._shards.values() if shard.raft.has_ready()]
            if not ready:
                self._unfinished = False
                return
            for shard, work in ready:
                self._send_raft(shard, work.messages)
            self._flush_peers()
            self._write_log(ready)
            for shard, work in ready:
                self._send_raft(shard, work.messages_after_sync)
            self._flush_peers()
            self._step("Replicated")
            for shard, work in ready:
                self._finish_ready(shard, work)

    def _write_log(self, ready: Sequence[tuple[Shard, Ready]]) -> None:
        turn = [
            (shard.number, work.hard_state, work.entries)
            for shard, work in ready
            if work.hard_state is not None or work.entries
        ]
        if turn:
            self._wal.write(turn)

    def _finish_ready(self, shard: Shard, work: Ready) -> None:
        if work.committed:
            self._step("Committed")
            completed, applied = shard.apply(work.committed)
            if self._feed is not None and shard.number == 0:
                self._feed.applied(shard.store.applied.index, applied)
            self._commands.finish_all(completed)
        for context, index in work.reads:
            shard.reads.confirm(context, index)
        for context in work.lost_reads:
            shard.reads.lose(context)
        shard.raft.advance(work)

    def _replaced(self, shard: Shard) -> None:
        """A snapshot has replaced the state of a shard."""
        if self._feed is not None and shard.number == 0:
            self._feed.load(shard)

    # -- sending

    def _send_raft(self, shard: Shard, messages: Sequence[Message]) -> None:
        if not messages or self._links is None:
            return
        by_target: dict[int, list[Message]] = {}
        for message in messages:
            by_target.setdefault(message.to, []).append(message)
        for target, group in by_target.items():
            self._links.send(target, Raft(shard.number, encode_messages(group)))

    def _send_peer(self, number: int, message: PeerToPeer) -> None:
        if self._links is not None:
            self._links.send(number, message)

    def _flush_peers(self) -> None:
        if self._links is None:
            return
        for _, message in self._links.flush():
            if isinstance(message, Forward):
                self._commands.not_sent(message, time.monotonic())

    def _flush(self) -> None:
        self._flush_peers()
        if self._to_front.flush():
            self._step("Replied")

    def _state_for_front(self) -> list[WorkerToFront]:
        state: list[WorkerToFront] = [] if self._feed is None else [self.catalog.snapshot()]
        if self._announced:
            state.append(self._replayed())
        return state

    def _replayed(self) -> ShardsReady:
        return ShardsReady(self._launch.worker, sorted(self._shards), True)


def wall_ticks() -> int:
    """The wall clock in ticks of 100 nanoseconds since 1970."""
    return time.time_ns() // 100


def _peer_links(context: zmq.Context[zmq.Socket[bytes]], launch: WorkerLaunch) -> PeerLinks | None:
    if not launch.peers:
        return None
    return PeerLinks(
        context,
        me=launch.node_number,
        worker=launch.worker,
        peers=launch.peers,
        secret_key=launch.secret_key,
        guard=launch.guard,
        report=log.event,
    )
