"""The write-ahead log of a worker: one write and one sync per turn for all its shards (STO-8, STO-10,
STO-11).

Segments are kept until checkpoints say what is no longer needed; the log of a shard therefore begins at
index 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Self

from keyload.consensus.messages import Entry, HardState
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import records, segments
from keyload.storage.records import Record, RecordKind
from keyload.storage.replay import Contents, End, replay
from keyload.storage.segments import LogOwner, Segment, SegmentReaders
from keyload.storage.shard_log import PayloadCache, ShardLog

MAXIMUM_TURN_BYTES = 16 << 20
"""More than this is written as several turns, each synced, so that a write needs no more memory than that."""

CACHE_BYTES = 32 << 20
"""Recent payloads kept in memory per worker."""

ShardWrite = tuple[int, HardState | None, Sequence[Entry]]
"""Shard, its new hard state if it changed, its new entries in order."""


def _ignore(step: str) -> None:
    """The hook of a log nobody watches."""


class Wal:
    """The log of one worker, in one directory that it alone opens.

    Opening reads all of it, cuts off an incomplete last write and makes the rest durable. In an empty
    directory a new log begins. Errors of opening: Corruption and FormatUnsupported (files stay as they are),
    RecoveryRequired when files cannot be read or written, ResourceExhausted when there is no room for a
    segment.

    `step` is called with "LogWritten" behind each write and with "LogSynced" behind each sync.
    """

    def __init__(
        self,
        directory: Path,
        *,
        worker: int,
        incarnation: str,
        segment_bytes: int = segments.SEGMENT_BYTES,
        cache_bytes: int = CACHE_BYTES,
        step: Callable[[str], None] = _ignore,
    ) -> None:
        if not segments.MINIMUM_SEGMENT_BYTES <= segment_bytes <= segments.MAXIMUM_SEGMENT_BYTES:
            raise ValueError("segment_bytes is out of its range")
        self._directory = directory
        self._owner = LogOwner(worker, incarnation)
        self._segment_bytes = segment_bytes
        self._step = step
        self._logs: dict[int, ShardLog] = {}
        self._cache = PayloadCache(cache_bytes)
        self._readers = SegmentReaders(directory)
        self._broken = False
        try:
            self._segment = self._open()
        except OSError as error:
            detail = "The log could not be opened."
            raise KeyLoadError(ErrorCode.RECOVERY_REQUIRED, detail) from error

    def log(self, shard: int) -> ShardLog:
        """The entries and hard state of one shard (0 to 65535) as they are on disk; empty for a new one."""
        log = self._logs.get(shard)
        if log is None:
            if not 0 <= shard <= records.MAXIMUM_SHARD:
                raise ValueError("a shard number is out of its range")
            log = self._logs[shard] = ShardLog(shard, self._cache, self._readers.read)
        return log

    @property
    def shards(self) -> list[int]:
        """Shards the log knows, in order."""
        return sorted(self._logs)

    def write(self, turn: Iterable[ShardWrite]) -> None:
        """Make the new hard states and entries of a turn durable; they are when this returns.

        An entry replaces those of its shard from its index on. A turn of more than 16 MiB, or than a segment
        holds, is written in parts, hard states first. Errors: ResourceExhausted when there is no room for the
        next segment (nothing of that part is written, the log stays usable) or an entry fits into no segment;
        Corruption when entries leave a gap; RecoveryRequired when a write or sync failed, now or earlier:
        nothing more can be written before the log has been opened anew (STO-11).
        """
        for part in self._parts(self._checked_records(turn)):
            self._write_part(part)

    def close(self) -> None:
        """Close the files; what was written is durable already. A second call does nothing."""
        self._broken = True
        self._segment.close()
        self._readers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _checked_records(self, turn: Iterable[ShardWrite]) -> list[Record]:
        """The records of a turn, hard states first, once it is clear that every one may be written."""
        states: list[Record] = []
        entries: list[Record] = []
        longest = 0
        for shard, state, new in turn:
            log = self.log(shard)
            if state is not None:
                states.append(records.hard_state_record(shard, state))
            if new and not log.accepts(new[0].index, new[0].term):
                raise KeyLoadError(ErrorCode.CORRUPTION, "The entries to be written do not follow the log.")
            for entry in new:
                entries.append(records.entry_record(shard, entry))
                longest = max(longest, len(entry.data))
            if any(
                later.index != entry.index + 1 or later.term < entry.term for entry, later in pairwise(new)
            ):
                raise KeyLoadError(ErrorCode.CORRUPTION, "The entries to be written leave a gap.")
        if records.turn_bytes(1, longest) > self._capacity():
            raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, "An entry is larger than a segment of the log.")
        return states + entries

    def _parts(self, waiting: list[Record]) -> Iterator[list[Record]]:
        """Cut the records into turns of bounded size; usually there is one."""
        limit = min(MAXIMUM_TURN_BYTES, self._capacity())
        part: list[Record] = []
        size = records.HEADER_BYTES
        for record in waiting:
            more = records.HEAD_BYTES + len(record.payload)
            if part and size + more > limit:
                yield part
                part, size = [], records.HEADER_BYTES
            part.append(record)
            size += more
        if part:
            yield part

    def _capacity(self) -> int:
        """The longest turn that a new segment has room for, its seal not forgotten."""
        return self._segment_bytes - segments.DATA_START - records.HEADER_BYTES

    def _write_part(self, part: list[Record]) -> None:
        """Write and sync one turn, then let the logs of the shards know."""
        if self._broken:
            raise _unusable()
        size = records.turn_bytes(len(part), sum(len(record.payload) for record in part))
        if self._end + size + records.HEADER_BYTES > self._segment.header.size:
            self._next_segment()
        header = self._segment.header
        buffers, heads = records.pack_turn(header.mark, self._next_turn, part, self._end)
        self._durably(self._segment, buffers, self._end)
        self._end += size
        self._next_turn += 1
        for record, head in zip(part, heads, strict=True):
            log = self.log(record.shard)
            if record.kind == RecordKind.HARD_STATE:
                log.hard_state = records.hard_state(record.payload, head)
                continue
            place = segments.place_in(header.number, head.start)
            log.put(record.position, record.term, place, head.length, head.checksum)
            self._cache.add(record.shard, record.position, record.payload)

    def _durably(self, segment: Segment, buffers: Sequence[bytes], start: int) -> None:
        """One write and one sync; if either does not come to its end, the log is not usable any more."""
        self._broken = True
        try:
            segment.write(buffers, start)
            self._step("LogWritten")
            segment.sync()
        except OSError as error:
            raise _unusable() from error
        self._step("LogSynced")
        self._broken = False

    def _next_segment(self) -> None:
        """Make the next segment, seal this one, and go on there."""
        header = self._segment.header
        try:
            following = segments.create_segment(
                self._directory, self._owner, header.number + 1, self._next_turn, self._segment_bytes
            )
        except OSError as error:
            self._broken = True
            raise _unusable() from error
        sealed, self._segment = self._segment, following
        try:
            seal, _ = records.pack_turn(header.mark, self._next_turn, [], self._end)
            self._durably(sealed, seal, self._end)
        finally:
            sealed.close()
        self._end = segments.DATA_START

    def _open(self) -> Segment:
        """Replay the log, or begin one, and return the segment it goes on in."""
        segments.begin_log(self._directory, self._owner, self._segment_bytes)
        numbers = segments.segment_numbers(self._directory)
        found = replay(self._directory, self._owner, numbers, self.log)
        self._next_turn, self._end = found.last.next_turn, found.last.end
        return self._mended(found)

    def _mended(self, found: End) -> Segment:
        """Zero an incomplete last write and write the last good one again.

        That one may be in the page cache only, even after a sync that failed; written again, the sync here
        covers it. The same holds for a seal that no turn follows.
        """
        last, previous = found
        if previous is not None and not last.last_turn:
            seal, _ = records.pack_turn(previous.header.mark, previous.next_turn, [], previous.end)
            with closing(self._existing(previous)) as segment:
                segment.write(seal, previous.end)
                segment.sync()
        segment = self._existing(last)
        try:
            if last.written > last.end:
                segment.write([bytes(last.written - last.end)], last.end)
            segment.write([last.last_turn], last.end - len(last.last_turn))
            segment.sync()
        except OSError:
            segment.close()
            raise
        return segment

    def _existing(self, contents: Contents) -> Segment:
        return Segment(segments.segment_path(self._directory, contents.header.number), contents.header)


def _unusable() -> KeyLoadError:
    return KeyLoadError(ErrorCode.RECOVERY_REQUIRED, "A write to the log failed; it must be opened anew.")
