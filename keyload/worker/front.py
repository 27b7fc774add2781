"""What a worker says to its front: whatever one turn has to say leaves in few frames, and nothing waits.

A front that reads nothing for long loses frames. Calls then end by their deadline; but a change of the
catalog or the word that all is replayed must not be lost, so they come first when it takes frames again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import zmq

from keyload.link import log
from keyload.link.framing import FLUSH_BYTES, pack
from keyload.link.log import Category
from keyload.link.messages import Refusal, Reply, WorkerToFront

QUEUE_FRAMES = 4096
"""Frames that may wait for a front that does not read."""

MESSAGE_BYTES = 256
"""What a message without payload is counted as."""


def front_socket(context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    """A socket connected to the front's `endpoint`."""
    socket = context.socket(zmq.DEALER)
    socket.sndhwm = QUEUE_FRAMES
    socket.rcvhwm = QUEUE_FRAMES
    socket.linger = 0
    socket.connect(endpoint)
    return socket


class FrontQueue:
    """The messages of a turn. `state` gives what a front that lost something must hear anew."""

    def __init__(self, socket: zmq.Socket[bytes], state: Callable[[], Sequence[WorkerToFront]]) -> None:
        self._socket = socket
        self._state = state
        self._messages: list[WorkerToFront] = []
        self._lost = False
        self.append = self._messages.append

    def flush(self) -> bool:
        """Send everything that was appended; whether an answer was among it."""
        messages = self._messages
        if not messages:
            return False
        if self._lost and self._socket.poll(0, zmq.POLLOUT):
            messages[:0] = self._state()
            self._lost = False
        if not self._lost:
            self._send(messages)
        replied = any(isinstance(message, Reply) for message in messages)
        messages.clear()
        return replied

    def _send(self, messages: Sequence[WorkerToFront]) -> None:
        for frame in _frames(messages):
            try:
                self._socket.send(frame, zmq.NOBLOCK)
            except zmq.Again:
                self._lost = True
                log.event(Category.LINK_QUEUE_FULL)
                return


def _frames(messages: Sequence[WorkerToFront]) -> list[bytes]:
    """The messages in frames of about FLUSH_BYTES."""
    frames: list[bytes] = []
    start, size = 0, 0
    for end, message in enumerate(messages, 1):
        size += len(message.payload) if isinstance(message, Reply | Refusal) else MESSAGE_BYTES
        if size >= FLUSH_BYTES:
            frames.append(pack(messages[start:end]))
            start, size = end, 0
    if start < len(messages):
        frames.append(pack(messages[start:]))
    return frames
