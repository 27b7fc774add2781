"""Opening a log: read and check all of it before anything is mended (STO-3, STO-4).

Only the last write may be incomplete or wrong. What tells it from damage: behind damage something follows,
either a header with the mark of the segment or bytes behind where the turn ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import records, segments
from keyload.storage.layout import Position
from keyload.storage.records import Head, RecordKind, TurnDamage
from keyload.storage.segments import LogOwner, SegmentHeader
from keyload.storage.shard_log import ShardLog

_ZEROS = bytearray(1 << 16)


class Contents(NamedTuple):
    """What a segment holds.

    `end` is where the next turn, or the seal, begins; `written` where the last byte that is not zero ends;
    `last_turn` the bytes of the last turn; `damage` why no turn stands at `end`, None when the seal does.
    """

    header: SegmentHeader
    next_turn: int
    end: int
    written: int
    last_turn: bytes
    damage: TurnDamage | None

    @property
    def untouched(self) -> bool:
        """Whether nothing was written since the segment got its name."""
        turns = self.next_turn - self.header.first_turn
        return turns == _head_turns(self.header.number) and self.written <= self.end

    @property
    def unsealed(self) -> bool:
        """Whether the seal was not written, or not all of it: nothing else may be missing."""
        return self.damage is not None and self.damage.end is None and not self.damage.foreign


class End(NamedTuple):
    """The segments that make up the log, by number and size, and where it goes on: the last one and the one
    before it."""

    sizes: dict[int, int]
    last: Contents
    previous: Contents | None


def replay(directory: Path, owner: LogOwner, numbers: Sequence[int], log: Callable[[int], ShardLog]) -> End:
    """Read the segments `numbers` into the logs of their shards. Changes no file.

    Segments before a missing one are no part of the log: they were dropped, but not all of that reached the
    disk. Corruption for damage anywhere but in the last write, for missing entries or a missing segment at
    the end, and for entries out of order; FormatUnsupported for an unknown format.
    """
    kept = [number for place, number in enumerate(numbers, 1) if numbers[-1] - number == len(numbers) - place]
    shards = _Shards(log, trimmed=kept[0] > segments.FIRST_SEGMENT)
    sizes: dict[int, int] = {}
    previous: Contents | None = None
    for number in kept[:-1]:
        contents, _ = _read_segment(directory, owner, number, previous, shards)
        sizes[number] = contents.header.size
        behind_seal = contents.written > contents.end + records.HEADER_BYTES
        if behind_seal or (previous is not None and previous.damage is not None):
            raise _damaged()
        previous = contents
    last, content = _read_segment(directory, owner, kept[-1], previous, shards)
    sizes[kept[-1]] = last.header.size
    if previous is not None and previous.damage is not None and not (previous.unsealed and last.untouched):
        raise _damaged()
    if last.damage is None:
        raise KeyLoadError(ErrorCode.CORRUPTION, "The last segment of the log is missing.")
    _check_torn(last, content, last.damage)
    shards.check_whole()
    return End(sizes, last, previous)


class _Shards:
    """The logs of the shards, as far as they were read.

    Where older segments were dropped, the first turn says where the log of each shard began and ended then.
    The entries between lie in dropped segments and are unknown: `_unknown` has the base of such a log, which
    begins behind the unknown entries itself. They must be explained before the end, by a base that was
    written later, or by entries that replace them.
    """

    def __init__(self, log: Callable[[int], ShardLog], *, trimmed: bool) -> None:
        self._log = log
        self._at_head = trimmed
        self._unknown: dict[int, Position] = {}

    def take(self, heads: Sequence[Head], view: memoryview, segment: int) -> None:
        """Take the records of one turn."""
        for head in heads:
            log = self._log(head.shard)
            payload = view[head.start : head.start + head.length]
            if head.kind in (RecordKind.ENTRY, RecordKind.MEMBERSHIP):
                self._take_entry(head, log, segments.place_in(segment, head.start))
            elif head.kind == RecordKind.HARD_STATE:
                log.hard_state = records.hard_state(payload, head)
            elif head.kind == RecordKind.BASE:
                self._take_base(head.shard, log, *records.base_and_last(payload, head))
            else:
                raise _damaged()
        self._at_head = False

    def check_whole(self) -> None:
        """Corruption when entries are missing that nothing says were dropped."""
        if self._unknown:
            raise KeyLoadError(ErrorCode.CORRUPTION, "The first segments of the log are missing.")

    def _take_entry(self, head: Head, log: ShardLog, place: int) -> None:
        base = self._unknown.get(head.shard)
        if base is not None and base.index < head.position < log.first_index:
            # It replaces unknown entries. The term of the one before is not below that of the base.
            log.begin_behind(Position(head.position - 1, base.term), keep=False)
            if head.position == base.index + 1:
                del self._unknown[head.shard]
        if not log.accepts(head.position, head.term):
            raise _damaged()
        membership = head.kind == RecordKind.MEMBERSHIP
        log.put(head.position, head.term, place, head.length, head.checksum, membership=membership)

    def _take_base(self, shard: int, log: ShardLog, base: Position, last: Position) -> None:
        before = self._unknown.get(shard, log.base)
        if not before.index <= base.index <= last.index:
            raise _damaged()
        if self._at_head:
            log.begin_behind(last, keep=False)
            if base != last:
                self._unknown[shard] = base
        elif shard in self._unknown and base.index < log.first_index:
            self._base_unknown(shard, log, base, last)
        else:
            keep = log.holds(base.index, base.term)
            if last != (log.last if keep else base):
                raise _damaged()
            log.begin_behind(base, keep=keep)
            self._unknown.pop(shard, None)

    def _base_unknown(self, shard: int, log: ShardLog, base: Position, last: Position) -> None:
        """A base among the unknown entries or behind the last of them: whether the others were kept only the
        record knows."""
        keep = last.index > base.index
        if keep and last.index != log.last_index:
            raise _damaged()
        if keep and base.index < log.base.index:
            self._unknown[shard] = base
            return
        log.begin_behind(base, keep=keep)
        del self._unknown[shard]


def _read_segment(
    directory: Path, owner: LogOwner, number: int, previous: Contents | None, shards: _Shards
) -> tuple[Contents, bytearray]:
    """Read one segment up to its seal or to the first place that holds no turn."""
    header, content = segments.load_segment(directory, owner, number)
    next_turn = header.first_turn
    if previous is not None and next_turn != previous.next_turn:
        raise _damaged()
    view = memoryview(content)
    start, end = segments.DATA_START, segments.DATA_START
    damage: TurnDamage | None = None
    while True:
        try:
            turn = records.read_turn(view, end, header.mark, next_turn)
        except TurnDamage as error:
            damage = error.with_traceback(None)  # which would keep all of the segment in memory
            break
        if not turn.heads:
            break
        shards.take(turn.heads, view, number)
        start, end = end, turn.end
        next_turn += 1
    if next_turn < header.first_turn + _head_turns(number):
        raise _damaged()
    written = _written_bytes(content)
    return Contents(header, next_turn, end, written, bytes(view[start:end]), damage), content


def _head_turns(number: int) -> int:
    """How many turns a segment has before it gets its name."""
    return 0 if number == segments.FIRST_SEGMENT else 1


def _written_bytes(content: bytearray) -> int:
    """Length of a segment without the zeros at its end, most of which were only allocated."""
    end = len(content)
    while content[max(0, end - len(_ZEROS)) : end] == _ZEROS:
        end -= len(_ZEROS)
    start = max(0, end - len(_ZEROS))
    return start + len(content[start:end].rstrip(b"\0"))


def _check_torn(last: Contents, content: bytearray, damage: TurnDamage) -> None:
    """Make sure that what stands behind the last good turn is nothing but one incomplete write."""
    follows = content.find(last.header.mark, last.end + 1, last.written) >= 0
    longer = damage.end is not None and last.written > damage.end
    if damage.foreign or follows or longer:
        raise _damaged()


def _damaged() -> KeyLoadError:
    return KeyLoadError(ErrorCode.CORRUPTION, "The log is damaged before its last write.")
