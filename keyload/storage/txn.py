"""Reading and changing state without touching it: the overlay every command runs on.

A `Txn` is a dict of pending writes above a `Reader`; dropping it undoes everything. A batch's overlay is the
write set that is replicated.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from enum import Enum
from itertools import islice
from operator import gt, lt
from typing import Final, Protocol

_FEW = 16


class _Absent(Enum):
    """Marks a key that the overlay does not hold; None already means deleted."""

    ABSENT = 0


_ABSENT: Final = _Absent.ABSENT


class Reader(Protocol):
    """One committed cut of a shard, in logical keys and values (STO-13)."""

    def get(self, key: bytes) -> bytes | None:
        """Value of `key`, None when there is none."""
        ...

    def scan(self, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values from `start` (included) to `end` (excluded) in byte order, or backwards; lazy."""
        ...


class Txn:
    """An overlay that reads its own writes.

    `writes` maps each written key to its value or, deleted, None. Keys are never taken out of it.
    """

    __slots__ = ("_base", "_order", "writes")

    def __init__(self, base: Reader) -> None:
        self.writes: dict[bytes, bytes | None] = {}
        self._base = base
        self._order: list[bytes] | None = None

    def get(self, key: bytes) -> bytes | None:
        """Value of `key` as this transaction sees it."""
        value = self.writes.get(key, _ABSENT)
        return self._base.get(key) if value is _ABSENT else value

    def put(self, key: bytes, value: bytes) -> None:
        """Set `key`."""
        self.writes[key] = value

    def delete(self, key: bytes) -> None:
        """Remove `key`, whether it exists or not."""
        self.writes[key] = None

    def scan(self, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """As `Reader.scan`; the transaction may be written while a scan of it is walked.

        A key is returned with its value at the moment it is reached, and not at all once it is deleted. A key
        first written after the scan began may be missing from it.
        """
        base = self._base.scan(start, end, reverse)
        if not self.writes:
            return self._still_there(base)
        return self._merged(self._own_keys(start, end, reverse), base, reverse)

    def merge_into(self, parent: Txn) -> None:
        """Hand all writes to the transaction below, as a command that succeeded does."""
        parent.writes.update(self.writes)

    def _sorted_keys(self) -> list[bytes]:
        """Keys of `writes` in byte order, kept from scan to scan; a dict's newest keys are its last."""
        order = self._order
        if order is None:
            order = self._order = sorted(self.writes)
            return order
        fresh = islice(reversed(self.writes), len(self.writes) - len(order))
        if len(self.writes) - len(order) < _FEW:
            for key in fresh:
                insort(order, key)
        else:
            order.extend(fresh)
            order.sort()
        return order

    def _own_keys(self, start: bytes, end: bytes, reverse: bool) -> Iterator[bytes]:
        """Written keys of a range in order, taken a few at a time: most scans end early."""
        while True:
            order = self._sorted_keys()
            first, behind = bisect_left(order, start), bisect_left(order, end)
            some = (
                order[max(first, behind - _FEW) : behind][::-1]
                if reverse
                else order[first : min(behind, first + _FEW)]
            )
            yield from some
            if len(some) < _FEW:
                return
            if reverse:
                end = some[-1]
            else:
                start = some[-1] + b"\0"

    def _still_there(self, base: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """What lies below, as far as it has not been changed meanwhile."""
        writes = self.writes
        for key, stored in base:
            value = writes.get(key, stored)
            if value is not None:
                yield key, value

    def _merged(
        self, own: Iterator[bytes], base: Iterator[tuple[bytes, bytes]], reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        writes = self.writes
        before = gt if reverse else lt
        waiting = next(own, None)
        for key, stored in base:
            while waiting is not None and before(waiting, key):
                value = writes[waiting]
                if value is not None:
                    yield waiting, value
                waiting = next(own, None)
            if waiting == key:
                waiting = next(own, None)
            value = writes.get(key, stored)
            if value is not None:
                yield key, value
        while waiting is not None:
            value = writes[waiting]
            if value is not None:
                yield waiting, value
            waiting = next(own, None)


class Layered:
    """A committed cut with the writes of batches in flight above it, oldest first; read only."""

    __slots__ = ("_top",)

    def __init__(self, base: Reader, *layers: dict[bytes, bytes | None]) -> None:
        top = base
        for writes in layers:
            overlay = Txn(top)
            overlay.writes = writes
            top = overlay
        self._top = top

    def get(self, key: bytes) -> bytes | None:
        """Value of `key` in the newest layer that wrote it, else in the cut."""
        return self._top.get(key)

    def scan(self, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """As `Reader.scan`."""
        return self._top.scan(start, end, reverse)
