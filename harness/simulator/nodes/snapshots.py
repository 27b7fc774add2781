"""How a snapshot travels from a leader to a node that lacks the entries, and what of it a disk keeps.

The receiver pulls: the leader offers, again and again, until the node needs no snapshot any more; the node
asks for the chunks it lacks. Every frame may be lost, and either side may go down in between.
"""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import NamedTuple

from harness.simulator.nodes.state import Image
from keyload.storage.layout import Position

WINDOW = 4
"""Chunks asked for and not yet received."""


class Manifest(NamedTuple):
    """What is offered. `number` names the image; `digest` is that of its rows."""

    number: int
    position: Position
    membership: bytes
    digest: int
    chunks: int


class Offer(NamedTuple):
    """A leader has this snapshot."""

    manifest: Manifest


class Want(NamedTuple):
    """The receiver lacks this chunk."""

    number: int
    place: int


class Chunk(NamedTuple):
    """Some rows of a snapshot."""

    number: int
    place: int
    rows: list[tuple[bytes, bytes]]


class Outgoing:
    """A snapshot that a leader has on its disk."""

    def __init__(self, number: int, image: Image, rows_per_chunk: int) -> None:
        self._rows = list(image.rows.items())
        self._per_chunk = rows_per_chunk
        chunks = max(1, -(-len(self._rows) // rows_per_chunk))
        self.manifest = Manifest(number, image.applied, image.membership, image.digest, chunks)

    def chunk(self, want: Want) -> Chunk | None:
        """What is wanted, None when it is of another snapshot."""
        if want.number != self.manifest.number or want.place >= self.manifest.chunks:
            return None
        start = want.place * self._per_chunk
        return Chunk(want.number, want.place, self._rows[start : start + self._per_chunk])


class Incoming:
    """A snapshot on its way in, on the receiver's disk."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self._chunks: dict[int, list[tuple[bytes, bytes]]] = {}

    @property
    def complete(self) -> bool:
        """Whether every chunk is there."""
        return len(self._chunks) == self.manifest.chunks

    def wanted(self) -> list[Want]:
        """The first chunks that are missing."""
        missing = (place for place in range(self.manifest.chunks) if place not in self._chunks)
        return [Want(self.manifest.number, place) for place in islice(missing, WINDOW)]

    def write(self, chunk: Chunk) -> bool:
        """Keep a chunk; False when it is of another snapshot or there already."""
        if chunk.number != self.manifest.number or chunk.place in self._chunks:
            return False
        self._chunks[chunk.place] = chunk.rows
        return True

    def lose_power(self, rng: Random) -> None:
        """Chunks were not synced: some are gone, and some are torn."""
        for place in list(self._chunks):
            if rng.random() < 0.3:
                del self._chunks[place]
            elif rng.random() < 0.1:
                self._chunks[place] = self._chunks[place][:-1]

    def image(self) -> Image | None:
        """The image, None when it is not what the manifest says."""
        rows = {key: value for place in sorted(self._chunks) for key, value in self._chunks[place]}
        digest = sum(hash(row) for row in rows.items()) & ((1 << 64) - 1)
        if digest != self.manifest.digest:
            return None
        return Image(rows, digest, self.manifest.position, self.manifest.membership)
