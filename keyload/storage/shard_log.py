"""One shard's part of the log: where each entry lies, and the recent ones in memory."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable

from keyload.codec.checksums import crc32
from keyload.consensus.messages import Entry, HardState
from keyload.contract.errors import ErrorCode, KeyLoadError

_ENTRY_OVERHEAD = 200
"""Bytes that a cached payload costs beside its own."""


class PayloadCache:
    """The newest payloads of all shards of a worker within a bound of bytes, oldest dropped first."""

    def __init__(self, maximum_bytes: int) -> None:
        self._maximum_bytes = maximum_bytes
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
        while self._bytes > self._maximum_bytes:
            _, dropped = self._payloads.popitem(last=False)
            self._bytes -= len(dropped) + _ENTRY_OVERHEAD

    def discard(self, shard: int, index: int) -> None:
        """Forget a payload."""
        dropped = self._payloads.pop((shard, index), None)
        if dropped is not None:
            self._bytes -= len(dropped) + _ENTRY_OVERHEAD


class ShardLog:
    """The `LogStorage` of one shard's consensus: what is on disk, 24 bytes of memory for each entry.

    `hard_state` is the last one written. Entries are kept from index 1 on until checkpoints drop them.
    """

    __slots__ = (
        "_cache",
        "_checksums",
        "_first",
        "_lengths",
        "_places",
        "_read",
        "_shard",
        "_terms",
        "hard_state",
    )

    def __init__(self, shard: int, cache: PayloadCache, read: Callable[[int, int], bytes]) -> None:
        self.hard_state = HardState()
        self._shard = shard
        self._cache = cache
        self._read = read
        self._first = 1
        self._places = array("Q")
        self._terms = array("Q")
        self._lengths = array("I")
        self._checksums = array("I")

    @property
    def first_index(self) -> int:
        """The first entry still kept."""
        return self._first

    @property
    def last_index(self) -> int:
        """The last entry, or `first_index` - 1."""
        return self._first + len(self._terms) - 1

    def term(self, index: int) -> int:
        """Term of an entry from `first_index` - 1 to `last_index`; index 0 has term 0. IndexError outside."""
        offset = index - self._first
        if offset == -1 and index == 0:
            return 0
        if offset < 0:
            raise IndexError(index)
        return self._terms[offset]

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
            offset = index - self._first
            size += self._lengths[offset]
            if result and size > max_bytes:
                break
            payload = self._cache.get(self._shard, index)
            result.append(
                Entry(self._terms[offset], index, self._load(offset) if payload is None else payload)
            )
        return result

    def bytes_from(self, index: int) -> int:
        """Bytes of the entries from `index` on."""
        return sum(self._lengths[max(0, index - self._first) :])

    def accepts(self, index: int, term: int) -> bool:
        """Whether an entry may follow here: none before it is missing, and terms do not fall."""
        return self._first <= index <= self.last_index + 1 and term >= self.term(index - 1)

    def put(self, index: int, term: int, place: int, length: int, checksum: int) -> None:
        """Note an entry that is on disk; it replaces those from its index on (a conflict of consensus)."""
        offset = index - self._first
        if offset < len(self._terms):
            for replaced in range(index, self.last_index + 1):
                self._cache.discard(self._shard, replaced)
            for column in (self._places, self._terms, self._lengths, self._checksums):
                del column[offset:]
        self._places.append(place)
        self._terms.append(term)
        self._lengths.append(length)
        self._checksums.append(checksum)

    def _load(self, offset: int) -> bytes:
        """Read a payload back and check it."""
        try:
            payload = self._read(self._places[offset], self._lengths[offset])
        except OSError as error:
            raise KeyLoadError(
                ErrorCode.RECOVERY_REQUIRED, "An entry of the log could not be read."
            ) from error
        if len(payload) != self._lengths[offset] or crc32(payload) != self._checksums[offset]:
            raise KeyLoadError(ErrorCode.CORRUPTION, "An entry of the log is damaged.")
        return payload
