"""The state of a simulated node: it keeps and loses what `keyload.storage.Store` does.

What was applied survives the death of the process; a power loss leaves the last durable checkpoint.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

from keyload.consensus import Membership
from keyload.storage.keys import CHECKSUM_BYTES, SHORT_KEY_BYTES, WriteSet
from keyload.storage.layout import Position

_MASK = (1 << 64) - 1


class Image(NamedTuple):
    """One cut of a state."""

    rows: dict[bytes, bytes]
    digest: int
    applied: Position
    membership: bytes


class Rows:
    """Physical keys and values with a digest that does not depend on how they came about."""

    __slots__ = ("_fresh", "_order", "content", "digest")

    def __init__(self, content: dict[bytes, bytes], digest: int) -> None:
        self.content = content
        self.digest = digest
        self._order: list[bytes] = []
        self._fresh: list[bytes] = list(content)

    def take(self, writes: WriteSet) -> None:
        """Put one write set."""
        content, digest = self.content, self.digest
        for key, value in writes:
            old = content.get(key)
            if old is not None:
                digest -= hash((key, old))
            if value is not None:
                content[key] = value
                digest += hash((key, value))
                if old is None:
                    self._fresh.append(key)
            elif old is not None:
                del content[key]
        self.digest = digest & _MASK

    def _sorted(self) -> list[bytes]:
        """All keys in order, among them some that are gone and some twice."""
        if self._fresh:
            self._order += self._fresh
            self._order.sort()
            self._fresh.clear()
        return self._order

    # -- as a reader of logical keys; all keys of the simulated models are short

    def get(self, key: bytes) -> bytes | None:
        """As `storage.Reader`."""
        stored = self.content.get(key)
        return None if stored is None else stored[:-CHECKSUM_BYTES]

    def scan(self, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """As `storage.Reader`."""
        assert len(start) <= SHORT_KEY_BYTES
        order = self._sorted()
        keys = order[bisect_left(order, start) : bisect_left(order, end)]
        former = b""
        for key in reversed(keys) if reverse else keys:
            stored = self.content.get(key)
            if stored is not None and key != former:
                yield key, stored[:-CHECKSUM_BYTES]
            former = key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""


class State:
    """One shard's state on one node's disk."""

    def __init__(self, membership: Membership) -> None:
        self.applied = Position(0, 0)
        self.durable = Position(0, 0)
        """The last checkpoint the process knows to be safe."""
        self.rows = Rows({}, 0)
        self.membership = membership.packed()
        """The last one applied, at first that of the configuration."""
        self._saved = self.image()

    def reader(self) -> Rows:
        """The present cut; nothing is applied while it is read."""
        return self.rows

    def apply(
        self, index: int, term: int, write_sets: Iterable[WriteSet], membership: bytes | None = None
    ) -> None:
        """Put the write sets of the entries up to (index, term), as one transaction."""
        assert index > self.applied.index
        assert term >= self.applied.term
        for writes in write_sets:
            self.rows.take(writes)
        self.applied = Position(index, term)
        if membership is not None:
            self.membership = membership

    def reader_check(self) -> int:
        """As `Store.reader_check`: nobody else reads this state."""
        return 0

    # -- checkpoints

    def image(self) -> Image:
        """A copy of the present cut."""
        return Image(dict(self.rows.content), self.rows.digest, self.applied, self.membership)

    def save(self, image: Image) -> None:
        """From now on a power loss leaves this cut."""
        self._saved = image

    @property
    def saved_index(self) -> int:
        """The last entry in what a power loss leaves."""
        return self._saved.applied.index

    def adopt(self, image: Image) -> None:
        """The process hears that the checkpoint is safe."""
        self.durable = image.applied

    # -- stops

    def reopen(self) -> None:
        """A new process makes what it finds durable before it writes."""
        self.save(self.image())
        self.adopt(self._saved)

    def lose_power(self) -> None:
        """Back to the last durable checkpoint."""
        self._return_to(self._saved)

    def replace(self, image: Image) -> None:
        """A snapshot takes the place of everything; opened again, it is durable."""
        self._return_to(image)
        self.reopen()

    def _return_to(self, image: Image) -> None:
        self.rows = Rows(dict(image.rows), image.digest)
        self.applied = image.applied
        self.membership = image.membership
