"""Frames: a list of messages as one MessagePack array, so that whatever waits travels together.

A frame between nodes begins with the protocol version and the digest of the sender's guard record (CLU-21).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from keyload.link.messages import FrontToWorker, PeerToPeer, WorkerToFront

PROTOCOL_VERSION = 1
MAX_FRAME_BYTES = 64 << 20
"""Largest frame a socket takes; a larger one closes its connection (`ZMQ_MAXMSGSIZE`)."""

FLUSH_BYTES = 4 << 20
"""A sender starts a new frame when the present one has reached this size (CLU-22)."""


class FrameError(ValueError):
    """A frame is not what this program sends; it is dropped as a whole."""


class PeerFrame(msgspec.Struct, frozen=True, array_like=True):
    """What one worker sends to the same worker of another node."""

    protocol: int
    guard: bytes
    messages: list[PeerToPeer]


_encoder = msgspec.msgpack.Encoder()
_from_front = msgspec.msgpack.Decoder(list[FrontToWorker])
_from_worker = msgspec.msgpack.Decoder(list[WorkerToFront])
_from_peer = msgspec.msgpack.Decoder(PeerFrame)


def pack(messages: Sequence[Any]) -> bytes:
    """One frame between a front and its worker."""
    return _encoder.encode(messages)


def pack_peer(guard: bytes, messages: Sequence[PeerToPeer]) -> bytes:
    """One frame between workers of two nodes."""
    return _encoder.encode((PROTOCOL_VERSION, guard, messages))


def unpack_from_front(frame: bytes) -> list[FrontToWorker]:
    """The messages of a front's frame; raises FrameError."""
    return _unpack(_from_front, frame)


def unpack_from_worker(frame: bytes) -> list[WorkerToFront]:
    """The messages of a worker's frame; raises FrameError."""
    return _unpack(_from_worker, frame)


def unpack_from_peer(frame: bytes | memoryview) -> PeerFrame:
    """The frame of another node's worker; raises FrameError. The caller compares protocol and guard."""
    return _unpack(_from_peer, frame)


def _unpack(decoder: msgspec.msgpack.Decoder[Any], frame: bytes | memoryview) -> Any:
    try:
        return decoder.decode(frame)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FrameError("the frame does not have the form of this protocol version") from error
