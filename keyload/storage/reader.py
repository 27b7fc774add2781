"""One committed cut of a shard, read through LMDB in logical keys (STO-13, STO-14, STO-21).

Short keys lie in one LMDB database in their logical order. Long keys lie in another one under their first
479 bytes and a hash: those that share these bytes are a group, which is ordered by the full keys when a scan
reaches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nlargest, nsmallest
from operator import gt, lt
from types import TracebackType
from typing import NamedTuple, Self

import lmdb

from keyload.storage import keys
from keyload.storage.layout import POSITION_KEY, Databases, Position, translate

Charge = Callable[[int], None]
"""Called with a number of bytes before they are copied; it may raise to end the read (ADM-23)."""

Pair = tuple[bytes, bytes]

GROUP_STEP = 1024
"""How many keys of a group are held in memory at once; a larger group is passed over again for the next
ones."""

_HIGHEST_HASH = b"\xff" * (keys.LONG_KEY_BYTES - keys.PREFIX_BYTES)


class _Span(NamedTuple):
    """What one scan covers: `start` included, `end` excluded."""

    start: bytes
    end: bytes
    reverse: bool


class StoreReader:
    """A `Reader` of one committed cut, and the context manager that ends it.

    Each record read is charged with the bytes of its key and value before it is copied, a missing one with
    those of its key. A wrong checksum is Corruption for that call; other records stay readable (STO-16).
    """

    __slots__ = ("_charge", "_databases", "_has_long_keys", "_open")

    def __init__(
        self, environment: lmdb.Environment, databases: Databases, has_long_keys: bool, charge: Charge | None
    ) -> None:
        try:
            self._open: lmdb.Transaction[memoryview] | None = environment.begin(
                db=databases.short, buffers=True
            )
        except lmdb.Error as error:
            raise translate(error) from error
        self._databases = databases
        self._has_long_keys = has_long_keys
        self._charge = charge

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the cut, so that its pages may be used again; a second call does nothing. Scans must be
        done."""
        if self._open is not None:
            self._open.abort()
            self._open = None  # LMDB's reader slot is free once nothing refers to the transaction

    @property
    def applied(self) -> Position:
        """The last entry applied in this cut."""
        return Position.unpacked(self._transaction.get(POSITION_KEY, db=self._databases.meta))

    @property
    def _transaction(self) -> lmdb.Transaction[memoryview]:
        if self._open is None:
            raise ValueError("a reader was used after it was closed")
        return self._open

    @property
    def transaction_id(self) -> int:
        """The write transaction that left this cut."""
        return self._transaction.id()

    def copy(self, environment: lmdb.Environment, descriptor: int) -> None:
        """Write a compacted image of this cut to a descriptor; raises lmdb.Error."""
        environment.copyfd(descriptor, compact=True, txn=self._transaction)

    def get(self, key: bytes) -> bytes | None:
        """Value of `key`, None when there is none."""
        if not 0 < len(key) <= keys.SHORT_KEY_BYTES:
            return self._get_long(key)
        transaction = self._open or self._transaction
        try:
            stored = transaction.get(key)
        except lmdb.Error as error:
            raise translate(error) from error
        if self._charge is not None:
            self._charge(len(key) if stored is None else len(key) + len(stored) - keys.CHECKSUM_BYTES)
        return None if stored is None else keys.checked_value(key, stored)

    def scan(self, start: bytes, end: bytes, reverse: bool = False) -> Iterator[Pair]:
        """Keys and values from `start` (included) to `end` (excluded) in byte order, or backwards; lazy."""
        span = _Span(start, end, reverse)
        short = self._short_pairs(span)
        return _merged(short, self._groups(span), reverse) if self._has_long_keys else short

    def _get_long(self, key: bytes) -> bytes | None:
        place = keys.physical_key(key)
        try:
            stored = self._transaction.get(place, db=self._databases.long)
        except lmdb.Error as error:
            raise translate(error) from error
        if self._charge is not None:
            self._charge(
                len(key) if stored is None else len(stored) - keys.LENGTH_BYTES - keys.CHECKSUM_BYTES
            )
        return None if stored is None else keys.checked_long_value(place, stored, key)

    def _short_pairs(self, span: _Span) -> Iterator[Pair]:
        """The short keys of a span. A bound is cut to their length, so one key just outside may come
        first."""
        start, end, reverse = span
        charge = self._charge
        try:
            with self._transaction.cursor() as cursor:
                if not cursor.set_range((end if reverse else start)[: keys.SHORT_KEY_BYTES]):
                    if not reverse:
                        return
                    cursor.last()
                for place, stored in cursor.iterprev() if reverse else cursor.iternext():
                    key = bytes(place)
                    if key < start:
                        if reverse:
                            return
                        continue
                    if key >= end:
                        if not reverse:
                            return
                        continue
                    if charge is not None:
                        charge(len(key) + len(stored) - keys.CHECKSUM_BYTES)
                    yield key, keys.checked_value(key, stored)
        except lmdb.Error as error:
            raise translate(error) from error

    def _groups(self, span: _Span) -> Iterator[tuple[bytes, Iterator[Pair]]]:
        """The groups of long keys a span touches, in its order, each with the bound no key of it lies
        before."""
        start, end, reverse = span
        try:
            with self._transaction.cursor(self._databases.long) as cursor:
                found = _last_group(cursor, end) if reverse else cursor.set_range(start[: keys.PREFIX_BYTES])
                while found:
                    prefix = bytes(cursor.key()[: keys.PREFIX_BYTES])
                    if prefix < start[: keys.PREFIX_BYTES] if reverse else prefix >= end:
                        return
                    if reverse:
                        yield prefix + _HIGHEST_HASH, self._group(prefix, span)
                        found = cursor.set_range(prefix) and cursor.prev()
                    else:
                        yield prefix, self._group(prefix, span)
                        found = _after_group(cursor, prefix)
        except lmdb.Error as error:
            raise translate(error) from error

    def _group(self, prefix: bytes, span: _Span) -> Iterator[Pair]:
        """Keys and values of one group in logical order, `GROUP_STEP` at a time."""
        start, end, reverse = span
        while True:
            if reverse:
                step = nlargest(GROUP_STEP, self._group_keys(prefix, start, end))
            else:
                step = nsmallest(GROUP_STEP, self._group_keys(prefix, start, end))
            for key in step:
                value = self._get_long(key)
                if value is None:
                    raise keys.damaged_record()
                yield key, value
            if len(step) < GROUP_STEP:
                return
            start, end = (start, step[-1]) if reverse else (step[-1] + b"\0", end)

    def _group_keys(self, prefix: bytes, start: bytes, end: bytes) -> Iterator[bytes]:
        """Full keys of one group in a span, in the order of their hashes; each is charged, in the span or
        not."""
        with self._transaction.cursor(self._databases.long) as cursor:
            cursor.set_range(prefix)
            for place, stored in cursor.iternext():
                physical = bytes(place)
                if not physical.startswith(prefix):
                    return
                if self._charge is not None:
                    self._charge(keys.long_key_bytes(stored))
                key = keys.long_key(physical, stored)
                if start <= key < end:
                    yield key


def _after_group(cursor: lmdb.Cursor[memoryview], prefix: bytes) -> bool:
    """Go to the first key behind a group."""
    found = cursor.set_range(prefix + _HIGHEST_HASH)
    return found and (not bytes(cursor.key()).startswith(prefix) or cursor.next())


def _last_group(cursor: lmdb.Cursor[memoryview], end: bytes) -> bool:
    """Go to the last key whose group may hold a key before `end`."""
    bound = end[: keys.PREFIX_BYTES]
    if len(bound) == keys.PREFIX_BYTES:
        bound += _HIGHEST_HASH
    return cursor.prev() if cursor.set_range(bound) else cursor.last()


def _merged(
    short: Iterator[Pair], groups: Iterator[tuple[bytes, Iterator[Pair]]], reverse: bool
) -> Iterator[Pair]:
    """Both kinds of keys in one order; a group is not looked into before the short keys ahead of it are
    through."""
    before = gt if reverse else lt
    waiting = next(short, None)
    for bound, group in groups:
        while waiting is not None and before(waiting[0], bound):
            yield waiting
            waiting = next(short, None)
        for pair in group:
            while waiting is not None and before(waiting[0], pair[0]):
                yield waiting
                waiting = next(short, None)
            yield pair
    if waiting is not None:
        yield waiting
        yield from short
