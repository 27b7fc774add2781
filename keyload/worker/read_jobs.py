"""What a worker and its reader processes say to each other, over a pair of connected stream sockets.

A frame is its length in 4 bytes, big-endian, and one MessagePack message. A reader process works at one job
at a time; the end of the stream tells it that its worker is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

from keyload.link.messages import CatalogDelta, Read
from keyload.models.context import NodeFacts

HEAD_BYTES = 4
MAX_FRAME_BYTES = 64 << 20
RECEIVE_BYTES = 1 << 18


class Setup(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """The first message to a reader process: whose data it reads. `directory` is that of the worker,
    `data_shards` the number of data shards of the node.
    """

    worker: int
    directory: str
    incarnation: str
    data_shards: int


class Job(msgspec.Struct, frozen=True, array_like=True, tag="j"):
    """One read. `now` is the node's clock in ticks, `seconds` the time left for it.

    `catalog` holds what the read may need of the catalog as it was when the read was handed over; nothing
    changes it while the read runs. `node` is for reads of the system shard.
    """

    number: int
    read: Read
    now: int
    seconds: float
    catalog: CatalogDelta
    node: NodeFacts | None


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag="c"):
    """The job with this number is to end soon, whatever its answer."""

    number: int


class Result(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a job, as `worker.batch.Answer`."""

    number: int
    refused: bool
    payload: bytes


ToReader = Setup | Job | Cancel

_encoder = msgspec.msgpack.Encoder()


def framed(message: ToReader | Result) -> bytes:
    """A message as it travels."""
    content = _encoder.encode(message)
    return len(content).to_bytes(HEAD_BYTES, "big") + content


_Message = TypeVar("_Message")


class Frames(Generic[_Message]):
    """Cuts a stream into messages of one type, or of one of several (`wanted`)."""

    def __init__(self, wanted: Any) -> None:
        self._decoder = msgspec.msgpack.Decoder(wanted)
        self._begun = bytearray()

    def take(self, data: bytes) -> Iterator[_Message]:
        """The messages that are complete with `data`. Raises ValueError for anything else."""
        self._begun += data
        while len(self._begun) >= HEAD_BYTES:
            length = int.from_bytes(self._begun[:HEAD_BYTES], "big")
            if length > MAX_FRAME_BYTES:
                raise ValueError("a frame of a reader process is too long")
            end = HEAD_BYTES + length
            if len(self._begun) < end:
                return
            content = bytes(self._begun[HEAD_BYTES:end])
            del self._begun[:end]
            yield self._decoder.decode(content)
