"""One worker's socket, seen from the front.

The front binds, the worker connects (both DEALER). The socket's file descriptor is edge-triggered and says
only that its state may have changed, so it is drained until empty, and looked at again after each send. What
one turn of the loop sends leaves in one frame.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import zmq

from keyload.link import log
from keyload.link.framing import FLUSH_BYTES, MAX_FRAME_BYTES, FrameError, pack, unpack_from_worker
from keyload.link.messages import FrontToWorker, WorkerToFront

DRAIN_FRAMES = 64
"""Frames taken in one callback before other work of the loop gets its turn."""

HIGH_WATER_FRAMES = 32
MAX_WAITING_BYTES = 64 << 20
"""Bytes that may wait for a worker that does not read."""

MESSAGE_BYTES = 256
"""What a message without payload is counted as."""


class WorkerLink:
    """A bound socket for one life of one worker. `endpoint` is an `ipc://` address never used before."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        worker: int,
        endpoint: str,
        receive: Callable[[WorkerLink, WorkerToFront], None],
    ) -> None:
        self.worker = worker
        self.closed = False
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._turn: list[FrontToWorker] = []
        self._turn_bytes = 0
        self._frames: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._scheduled = False
        self._socket = context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, HIGH_WATER_FRAMES)
        self._socket.setsockopt(zmq.RCVHWM, HIGH_WATER_FRAMES)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES)
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError:
            self._socket.close()
            raise
        self._descriptor = int(self._socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._descriptor, self._drain)

    @property
    def full(self) -> bool:
        """Whether so much waits for the worker that a new call is refused."""
        return self._waiting_bytes + self._turn_bytes > MAX_WAITING_BYTES

    def send(self, message: FrontToWorker, size: int = 0) -> None:
        """Put a message into the frame of this turn; `size` is that of its payload in bytes."""
        if self.closed:
            return
        if self._turn_bytes >= FLUSH_BYTES:
            self._close_frame()
        self._turn.append(message)
        self._turn_bytes += size + MESSAGE_BYTES
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Give up the socket; what was not sent is dropped."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._descriptor)
        self._socket.close()
        self._turn.clear()
        self._frames.clear()

    def _close_frame(self) -> None:
        if self._turn:
            frame = pack(self._turn)
            self._frames.append(frame)
            self._waiting_bytes += len(frame)
            self._turn = []
            self._turn_bytes = 0

    def _flush(self) -> None:
        self._scheduled = False
        if self.closed:
            return
        self._close_frame()
        while self._frames:
            try:
                self._socket.send(self._frames[0], zmq.NOBLOCK)
            except zmq.Again:
                break
            self._waiting_bytes -= len(self._frames.popleft())
        if self._events() & zmq.POLLIN:  # sending may have swallowed the edge that told of input
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        if self.closed:
            return
        for _ in range(DRAIN_FRAMES):
            try:
                frame = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                break
            self._deliver(frame)
            if self.closed:
                return
        else:
            self._loop.call_soon(self._drain)
        if self._frames and self._events() & zmq.POLLOUT:
            self._flush()

    def _events(self) -> int:
        return int(self._socket.getsockopt(zmq.EVENTS))

    def _deliver(self, frame: bytes) -> None:
        try:
            messages = unpack_from_worker(frame)
        except FrameError:
            log.event(log.Category.LINK_FRAME_INVALID, worker=self.worker)
            return
        for message in messages:
            self._receive(self, message)
