"""The write-ahead log of a worker: one write and one sync per turn for all its shards (STO-8, STO-10, STO-11).

Segments are kept until checkpoints say what is no longer needed; the log of a shard therefore begins at index 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

from keyload.consensus.messages import Entry, HardState
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import files, records, segments
from keyload.storage.records import Record, RecordKind
from keyload.storage.replay import replay
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

    Opening reads all of it, cuts off an incomplete last write and makes the rest durable. In an empty directory a
    new log begins. Errors of opening: Corruption and FormatUnsupported (files stay as they are),
    RecoveryRequired when files cannot be read or written, ResourceExhausted when there is no room for a segment.

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
        Corruption when entries leave a gap; RecoveryRequired when a write or sync failed, now or earlier: nothing
        more can be written before the log has been opened anew (STO-11).
        """
        waiting = self._records(turn)
        for part in self._parts(waiting):
            self._write_part(part)

    def close(self) -> None:
        """Close the files; what was written is durable already. A second call does nothing."""
        if not self._broken:
            self._broken = True
        self._segment.close()
        self._readers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
