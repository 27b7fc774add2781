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


class End(NamedTuple):
    """Where the log goes on: its last segment, and the one before it."""

    last: Contents
    previous: Contents | None


def replay(directory: Path, owner: LogOwner, numbers: Sequence[int], log: Callable[[int], ShardLog]) -> End:
    """Read the segments `numbers` into the logs of their shards. Changes no file.

    Corruption for damage anywhere but in the last write, for a missing segment and for entries out of order;
    FormatUnsupported for an unknown format.
    """
    previous: Contents | None = None
    for number in numbers[:-1]:
        contents, _ = _read_segment(directory, owner, number, previous, log)
        behind_seal = contents.written > contents.end + records.HEADER_BYTES
        if behind_seal or (previous is not None and previous.damage is not None):
            raise _damaged()
        previous = contents
    last, content = _read_segment(directory, owner, numbers[-1], previous, log)
    if previous is not None and previous.damage is not None and last.written > segments.DATA_START:
        raise _damaged()
    if last.damage is None:
        raise KeyLoadError(ErrorCode.CORRUPTION, "The last segment of the log is missing.")
    _check_torn(last, content, last.damage)
    return End(last, previous)


def _read_segment(
    directory: Path,
    owner: LogOwner,
    number: int,
    previous: Contents | None,
    log: Callable[[int], ShardLog],
) -> tuple[Contents, bytearray]:
    """Read one segment up to its seal or to the first place that holds no turn."""
    header, content = segments.load_segment(directory, owner, number)
    next_turn = header.first_turn
    if next_turn != (1 if previous is None else previous.next_turn):
        raise _damaged()
    view = memoryview(content)
    start, end = segments.DATA_START, segments.DATA_START
    damage: TurnDamage | None = None
    while True:
        try:
            turn = records.read_turn(view, end, header.mark, next_turn)
        except TurnDamage as error:
            damage = error
            break
        if not turn.heads:
            break
        for head in turn.heads:
            _note(head, view, header.number, log(head.shard))
        start, end = end, turn.end
        next_turn += 1
    written = _written_bytes(content)
    return Contents(header, next_turn, end, written, bytes(view[start:end]), damage), content


def _written_bytes(content: bytearray) -> int:
    """Length of a segment without the zeros at its end, most of which were only allocated."""
    end = len(content)
    while content[max(0, end - len(_ZEROS)) : end] == _ZEROS:
        end -= len(_ZEROS)
    start = max(0, end - len(_ZEROS))
    return start + len(content[start:end].rstrip(b"\0"))


def _note(head: Head, view: memoryview, segment: int, log: ShardLog) -> None:
    """Take one record into its shard's log."""
    if head.kind == RecordKind.HARD_STATE:
        log.hard_state = records.hard_state(view[head.start : head.start + head.length], head)
    elif head.kind == RecordKind.ENTRY and log.accepts(head.position, head.term):
        log.put(head.position, head.term, segments.place_in(segment, head.start), head.length, head.checksum)
    else:
        raise _damaged()


def _check_torn(last: Contents, content: bytearray, damage: TurnDamage) -> None:
    """Make sure that what stands behind the last good turn is nothing but one incomplete write."""
    follows = content.find(last.header.mark, last.end + 1, last.written) >= 0
    longer = damage.end is not None and last.written > damage.end
    if damage.foreign or follows or longer:
        raise _damaged()


def _damaged() -> KeyLoadError:
    return KeyLoadError(ErrorCode.CORRUPTION, "The log is damaged before its last write.")
