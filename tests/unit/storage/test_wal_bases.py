"""What opening makes of bases: a trimmed log that is damaged, and logs made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyload.consensus.messages import Entry, HardState
from keyload.contract.errors import ErrorCode
from keyload.storage import records, segments
from keyload.storage.layout import Position
from keyload.storage.records import Record, RecordKind
from keyload.storage.segments import DATA_START, LogOwner, SegmentHeader
from tests.unit.storage.log_model import SEGMENT_BYTES, Contents, contents, files_of, open_log, put_files
from tests.unit.storage.support import INCARNATION
from tests.unit.storage.test_wal_damage import HEAD_END, opens_not


@pytest.fixture
def trimmed(tmp_path: Path) -> dict[str, bytes]:
    """A log of segments 3 to 5 that begins behind entry 4; the base lies in segment 4."""
    with open_log(tmp_path / "built") as log:
        for index in range(1, 11):
            log.write([(1, HardState(1, 1, index - 1), [Entry(1, index, bytes([index]) * 1500)])])
            if index == 8:
                log.trim({1: 5})
    files = files_of(tmp_path / "built")
    assert sorted(files) == ["0003.log", "0004.log", "0005.log"]
    return files


@pytest.mark.covers("STO-4", "CLU-17")
@pytest.mark.parametrize("missing", [["0003.log"], ["0004.log"], ["0005.log"], ["0003.log", "0004.log"]])
def test_a_segment_missing_from_a_trimmed_log_is_corruption(
    trimmed: dict[str, bytes], tmp_path: Path, missing: list[str]
) -> None:
    left = {name: content for name, content in trimmed.items() if name not in missing}
    opens_not(tmp_path / "wal", left, ErrorCode.CORRUPTION)


@pytest.mark.covers("STO-4", "CLU-17")
@pytest.mark.parametrize("name", ["0003.log", "0004.log"])
def test_a_wrong_byte_anywhere_in_a_trimmed_log_is_corruption(
    trimmed: dict[str, bytes], tmp_path: Path, name: str
) -> None:
    seal = len(trimmed[name].rstrip(b"\0"))
    for place in {
        *range(10, HEAD_END + 80),
        *range(HEAD_END + 80, SEGMENT_BYTES, 31),
        *range(seal - 40, seal),
    }:
        content = bytearray(trimmed[name])
        content[place] ^= 0x04
        opens_not(tmp_path / "wal", {**trimmed, name: bytes(content)}, ErrorCode.CORRUPTION)


@pytest.mark.covers("STO-4", "CLU-17")
def test_what_a_segment_begins_with_is_never_taken_for_a_torn_write(
    trimmed: dict[str, bytes], tmp_path: Path
) -> None:
    for cut in range(DATA_START, HEAD_END - 8):  # the last bytes of a commit index and a vote are zeros
        content = trimmed["0005.log"][:cut].ljust(SEGMENT_BYTES, b"\0")
        opens_not(tmp_path / "wal", {**trimmed, "0005.log": content}, ErrorCode.CORRUPTION)
    with open_log(tmp_path / "alone") as log:
        log.write([(1, None, [Entry(1, 1, bytes(3000))])])
        log.rebase(1, 1, 1)
        log.write([(1, None, [Entry(1, 2, bytes(3000))])])
        log.trim({})
    alone = files_of(tmp_path / "alone")
    assert sorted(alone) == ["0002.log"]
    content = alone["0002.log"][:DATA_START].ljust(SEGMENT_BYTES, b"\0")
    opens_not(tmp_path / "wal", {"0002.log": content}, ErrorCode.CORRUPTION)


@pytest.mark.covers("STO-4", "CLU-17")
def test_a_base_that_was_lost_after_the_segments_were_dropped_is_corruption(tmp_path: Path) -> None:
    with open_log(tmp_path / "built") as log:
        for index in range(1, 6):
            log.write([(1, None, [Entry(1, index, bytes([index]) * 1500)])])
        start = log._files.end
        log.trim({1: 5})
        end = log._files.end
    files = files_of(tmp_path / "built")
    assert sorted(files) == ["0003.log"]
    for cut in range(start, end - 15):
        content = files["0003.log"][:cut].ljust(SEGMENT_BYTES, b"\0")
        opens_not(tmp_path / "wal", {"0003.log": content}, ErrorCode.CORRUPTION)


@pytest.mark.covers("STO-4")
def test_segments_before_a_missing_one_do_not_fill_a_hole(trimmed: dict[str, bytes], tmp_path: Path) -> None:
    with open_log(tmp_path / "whole") as log:
        for index in range(1, 5):
            log.write([(1, None, [Entry(1, index, bytes(1500))])])
    first = files_of(tmp_path / "whole")["0001.log"]
    left = {name: content for name, content in trimmed.items() if name != "0003.log"}
    opens_not(tmp_path / "wal", {**left, "0001.log": first, "0003.log": first}, ErrorCode.CORRUPTION)
    opens_not(tmp_path / "wal", {**left, "0001.log": first}, ErrorCode.CORRUPTION)


def base(index: int, term: int, last: int, last_term: int) -> Record:
    return records.base_record(1, Position(index, term), Position(last, last_term))


def entry(index: int, term: int, membership: bool = False) -> Record:
    return records.entry_record(1, Entry(term, index, b"%d" % index, membership))


def state(term: int) -> Record:
    return records.hard_state_record(1, HardState(term, 2, 3, joined=True))


def segment(number: int, turns: list[list[Record]]) -> bytes:
    """A segment with these turns."""
    header = SegmentHeader(SEGMENT_BYTES, number, 1 if number == 1 else 7, bytes(range(8)))
    content = segments._packed(header, LogOwner(0, INCARNATION)).ljust(DATA_START, b"\0")
    for turn, part in enumerate(turns, header.first_turn):
        buffers, _ = records.pack_turn(header.mark, turn, part, len(content))
        content += b"".join(buffers)
    return content.ljust(SEGMENT_BYTES, b"\0")


def held(base: tuple[int, int], *entries: tuple[int, int]) -> Contents:
    """What shard 1 then holds."""
    kept = [Entry(term, index, b"%d" % index) for index, term in entries]
    return HardState(9, 2, 3, joined=True), base, kept


HEAD = [base(5, 1, 8, 3), state(9)]
"""Of a log that began behind (5, 1) and ended with (8, 3) when its older segments were still there."""


@pytest.mark.covers("STO-4", "STO-17")
@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([[base(8, 3, 8, 3), state(9)]], held((8, 3))),
        ([[base(8, 3, 8, 3), state(9)], [entry(9, 3)]], held((8, 3), (9, 3))),
        ([HEAD, [base(8, 3, 8, 3)]], held((8, 3))),
        ([HEAD, [entry(9, 4), entry(10, 4)], [base(8, 3, 10, 4)]], held((8, 3), (9, 4), (10, 4))),
        ([HEAD, [entry(9, 4), entry(10, 4)], [base(9, 4, 10, 4)]], held((9, 4), (10, 4))),
        ([HEAD, [entry(9, 4), entry(10, 4)], [base(9, 5, 9, 5)]], held((9, 5))),
        ([HEAD, [base(20, 5, 20, 5)], [entry(21, 5)]], held((20, 5), (21, 5))),
        # Bases among the unknown entries: nothing but the record says whether those behind were kept.
        ([HEAD, [base(6, 2, 8, 3)], [base(8, 3, 8, 3)]], held((8, 3))),
        ([HEAD, [base(6, 9, 6, 9)]], held((6, 9))),
        ([HEAD, [base(6, 9, 6, 9)], [entry(7, 9)]], held((6, 9), (7, 9))),
        ([HEAD, [entry(9, 4)], [base(7, 2, 9, 4)], [base(8, 3, 9, 4)]], held((8, 3), (9, 4))),
        ([HEAD, [entry(9, 4)], [base(8, 9, 8, 9)]], held((8, 9))),
        # Entries that replace unknown ones.
        ([HEAD, [entry(6, 4), entry(7, 4)]], held((5, 1), (6, 4), (7, 4))),
        ([HEAD, [entry(7, 4), entry(8, 4)], [base(6, 2, 8, 4)]], held((6, 2), (7, 4), (8, 4))),
        ([HEAD, [entry(8, 4)], [entry(7, 5)], [entry(6, 6)]], held((5, 1), (6, 6))),
        ([HEAD, [entry(8, 4)], [base(6, 2, 8, 4)], [entry(7, 5)]], held((6, 2), (7, 5))),
    ],
)
def test_a_gap_that_a_later_record_explains_is_none(
    tmp_path: Path, turns: list[list[Record]], expected: Contents
) -> None:
    put_files(tmp_path / "wal", {"0002.log": segment(2, turns)})
    for _ in range(2):
        with open_log(tmp_path / "wal") as log:
            assert contents(log, 1) == expected


@pytest.mark.covers("STO-4", "CLU-17")
@pytest.mark.parametrize(
    "turns",
    [
        [HEAD],
        [[*HEAD, entry(9, 4)]],
        [HEAD, [entry(9, 4)]],
        [HEAD, [entry(9, 4)], [base(7, 2, 9, 4)]],
        [HEAD, [entry(7, 4)]],
        [HEAD, [base(6, 2, 8, 3)]],
        [HEAD, [base(6, 2, 9, 3)], [base(8, 3, 8, 3)]],
        [HEAD, [base(6, 2, 7, 3)], [base(8, 3, 8, 3)]],
        [HEAD, [entry(5, 4)]],
        [HEAD, [entry(10, 4)], [base(20, 9, 20, 9)]],
        [HEAD, [entry(9, 2)], [base(20, 9, 20, 9)]],
        [HEAD, [base(4, 1, 8, 3)], [base(20, 9, 20, 9)]],
        [HEAD, [base(20, 9, 21, 9)]],
        [HEAD, [base(20, 9, 20, 8)]],
        [[base(8, 3, 7, 3), state(9)]],
        [[base(8, 3, 8, 4), state(9)]],
        [[base(8, 3, 8, 3), state(9)], [entry(8, 3)]],
        [[base(8, 3, 8, 3), state(9)], [base(7, 3, 8, 3)]],
        [[base(8, 3, 8, 3), state(9)], [entry(9, 3), entry(10, 3)], [base(9, 3, 9, 3)]],
        [[base(8, 3, 8, 3), state(9)], [entry(9, 3), entry(10, 3)], [base(9, 4, 10, 3)]],
        [[base(8, 3, 8, 3), state(9)], [Record(RecordKind.BASE, 1, 3, 9, bytes(15))]],
        [[base(8, 3, 8, 3), state(9)], [Record(RecordKind.BASE, 1, 3, 9, b"")]],
        [[base(8, 3, 8, 3), state(9)], [Record(RecordKind.HARD_STATE, 1, 3, 9, bytes(8))]],
        [[base(8, 3, 8, 3), state(9)], [Record(RecordKind.HARD_STATE, 1, 3, 9, bytes(8) + b"\2")]],
        [[base(8, 3, 8, 3), state(9)], [Record(9, 1, 3, 9, b"")]],
        [],
    ],
)
def test_a_gap_that_nothing_explains_or_a_record_that_cannot_be_is_corruption(
    tmp_path: Path, turns: list[list[Record]]
) -> None:
    opens_not(tmp_path / "wal", {"0002.log": segment(2, turns)}, ErrorCode.CORRUPTION)


@pytest.mark.covers("STO-4")
def test_the_first_segment_ever_begins_with_nothing(tmp_path: Path) -> None:
    for turns in ([HEAD], [[base(5, 1, 8, 3)], [base(8, 3, 8, 3)]], [[entry(2, 1)]]):
        opens_not(tmp_path / "wal", {"0001.log": segment(1, turns)}, ErrorCode.CORRUPTION)
    put_files(tmp_path / "wal", {"0001.log": segment(1, [[base(8, 3, 8, 3), state(9)], [entry(9, 4)]])})
    with open_log(tmp_path / "wal") as log:
        assert contents(log, 1) == held((8, 3), (9, 4))
