"""A worker whose shards another node leads, with the test as that node: what it forwards and which answers it
takes."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from keyload.consensus import Entry, Message, MessageKind, decode_messages, encode_messages
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.link import framing
from keyload.link.launch import WorkerLaunch
from keyload.link.messages import Command, Forward, ForwardReply, PeerToPeer, Raft, Refusal, Reply
from keyload.storage import pack_writes
from keyload.worker import space
from tests.unit.worker.support import SHARDS, WorkerUnderTest, problem

Start = Callable[..., tuple[WorkerUnderTest, "Leader"]]
TERM = 1 << 20
HEARTBEAT_SECONDS = 0.05


class Leader:
    """Node 2 as the leader of every shard of the worker's node; it answers only what the test says."""

    def __init__(self, launch: WorkerLaunch, secret: str) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        one, two = launch.peers[:2]
        self._guard = launch.guard
        self.outgoing = self._socket(zmq.PUSH, two.public_key, secret)
        self.outgoing.curve_serverkey = one.public_key.encode()
        self.outgoing.connect(f"tcp://{one.host}:{one.port}")
        self.inbox = self._socket(zmq.PULL, two.public_key, secret)
        self.inbox.curve_server = True
        self.inbox.bind(f"tcp://{two.host}:{two.port}")
        self._heartbeat_at = 0.0
        self.term = TERM

    def _socket(self, kind: int, public: str, secret: str) -> zmq.Socket[bytes]:
        socket = self.context.socket(kind)
        socket.linger = 0
        socket.curve_publickey = public.encode()
        socket.curve_secretkey = secret.encode()
        return socket

    def send(self, messages: Sequence[PeerToPeer]) -> None:
        self.outgoing.send(framing.pack_peer(self._guard, messages))

    def lead(self) -> None:
        """Heartbeats to all shards, as often as a leader sends them."""
        now = time.monotonic()
        if now < self._heartbeat_at:
            return
        self._heartbeat_at = now + HEARTBEAT_SECONDS
        beat = encode_messages([Message(MessageKind.HEARTBEAT, 2, 1, self.term)])
        self.send([Raft(shard, beat) for shard in range(SHARDS + 1)])

    def forwarded(self) -> Forward:
        """The next command the worker passes on."""
        deadline = time.monotonic() + 10
        while True:
            assert time.monotonic() < deadline, "no command was passed on"
            self.lead()
            if self.inbox.poll(20):
                for message in framing.unpack_from_peer(self.inbox.recv()).messages:
                    if isinstance(message, Forward):
                        return message

    def connected(self) -> None:
        """Wait until the worker has said something, so that nothing is lost for want of a connection."""
        deadline = time.monotonic() + 30
        while not self.inbox.poll(20):
            assert time.monotonic() < deadline
            self.lead()

    def close(self) -> None:
        self.outgoing.close()
        self.inbox.close()
        self.context.term()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[tuple[WorkerUnderTest, Leader]] = []

    def make(**settings: Any) -> tuple[WorkerUnderTest, Leader]:
        place = tmp_path / str(len(running))
        worker = WorkerUnderTest(place, f"ipc://{place}.front", absent_peers=True, **settings)
        pair = (worker, Leader(worker.launch, worker.peer_secrets[0]))
        running.append(pair)
        return pair

    yield make
    for worker, leader in running:
        leader.close()
        worker.stop()


def dispatch(worker: WorkerUnderTest) -> Command:
    command = worker.command("keyload_admin_dispatch", True, None, uuid.uuid4())
    worker.send(command)
    return command


def answered(worker: WorkerUnderTest, leader: Leader, command: Command) -> Reply | Refusal:
    """What the front is told, while the leader goes on leading."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        leader.lead()
        try:
            answer = worker.answer(command.call, 0.1)
        except AssertionError:
            continue
        assert isinstance(answer, Reply | Refusal)
        return answer
    raise AssertionError("no answer in time")


@pytest.mark.covers("CMD-18", "CLU-11", "CLU-12")
def test_the_answer_to_a_command_of_a_former_life_is_not_taken(start: Start) -> None:
    """A worker that was killed comes back while its leader still works for it (CLU-9)."""
    former, its_leader = start(call_ms=60_000)
    dispatch(former)
    old = its_leader.forwarded()
    worker, leader = start(call_ms=60_000)
    command = dispatch(worker)
    new = leader.forwarded()
    leader.send(
        [ForwardReply(old.call, False, b"of the former life"), ForwardReply(new.call, False, b"true")]
    )
    assert answered(worker, leader, command) == Reply(command.call, b"true")


@pytest.mark.covers("ADM-17", "CLU-12")
@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x80", b"\x91" * 100_000, b"\xa7nothing"])
def test_a_broken_answer_of_the_leader_is_an_unknown_outcome(start: Start, payload: bytes) -> None:
    worker, leader = start(call_ms=60_000)
    command = dispatch(worker)
    leader.send([ForwardReply(leader.forwarded().call, True, payload)])
    assert problem(answered(worker, leader, command)).error_code == "UnknownWriteOutcome"


@pytest.mark.covers("CMD-27", "CLU-11", "SEC-3")
@pytest.mark.parametrize(
    ("leaders", "told"), [(1, "Unauthenticated"), (2, "UnknownWriteOutcome"), (3, "UnknownWriteOutcome")]
)
def test_a_key_that_ended_between_two_leaders_leaves_the_outcome_unknown(
    start: Start, leaders: int, told: str
) -> None:
    """The first may have committed the command; its successor refuses before it looks for the outcome."""
    worker, leader = start(call_ms=60_000)
    command = dispatch(worker)
    forward = leader.forwarded()
    for _ in range(1, leaders):
        leader.term += 1
        forward = leader.forwarded()
    refusal = KeyLoadError(ErrorCode.UNAUTHENTICATED, "There is no valid current identity.")
    leader.send([ForwardReply(forward.call, True, msgspec.msgpack.encode(refusal.problem))])
    assert problem(answered(worker, leader, command)).error_code == told


@pytest.mark.covers("CLU-20", "CLU-22")
def test_garbage_of_a_voter_does_not_stop_the_worker(start: Start) -> None:
    worker, leader = start(call_ms=60_000)
    command = dispatch(worker)
    forward = leader.forwarded()
    beat = encode_messages([Message(MessageKind.HEARTBEAT, 2, 1, TERM)])
    frame = framing.pack_peer(worker.launch.guard, [Raft(0, beat), Raft(99, beat), forward])
    chance = random.Random(20)
    for _ in range(300):
        torn = bytearray(frame[: chance.randrange(1, len(frame))])
        torn[chance.randrange(len(torn))] = chance.randrange(256)
        leader.outgoing.send(bytes(torn))
    for payload in (b"\xc1", b"\x91" * 100_000, encode_messages([Message(MessageKind.VOTE, 3, 1, TERM)])):
        leader.send([Raft(0, payload)])
    leader.outgoing.send(b"\x94\x01\xc4\x01g\x90" + b"\x91" * 100_000)
    leader.send([ForwardReply(forward.call, False, b"true")])
    assert answered(worker, leader, command) == Reply(command.call, b"true")


def appended(leader: Leader, shard: int, index: int, *entries: Entry) -> int:
    """Send entries behind `index` of a shard; the index up to which the follower says it has them on disk."""
    message = Message(MessageKind.APPEND, 2, 1, TERM, index, TERM if index else 0, 0, entries)
    deadline = time.monotonic() + 30
    leader.send([Raft(shard, encode_messages([message]))])
    while True:
        assert time.monotonic() < deadline
        leader.lead()
        if not leader.inbox.poll(20):
            continue
        for found in framing.unpack_from_peer(leader.inbox.recv()).messages:
            if isinstance(found, Raft) and found.shard == shard:
                for reply in decode_messages(found.payload):
                    if reply.kind is MessageKind.APPEND_REPLY:
                        assert not reply.reject
                        return reply.index


@pytest.mark.covers("STO-12")
def test_a_follower_without_room_acknowledges_no_content_and_goes_on_when_there_is_room_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, leader = start(minimum_free_bytes=1000)
    free = [10_000]
    looked: list[int] = []

    def free_bytes(directory: Path) -> int:
        looked.append(free[0])
        return free[0]

    def set_free(size: int) -> None:
        free[0] = size
        while size not in looked[-1:]:
            leader.lead()
            worker.pump(20)

    monkeypatch.setattr(space, "free_bytes", free_bytes)
    content = pack_writes([])
    first, second, third = (Entry(TERM, index, content) for index in (1, 2, 3))
    leader.connected()
    assert appended(leader, 1, 0, first) == 1
    set_free(600)
    assert appended(leader, 1, 1, second) == 2, "below the reserve a follower still serves its leader"
    set_free(400)
    assert appended(leader, 1, 2, third) == 2
    assert appended(leader, 1, 2, Entry(TERM, 3, b""), Entry(TERM, 4, content)) == 3, "elections go on"
    command = dispatch(worker)
    assert leader.forwarded().command.command_id == command.command_id, "it still serves its front"
    set_free(10_000)
    assert appended(leader, 1, 3, Entry(TERM, 4, content)) == 4
