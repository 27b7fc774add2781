"""One shard's part of the log: where each entry lies, and the recent ones in memory."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from keyload.codec.checksums import crc32
from keyload.consensus.messages import Entry, HardState
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import segments
from keyload.storage.layout import Position

CACHE_ENTRIES = 65_536
_ENTRY_OVERHEAD = 200
"""Bytes that a cached payload costs beside its own."""


class PayloadCache:
    """The newest payloads of all shards of a worker within bounds of bytes and entries, oldest dropped first.

    The only cache of a worker that holds data. Each payload is kept under its shard and its position in the
    log, and dropped when the log replaces what stands there (STO-15).
    """

    def __init__(self, maximum_bytes: int, maximum_entries: int = CACHE_ENTRIES) -> None:
        self._maximum_bytes = maximum_bytes
        self._maximum_entries = maximum_entries
        self._bytes = 0
        self._payloads: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    def get(self, shard: int, index: int) -> bytes | None:
        """A payload, None when it is not kept."""
        return self._payloads.get((shard, index))

    def add(self, shard: int, index: int, payload: bytes) -> None:
        """Keep a payload, and drop old ones for it."""
        self.discard(shard, index)
        self._payloads[shard, index] = payload
        self._bytes += len(payload) + _ENTRY_OVERHEAD
        while self._bytes > self._maximum_bytes or len(self._payloads) > self._maximum_entries:
            self._drop_oldest()

    def discard(self, shard: int, index: int) -> None:
        """Forget a payload."""
        dropped = self._payloads.pop((shard, index), None)
        if dropped is not None:
            self._bytes -= len(dropped) + _ENTRY_OVERHEAD

    def discard_shard(self, shard: int) -> None:
        """Forget all payloads of a shard."""
        for key in [key for key in self._payloads if key[0] == shard]:
            self.discard(*key)

    def discard_oldest(self, dropped: Callable[[int, int], bool]) -> None:
        """Forget the oldest payloads for as long as `dropped` says so of shard and index."""
        while self._payloads and dropped(*next(iter(self._payloads))):
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, dropped = self._payloads.popitem(last=False)
        self._bytes -= len(dropped) + _ENTRY_OVERHEAD


class Disk(Protocol):
    """What a shard's log asks of the segments. A place is that of `segments.place_in`."""

    def read(self, place: int, length: int) -> bytes:
        """The bytes at a place, fewer at the end of a segment; OSError when they cannot be read."""
        ...

    def bytes_behind(self, place: int) -> int:
        """How much of the log of all shards lies at a place and behind it."""
        ...


class ShardLog:
    """The `LogStorage` of one shard's consensus: what is on disk, 24 bytes of memory for each entry.

    `hard_state` is the last one written. Entries are kept from index 1 on until the log is trimmed or based
    on a snapshot. All methods are reads but `put` and `begin_behind`, which say what was written.
    """

    __slots__ = (
        "_base_term",
        "_cache",
        "_checksums",
        "_disk",
        "_first",
        "_lengths",
        "_memberships",
        "_places",
        "_shard",
        "_terms",
        "hard_state",
    )

    def __init__(self, shard: int, cache: PayloadCache, disk: Disk) -> None:
        self.hard_state = HardState()
        self._shard = shard
        self._cache = cache
        self._disk = disk
        self._first = 1
        self._base_term = 0
        self._places = array("Q")
        self._terms = array("Q")
        self._lengths = array("I")
        self._checksums = array("I")
        self._memberships: set[int] = set()

    @property
    def first_index(self) -> int:
        """The first entry still kept, or the next one to be written when none is."""
        return self._first

    @property
    def last_index(self) -> int:
        """The last entry, or `first_index` - 1."""
        return self._first + len(self._terms) - 1

    @property
    def base(self) -> Position:
        """The entry that the log begins behind; zeros when it is whole."""
        return Position(self._first - 1, self._base_term)

    @property
    def last(self) -> Position:
        """The last entry, or the base."""
        return Position(self.last_index, self.term(self.last_index))

    def term(self, index: int) -> int:
        """Term of an entry from `first_index` - 1 to `last_index`; index 0 has term 0. IndexError outside."""
        offset = index - self._first
        if offset < 0:
            if offset == -1:
                return self._base_term
            raise IndexError(index)
        return self._terms[offset]

    def holds(self, index: int, term: int) -> bool:
        """Whether this entry is in the log, or the one that it begins behind."""
        return self._first - 1 <= index <= self.last_index and self.term(index) == term

    def entries(self, lo: int, hi: int, max_bytes: int) -> list[Entry]:
        """Entries lo..hi-1, cut short at `max_bytes` of data, but at least one; older ones are read from
        disk.

        IndexError when one of them is not kept, Corruption when its bytes are no longer those that were
        written.
        """
        if not self._first <= lo < hi <= self.last_index + 1:
            raise IndexError((lo, hi))
        result: list[Entry] = []
        size = 0
        for index in range(lo, hi):
            size += self._lengths[index - self._first]
            if result and size > max_bytes:
                break
            result.append(self._entry(index))
        return result

    def memberships(self, after: int) -> list[Entry]:
        """The entries behind `after` that hold a membership, in order. Errors as of `entries`."""
        return [self._entry(index) for index in sorted(self._memberships) if index > after]

    def bytes_from(self, index: int) -> int:
        """How much of the log, of all shards of the worker, must stay on disk for a follower whose next entry
        is `index`."""
        offset = max(index - self._first, 0)
        return self._disk.bytes_behind(self._places[offset]) if offset < len(self._places) else 0

    def segment_of(self, index: int) -> int:
        """Number of the segment in which a kept entry lies."""
        return segments.segment_of(self._places[index - self._first])

    def last_before(self, segment: int) -> Position:
        """The last entry that lies in a segment before this one, or the base."""
        index = self._first + bisect_left(self._places, segments.place_in(segment, 0)) - 1
        return Position(index, self.term(index))

    def accepts(self, index: int, term: int) -> bool:
        """Whether an entry may follow here: none before it is missing, and terms do not fall."""
        return self._first <= index <= self.last_index + 1 and term >= self.term(index - 1)

    def put(
        self, index: int, term: int, place: int, length: int, checksum: int, *, membership: bool = False
    ) -> None:
        """Note an entry that is on disk; it replaces those from its index on (a conflict of consensus)."""
        offset = index - self._first
        if offset < len(self._terms):
            for replaced in range(index, self.last_index + 1):
                self._cache.discard(self._shard, replaced)
                self._memberships.discard(replaced)
            for column in (self._places, self._terms, self._lengths, self._checksums):
                del column[offset:]
        self._places.append(place)
        self._terms.append(term)
        self._lengths.append(length)
        self._checksums.append(checksum)
        if membership:
            self._memberships.add(index)

    def begin_behind(self, base: Position, *, keep: bool) -> None:
        """Let the log begin behind an entry; with `keep` those behind it stay, else there are none."""
        dropped = base.index - self._first + 1 if keep else len(self._terms)
        for column in (self._places, self._terms, self._lengths, self._checksums):
            del column[:dropped]
        self._first, self._base_term = base.index + 1, base.term
        self._memberships = {index for index in self._memberships if base.index < index <= self.last_index}

    def _entry(self, index: int) -> Entry:
        payload = self._cache.get(self._shard, index)
        offset = index - self._first
        if payload is None:
            payload = self._load(offset)
        return Entry(self._terms[offset], index, payload, index in self._memberships)

    def _load(self, offset: int) -> bytes:
        """Read a payload back and check it."""
        try:
            payload = self._disk.read(self._places[offset], self._lengths[offset])
        except OSError as error:
            raise KeyLoadError(
                ErrorCode.RECOVERY_REQUIRED, "An entry of the log could not be read."
            ) from error
        if len(payload) != self._lengths[offset] or crc32(payload) != self._checksums[offset]:
            raise KeyLoadError(ErrorCode.CORRUPTION, "An entry of the log is damaged.")
        return payload
