"""Links to the same worker of the other nodes: ZeroMQ over TCP with CURVE, one direction per socket (CLU-20).

A worker binds one PULL socket and connects one PUSH socket to each peer. Both sides prove their CURVE key;
the sender of a frame is known from the key it proved, never from what the frame says. Nothing waits: a frame
that does not fit a queue is dropped and its consensus messages are repeated by consensus (CLU-22).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import zmq
from zmq.utils import z85

from keyload.link.framing import (
    FLUSH_BYTES,
    MAX_FRAME_BYTES,
    PROTOCOL_VERSION,
    FrameError,
    pack_peer,
    unpack_from_peer,
)
from keyload.link.launch import PeerAddress
from keyload.link.log import Category
from keyload.link.messages import (
    Condition,
    Forward,
    ForwardReply,
    PeerToPeer,
    Raft,
    SnapshotChunk,
    SnapshotOffer,
    SnapshotWant,
)

QUEUE_FRAMES = 64
"""Frames that may wait in one direction before further ones are dropped; each has about FLUSH_BYTES at most.
"""

_ZAP_ENDPOINT = "inproc://zeromq.zap.01"
_ZAP_VERSION = b"1.0"
_HEADER_BYTES = 64

Report = Callable[[Category], None]


class PeerLinks:
    """The sockets of one worker towards its peers.

    `me` is this node's number, `peers` every voter. `report` is called with a closed category when a frame
    or a connection is refused. Poll `gate` and `inbox` for input; then `answer_handshakes` and `receive`
    drain them.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        *,
        me: int,
        worker: int,
        peers: Sequence[PeerAddress],
        secret_key: str,
        guard: bytes,
        report: Report,
    ) -> None:
        self._guard = guard
        self._report = report
        self._numbers = {
            z85.decode(peer.public_key.encode()): peer.number for peer in peers if peer.number != me
        }
        own = next(peer for peer in peers if peer.number == me)
        self.gate = context.socket(zmq.REP)
        self.gate.bind(_ZAP_ENDPOINT)
        self.inbox = _inbox(context, own, worker, secret_key)
        self._outboxes = {
            peer.number: _Outbox(_outgoing(context, own, peer, worker, secret_key))
            for peer in peers
            if peer.number != me
        }

    def send(self, number: int, message: PeerToPeer) -> None:
        """Queue one message for the next `flush`: consensus leaves first, chunks of snapshots last."""
        outbox = self._outboxes[number]
        if isinstance(message, Raft):
            outbox.consensus.append(message)
        elif isinstance(message, SnapshotChunk):
            outbox.bulk.append(message)
        else:
            outbox.others.append(message)

    def flush(self) -> list[tuple[int, Forward | ForwardReply]]:
        """Send everything queued. Returns the commands and answers that did not fit, for their sender to
        decide.
        """
        dropped: list[tuple[int, Forward | ForwardReply]] = []
        for number, outbox in self._outboxes.items():
            if outbox.consensus or outbox.others or outbox.bulk:
                self._flush(number, outbox, dropped)
        return dropped

    def _flush(self, number: int, outbox: _Outbox, dropped: list[tuple[int, Forward | ForwardReply]]) -> None:
        for batch in _batches(outbox):
            try:
                outbox.socket.send(pack_peer(self._guard, batch), zmq.NOBLOCK)
            except zmq.Again:
                dropped.extend(
                    (number, message) for message in batch if isinstance(message, Forward | ForwardReply)
                )
        outbox.clear()

    def receive(self) -> Iterator[tuple[int, PeerToPeer]]:
        """Yield (sender's number, message) of all that has arrived."""
        while True:
            try:
                frame = self.inbox.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            number = int(frame.get("User-Id") or 0)
            try:
                content = unpack_from_peer(frame.buffer)
            except FrameError:
                self._report(Category.PEER_FRAME_MALFORMED)
                continue
            if content.protocol != PROTOCOL_VERSION:
                self._report(Category.PEER_PROTOCOL_DIFFERS)
            elif content.guard != self._guard:
                self._report(Category.PEER_GUARD_DIFFERS)
            else:
                for message in content.messages:
                    yield number, message

    def answer_handshakes(self) -> None:
        """Decide on the connections that wait at the gate (ZeroMQ's authentication protocol): only keys of
        the other voters pass.
        """
        while True:
            try:
                request = self.gate.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            number = None
            if len(request) == 7 and request[0] == _ZAP_VERSION and request[5] == b"CURVE":
                number = self._numbers.get(request[6])
            if number is None:
                self._report(Category.PEER_KEY_UNKNOWN)
                answer = (b"400", b"unknown key", b"", b"")
            else:
                answer = (b"200", b"", str(number).encode(), b"")
            sequence = request[1] if len(request) > 1 else b""
            self.gate.send_multipart((_ZAP_VERSION, sequence, *answer))

    def close(self) -> None:
        """Close all sockets; frames that still wait are lost, as on a cut."""
        for socket in (self.gate, self.inbox, *(outbox.socket for outbox in self._outboxes.values())):
            socket.close(linger=0)


class _Outbox:
    """What waits for one peer."""

    __slots__ = ("bulk", "consensus", "others", "socket")

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self.socket = socket
        self.clear()

    def clear(self) -> None:
        self.consensus: list[Raft] = []
        self.others: list[PeerToPeer] = []
        self.bulk: list[SnapshotChunk] = []


def _batches(outbox: _Outbox) -> Iterator[list[PeerToPeer]]:
    """The waiting messages in frames of about FLUSH_BYTES, in the order of their urgency."""
    batch: list[PeerToPeer] = []
    size = 0
    for message in (*outbox.consensus, *outbox.others, *outbox.bulk):
        if size >= FLUSH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += _HEADER_BYTES + _payload_bytes(message)
    if batch:
        yield batch


def _payload_bytes(message: PeerToPeer) -> int:
    match message:
        case Forward():
            return len(message.command.payload)
        case Raft() | ForwardReply():
            return len(message.payload)
        case SnapshotChunk():
            return len(message.data)
        case SnapshotOffer():
            return len(message.manifest)
        case SnapshotWant() | Condition():
            return 0


def _inbox(
    context: zmq.Context[zmq.Socket[bytes]], own: PeerAddress, worker: int, secret_key: str
) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.PULL)
    _bound(socket)
    socket.curve_server = True
    socket.curve_secretkey = secret_key.encode()
    socket.zap_domain = b"peers"
    socket.bind(f"tcp://{own.host}:{own.port + worker}")
    return socket


def _outgoing(
    context: zmq.Context[zmq.Socket[bytes]],
    own: PeerAddress,
    peer: PeerAddress,
    worker: int,
    secret_key: str,
) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.PUSH)
    _bound(socket)
    socket.immediate = True
    socket.curve_serverkey = peer.public_key.encode()
    socket.curve_publickey = own.public_key.encode()
    socket.curve_secretkey = secret_key.encode()
    socket.reconnect_ivl = 50
    socket.reconnect_ivl_max = 1000
    socket.connect(f"tcp://{peer.host}:{peer.port + worker}")
    return socket


def _bound(socket: zmq.Socket[bytes]) -> None:
    """Limits and liveness of every peer socket."""
    socket.sndhwm = QUEUE_FRAMES
    socket.rcvhwm = QUEUE_FRAMES
    socket.maxmsgsize = MAX_FRAME_BYTES
    socket.linger = 0
    socket.heartbeat_ivl = 1000
    socket.heartbeat_timeout = 4000
    socket.handshake_ivl = 2000
