"""Links to the same worker of the other nodes: ZeroMQ over TCP with CURVE, one direction per socket (CLU-20).

A worker binds one PULL socket and connects one PUSH socket to each peer. Both sides prove their CURVE key;
the sender of a frame is known from the key it proved, never from what the frame says. Nothing waits: a frame
that does not fit a queue is dropped and its consensus messages are repeated by consensus (CLU-22).

Peers come and go while the node runs (CLU-19). A connection is made when there is something to send, so that
a node nobody knows yet, which has nothing to say, knocks at no door. Where a key is refused, ZeroMQ gives up
for good; this side then tries again in growing intervals, because the other may know the key later (CLU-21).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import zmq
from zmq.utils import z85
from zmq.utils.monitor import recv_monitor_message

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

FIRST_PATIENCE = 0.5
LAST_PATIENCE = 8.0
"""Seconds before a peer that refused our key is tried again: at first, and at most (CLU-21)."""

_ZAP_ENDPOINT = "inproc://zeromq.zap.01"
_ZAP_VERSION = b"1.0"
_HEADER_BYTES = 64

Report = Callable[[Category], None]


class PeerLinks:
    """The sockets of one worker towards its peers.

    `me` is this node's number, `peers` the nodes known at first, this one included. `report` is called with a
    closed category when a frame or a connection is refused. Poll `gate` and `inbox` for input; then
    `answer_handshakes` and `receive` drain them.
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
        self._context = context
        self._worker = worker
        self._secret_key = secret_key
        self._guard = guard
        self._report = report
        self._own = next(peer for peer in peers if peer.number == me)
        self._numbers: dict[bytes, int] = {}
        self._outboxes: dict[int, _Outbox] = {}
        self._dropped: list[tuple[int, Forward | ForwardReply]] = []
        self.gate = context.socket(zmq.REP)
        self.gate.bind(_ZAP_ENDPOINT)
        self.inbox = _inbox(context, self._own, worker, secret_key)
        self.update(peers)

    def update(self, peers: Sequence[PeerAddress]) -> None:
        """From now on these are the peers; what is said about this node itself changes nothing.

        Whoever is no peer any more is not sent anything, and what it sends is not looked at.
        """
        wanted = {peer.number: peer for peer in peers if peer.number != self._own.number}
        for number, outbox in list(self._outboxes.items()):
            if wanted.get(number) != outbox.peer:
                del self._outboxes[number]
                outbox.close()
        for number, peer in wanted.items():
            if number not in self._outboxes:
                socket = _outgoing(self._context, self._own, peer, self._secret_key)
                self._outboxes[number] = _Outbox(
                    peer, f"tcp://{peer.host}:{peer.port + self._worker}", socket
                )
        self._numbers = {z85.decode(peer.public_key.encode()): number for number, peer in wanted.items()}

    def tick(self, now: float) -> list[int]:
        """Note which peers refused our key, and when to knock again; `now` in seconds. Returns the peers
        whose connection broke since the last call, as at the end of their process.
        """
        return [number for number, outbox in self._outboxes.items() if outbox.tick(now)]

    def send(self, number: int, message: PeerToPeer) -> None:
        """Queue one message for the next `flush`: consensus leaves first, chunks of snapshots last.

        A message to nobody who is a peer is dropped like one that does not fit.
        """
        outbox = self._outboxes.get(number)
        if outbox is None:
            if isinstance(message, Forward):
                self._dropped.append((number, message))
            return
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
        dropped, self._dropped = self._dropped, []
        for number, outbox in self._outboxes.items():
            if outbox.consensus or outbox.others or outbox.bulk:
                self._flush(number, outbox, dropped)
        return dropped

    def _flush(self, number: int, outbox: _Outbox, dropped: list[tuple[int, Forward | ForwardReply]]) -> None:
        outbox.connect()
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
            if number not in self._outboxes:
                self._report(Category.PEER_KEY_UNKNOWN)
                continue
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
        peers pass.
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
        for outbox in self._outboxes.values():
            outbox.close()
        for socket in (self.gate, self.inbox):
            socket.close(linger=0)


class _Outbox:
    """What waits for one peer, and the connection to it."""

    __slots__ = (
        "_connected",
        "_endpoint",
        "_monitor",
        "_patience",
        "_resume_at",
        "bulk",
        "consensus",
        "others",
        "peer",
        "socket",
    )

    def __init__(self, peer: PeerAddress, endpoint: str, socket: zmq.Socket[bytes]) -> None:
        self.peer = peer
        self.socket = socket
        self._endpoint = endpoint
        self._monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_DISCONNECTED)
        self._connected = False
        self._patience = FIRST_PATIENCE
        self._resume_at: float | None = None
        self.clear()

    def clear(self) -> None:
        self.consensus: list[Raft] = []
        self.others: list[PeerToPeer] = []
        self.bulk: list[SnapshotChunk] = []

    def connect(self) -> None:
        """Connect, unless that was done or our key was refused just now."""
        if not self._connected and self._resume_at is None:
            self._connected = True
            self.socket.connect(self._endpoint)

    def tick(self, now: float) -> bool:
        """Take back a connection whose handshake was refused; allow the next one when it is time. Whether an
        established connection broke.
        """
        broke = False
        if self._resume_at is not None and now >= self._resume_at:
            self._resume_at = None
        while self._monitor.poll(0):
            if recv_monitor_message(self._monitor)["event"] == zmq.EVENT_DISCONNECTED:
                broke = True
            elif self._connected:
                self._connected = False
                self.socket.disconnect(self._endpoint)
                self._resume_at = now + self._patience
                self._patience = min(2 * self._patience, LAST_PATIENCE)
        return broke

    def close(self) -> None:
        """Close the connection; what waits is lost."""
        self.socket.disable_monitor()
        self._monitor.close(linger=0)
        self.socket.close(linger=0)


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
    secret_key: str,
) -> zmq.Socket[bytes]:
    """A socket for one peer, not connected yet."""
    socket = context.socket(zmq.PUSH)
    _bound(socket)
    socket.immediate = True
    socket.curve_serverkey = peer.public_key.encode()
    socket.curve_publickey = own.public_key.encode()
    socket.curve_secretkey = secret_key.encode()
    socket.reconnect_ivl = 50
    socket.reconnect_ivl_max = 1000
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
