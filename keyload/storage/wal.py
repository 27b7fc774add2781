"""The write-ahead log of a worker: one write and one sync per turn for all its shards (STO-8, STO-10,
STO-11).

Segments are kept until `trim` is told that no shard needs what is in them (STO-17).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Self

from keyload.consensus.messages import Entry, HardState
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import files, fresh, records, segments
from keyload.storage.fresh import FreshFile
from keyload.storage.hooks import Step, unwatched
from keyload.storage.layout import Position
from keyload.storage.records import Head, Record, RecordKind
from keyload.storage.replay import Contents, End, replay
from keyload.storage.segments import LogOwner, Segment, SegmentFiles, SegmentHeader
from keyload.storage.shard_log import PayloadCache, ShardLog

MAXIMUM_TURN_BYTES = 16 << 20
"""More than this is written as several turns, each synced, so that a write needs no more memory than that."""

CACHE_BYTES = 32 << 20
"""Recent payloads kept in memory per worker."""

ShardWrite = tuple[int, HardState | None, Sequence[Entry]]
"""Shard, its new hard state if it changed, its new entries in order."""


class Wal:
    """The log of one worker, in one directory that it alone opens.

    Making it reads and checks all of the log and changes nothing. Then its owner compares it with what else
    it has, and calls `begin` before it writes, or tells anybody what is in the log. Errors: Corruption and
    FormatUnsupported; RecoveryRequired when files cannot be read.

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
        step: Step = unwatched,
    ) -> None:
        if not segments.MINIMUM_SEGMENT_BYTES <= segment_bytes <= segments.MAXIMUM_SEGMENT_BYTES:
            raise ValueError("segment_bytes is out of its range")
        self._directory = directory
        self._owner = LogOwner(worker, incarnation)
        self._segment_bytes = segment_bytes
        self._step = step
        self._logs: dict[int, ShardLog] = {}
        self._cache = PayloadCache(cache_bytes)
        self._files = SegmentFiles(directory)
        self._fresh = FreshFile(directory, segment_bytes)
        self._segment: Segment | None = None
        self._broken = False
        try:
            numbers = segments.segment_numbers(directory)
            self._found = self._read(numbers) if numbers else None
        except OSError as error:
            raise _unreadable() from error

    def begin(self) -> Self:
        """Mend what was read, so that all of it is durable, or begin a new log in an empty directory.

        Cuts off an incomplete last write. To be called once. Errors: RecoveryRequired when files cannot be
        written, ResourceExhausted when there is no room for a first segment, Corruption when the directory is
        a link.
        """
        found, self._found = self._found, None
        try:
            files.private_directory(self._directory)
            if found is None:
                segments.begin_log(self._directory, self._owner, self._segment_bytes)
                found = self._read([segments.FIRST_SEGMENT])
            self._segment = self._mended(found)
        except OSError as error:
            raise _unreadable() from error
        return self

    def log(self, shard: int) -> ShardLog:
        """The entries and hard state of one shard (0 to 65535) as they are on disk; empty for a new one."""
        log = self._logs.get(shard)
        if log is None:
            if not 0 <= shard <= records.MAXIMUM_SHARD:
                raise ValueError("a shard number is out of its range")
            log = self._logs[shard] = ShardLog(shard, self._cache, self._files)
        return log

    @property
    def shards(self) -> list[int]:
        """Shards the log knows, in order."""
        return sorted(self._logs)

    @property
    def bytes(self) -> int:
        """Bytes of all segments on disk, without the one that may be prepared."""
        return sum(self._files.sizes.values())

    def write(self, turn: Iterable[ShardWrite]) -> None:
        """Make the new hard states and entries of a turn durable; they are when this returns.

        An entry replaces those of its shard from its index on. A turn of more than 16 MiB, or than a segment
        holds, is written in parts, hard states first; an entry that is larger still gets a segment of its
        size. Errors: ResourceExhausted when there is no room for the next segment (nothing of that part is
        written, the log stays usable) or an entry is larger than the largest segment;
        Corruption when entries leave a gap; RecoveryRequired when a write or sync failed, now or earlier:
        nothing more can be written before the log has been opened anew (STO-11).
        """
        for part in self._parts(self._checked_records(turn)):
            self._write_part(part)

    def rebase(self, shard: int, index: int, term: int) -> None:
        """Let the log of a shard begin behind this entry, which a snapshot holds; durable on return.

        Entries behind it are kept when the log has the entry, else all are dropped. Corruption when the log
        begins later already; else errors as of `write`.
        """
        log = self.log(shard)
        base = Position(index, term)
        if base == log.base:
            return
        if index < log.first_index:
            raise KeyLoadError(ErrorCode.CORRUPTION, "The log of a shard begins behind its snapshot.")
        last = log.last if log.holds(index, term) else base
        self._write_part([records.base_record(shard, base, last)])
        self._cache.discard_shard(shard)

    def trim(self, needed: Mapping[int, int]) -> int:
        """Drop the oldest segments in which no shard needs an entry, and return how many bytes they have.

        `needed` has the first index still needed of each shard; a shard that is not in it needs all of its
        entries. What was dropped is no longer in the logs of the shards, which is durable on return; the
        files are removed by a thread. Errors as of `write`.
        """
        if self._segment is None or self._broken:
            raise _unusable()
        first = self._first_needed(needed, self._segment.header.number)
        if first > min(self._files.sizes):
            bases = [
                records.base_record(shard, base, log.last)
                for shard, log in self._logs.items()
                if (base := log.last_before(first)) != log.base
            ]
            if bases:
                self._write_part(bases, trimming=True)
                self._cache.discard_oldest(lambda shard, index: index < self._logs[shard].first_index)
        return self._files.drop_before(first)

    def close(self) -> None:
        """Close the files; what was written is durable already. A second call does nothing."""
        self._broken = True
        self._fresh.close()
        if self._segment is not None:
            self._segment.close()
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _first_needed(self, needed: Mapping[int, int], number: int) -> int:
        """The first segment, `number` at most, with an entry that is needed."""
        for shard, log in self._logs.items():
            index = max(needed.get(shard, 0), log.first_index)
            if index <= log.last_index:
                number = min(number, log.segment_of(index))
        return number

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
        if records.turn_bytes(1, longest) > self._capacity(segments.MAXIMUM_SEGMENT_BYTES):
            raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, "An entry is too large for the log.")
        return states + entries

    def _parts(self, waiting: list[Record]) -> Iterator[list[Record]]:
        """Cut the records into turns of bounded size; usually there is one."""
        limit = min(MAXIMUM_TURN_BYTES, self._capacity(self._segment_bytes))
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

    def _capacity(self, segment_bytes: int) -> int:
        """The longest turn that a new segment of this size has room for."""
        return segment_bytes - self._overhead()

    def _overhead(self) -> int:
        """What a segment holds beside one turn: header and state of all shards, and what is kept free."""
        count = len(self._logs)
        head = records.turn_bytes(2 * count, count * (records.BASE_BYTES + records.STATE_BYTES))
        return segments.DATA_START + head + self._reserved()

    def _reserved(self) -> int:
        """What a turn must leave free behind it: the seal, and a turn of bases, because with a full disk
        trimming, which makes room, must not need a new segment first."""
        count = len(self._logs)
        return records.turn_bytes(count, count * records.BASE_BYTES) + records.HEADER_BYTES

    def _write_part(self, part: Sequence[Record], *, trimming: bool = False) -> None:
        """Write and sync one turn, then let the logs of the shards know."""
        if self._broken or self._segment is None:
            raise _unusable()
        segment = self._segment
        size = records.turn_bytes(len(part), sum(len(record.payload) for record in part))
        free = records.HEADER_BYTES if trimming else self._reserved()
        if self._files.end + size + free > segment.header.size:
            segment = self._next_segment(segment, size)
        start = self._files.end
        header = segment.header
        buffers, heads = records.pack_turn(header.mark, self._next_turn, part, start)
        self._durably(segment, buffers, start)
        self._files.end += size
        self._next_turn += 1
        for record, head in zip(part, heads, strict=True):
            self._note(record, head, header.number)
        if 2 * self._files.end > header.size:
            self._fresh.prepare()

    def _note(self, record: Record, head: Head, segment: int) -> None:
        """Let a shard's log know of a record that is on disk."""
        log = self.log(record.shard)
        if record.kind == RecordKind.HARD_STATE:
            log.hard_state = records.hard_state(record.payload, head)
        elif record.kind == RecordKind.BASE:
            base = Position(record.position, record.term)
            log.begin_behind(base, keep=log.holds(base.index, base.term))
        else:
            index, place = record.position, segments.place_in(segment, head.start)
            membership = record.kind == RecordKind.MEMBERSHIP
            log.put(index, record.term, place, head.length, head.checksum, membership=membership)
            self._cache.add(record.shard, index, record.payload)

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

    def _next_segment(self, full: Segment, turn_bytes: int) -> Segment:
        """Begin the next segment, with room for a turn, with the state of all shards, seal this one, and go
        on there."""
        number = full.header.number + 1
        size = max(self._segment_bytes, self._overhead() + turn_bytes)
        header = SegmentHeader(size, number, self._next_turn, segments.new_mark())
        head, _ = records.pack_turn(header.mark, self._next_turn, self._states(), segments.DATA_START)
        try:
            descriptor = self._fresh.take(size)
            following = segments.begin_segment(self._directory, self._owner, header, descriptor, head)
        except OSError as error:
            self._broken = True
            raise _unusable() from error
        self._segment = following
        self._files.sizes[number] = header.size
        try:
            seal, _ = records.pack_turn(full.header.mark, self._next_turn, [], self._files.end)
            self._durably(full, seal, self._files.end)
        finally:
            full.close()
        self._next_turn += 1
        self._files.end = segments.DATA_START + sum(map(len, head))
        return following

    def _states(self) -> list[Record]:
        """Where the log of each shard begins and ends, and its hard state."""
        states: list[Record] = []
        for shard, log in self._logs.items():
            states.append(records.base_record(shard, log.base, log.last))
            states.append(records.hard_state_record(shard, log.hard_state))
        return states

    def _read(self, numbers: Sequence[int]) -> End:
        """Replay the log."""
        found = replay(self._directory, self._owner, numbers, self.log)
        self._next_turn = found.last.next_turn
        self._files.sizes = dict.fromkeys(numbers, 0) | found.sizes
        self._files.end = found.last.end
        return found

    def _mended(self, found: End) -> Segment:
        """Zero an incomplete last write and write the last good one again.

        That one may be in the page cache only, even after a sync that failed; written again, the sync here
        covers it. The same holds for a seal that no turn follows. Left-over files are removed.
        """
        last, previous = found.last, found.previous
        if previous is not None and last.untouched:
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
            self._files.drop_before(min(found.sizes))
            fresh.path_in(self._directory).unlink(missing_ok=True)
        except OSError:
            segment.close()
            raise
        return segment

    def _existing(self, contents: Contents) -> Segment:
        return segments.open_segment(self._directory, contents.header)


def _unusable() -> KeyLoadError:
    return KeyLoadError(ErrorCode.RECOVERY_REQUIRED, "A write to the log failed; it must be opened anew.")


def _unreadable() -> KeyLoadError:
    return KeyLoadError(ErrorCode.RECOVERY_REQUIRED, "The log could not be opened.")
