"""What opening makes of a log whose last write is torn, and of one that is damaged anywhere else."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keyload.consensus.messages import Entry, HardState
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import ShardWrite, Wal, records
from keyload.storage.segments import DATA_START
from tests.unit.storage.log_model import SEGMENT_BYTES, ModelLog, files_of, holds, open_log, put_files
from tests.unit.storage.support import INCARNATION

TURNS: list[list[ShardWrite]] = [
    [(1, HardState(1, 2, 0), [Entry(1, 1, b"one")]), (2, None, [Entry(1, 1, b"two")])],
    [(1, HardState(1, 2, 1), [Entry(1, 2, b"three" * 5), Entry(1, 3, b"")])],
    [(2, HardState(4, 1, 1), []), (1, HardState(4, 1, 1), [Entry(4, 2, b"conflict")])],
]
LAST: list[ShardWrite] = [
    (1, HardState(5, 3, 2), [Entry(5, 3, b"last" * 9)]),
    (2, None, [Entry(5, 2, b"\0" * 20)]),
]

HEAD_END = DATA_START + records.turn_bytes(2, records.BASE_BYTES + records.STATE_BYTES)
"""Where the first turn of a segment ends when the log has one shard."""


class Built:
    """A log of one segment: its files before and after the last turn, what they hold, and where that turn
    lies."""

    def __init__(self, directory: Path) -> None:
        model = ModelLog()
        with open_log(directory) as log:
            for turn in TURNS:
                log.write(turn)
                model.write(turn)
            self.without_last = files_of(directory)["0001.log"]
            self.start = log._files.end  # not the first byte that differs: the turn may begin with a zero
            log.write(LAST)
        self.full = files_of(directory)["0001.log"]
        self.model = model
        self.full_model = ModelLog()
        for turn in [*TURNS, LAST]:
            self.full_model.write(turn)
        self.end = max(n for n in range(SEGMENT_BYTES) if self.full[n] != self.without_last[n]) + 1


@pytest.fixture
def built(tmp_path: Path) -> Built:
    return Built(tmp_path / "built")


def reopens_without_last(built: Built, directory: Path, content: bytes) -> None:
    """The torn turn is gone as a whole, and the log goes on as if it had never been."""
    put_files(directory, {"0001.log": content})
    following: list[ShardWrite] = [(1, None, [Entry(6, 3, b"x")])]
    with open_log(directory) as log:
        assert holds(log, built.model)
        assert files_of(directory)["0001.log"] == built.without_last
        log.write(following)
    expected = ModelLog()
    for turn in [*TURNS, following]:
        expected.write(turn)
    with open_log(directory) as log:
        assert holds(log, expected)


def opens_not(directory: Path, files: dict[str, bytes], *codes: ErrorCode) -> None:
    """Opening fails with one of the codes and leaves every file as it is."""
    put_files(directory, files)
    with pytest.raises(KeyLoadError) as caught:
        open_log(directory)
    assert caught.value.code in codes
    assert files_of(directory) == files


@pytest.mark.covers("STO-4")
def test_a_last_turn_cut_at_any_byte_is_cut_off_as_a_whole(built: Built, tmp_path: Path) -> None:
    for cut in range(built.start, built.end):
        content = built.full[:cut] + bytes(SEGMENT_BYTES - cut)
        reopens_without_last(built, tmp_path / "wal", content)


@pytest.mark.covers("STO-4")
def test_a_last_turn_wrong_at_any_byte_is_cut_off_as_a_whole(built: Built, tmp_path: Path) -> None:
    for place in range(built.start, built.end):
        content = bytearray(built.full)
        content[place] ^= 0xFF
        reopens_without_last(built, tmp_path / "wal", bytes(content))


@pytest.mark.covers("STO-4")
def test_a_last_turn_of_old_and_new_blocks_is_cut_off_as_a_whole(built: Built, tmp_path: Path) -> None:
    chance = random.Random(1)
    for block in (1, 8, 32):
        for _ in range(40):
            content = bytearray(built.full)
            for first in range(built.start, built.end, block):
                if chance.random() < 0.5:
                    end = min(first + block, built.end)
                    content[first:end] = built.without_last[first:end]
            if content != built.full:
                reopens_without_last(built, tmp_path / "wal", bytes(content))


@pytest.mark.covers("STO-4")
def test_a_log_that_is_whole_opens_with_its_last_turn(built: Built, tmp_path: Path) -> None:
    put_files(tmp_path / "wal", {"0001.log": built.full})
    with open_log(tmp_path / "wal") as log:
        assert holds(log, built.full_model)
    assert files_of(tmp_path / "wal") == {"0001.log": built.full}


@pytest.mark.covers("STO-3", "STO-4")
def test_a_wrong_byte_anywhere_before_the_last_turn_is_corruption(built: Built, tmp_path: Path) -> None:
    for place in range(built.start):
        content = bytearray(built.full)
        content[place] ^= 0x10
        code = ErrorCode.FORMAT_UNSUPPORTED if place < 10 else ErrorCode.CORRUPTION
        opens_not(tmp_path / "wal", {"0001.log": bytes(content)}, code)


@pytest.mark.covers("STO-4")
def test_turns_out_of_their_order_are_corruption(built: Built, tmp_path: Path) -> None:
    last = built.full[built.start : built.end]
    doubled = built.full[: built.end] + bytes(20) + last  # the payload of the last turn ends in 20 zeros
    opens_not(tmp_path / "wal", {"0001.log": doubled.ljust(SEGMENT_BYTES, b"\0")}, ErrorCode.CORRUPTION)
    without_first = built.full[:DATA_START] + last
    opens_not(tmp_path / "wal", {"0001.log": without_first.ljust(SEGMENT_BYTES, b"\0")}, ErrorCode.CORRUPTION)


@pytest.mark.covers("STO-4")
@pytest.mark.parametrize("length", [0, 5, DATA_START, SEGMENT_BYTES - 1, SEGMENT_BYTES + 1])
def test_a_segment_of_another_length_is_corruption(built: Built, tmp_path: Path, length: int) -> None:
    content = built.full[:length].ljust(length, b"\0")
    opens_not(tmp_path / "wal", {"0001.log": content}, ErrorCode.CORRUPTION)


@pytest.mark.covers("STO-3")
@pytest.mark.parametrize(("place", "value"), [(0, b"SOMEFILE"), (8, b"\x02\x00")])
def test_an_unknown_signature_or_version_is_refused(
    built: Built, tmp_path: Path, place: int, value: bytes
) -> None:
    content = built.full[:place] + value + built.full[place + len(value) :]
    opens_not(tmp_path / "wal", {"0001.log": content}, ErrorCode.FORMAT_UNSUPPORTED)


@pytest.mark.covers("STO-4")
@pytest.mark.parametrize(("worker", "incarnation"), [(1, INCARNATION), (0, INCARNATION[::-1])])
def test_the_log_of_another_worker_or_incarnation_is_refused(
    built: Built, tmp_path: Path, worker: int, incarnation: str
) -> None:
    put_files(tmp_path / "wal", {"0001.log": built.full})
    with pytest.raises(KeyLoadError, match="Corruption"):
        Wal(tmp_path / "wal", worker=worker, incarnation=incarnation)
    assert files_of(tmp_path / "wal") == {"0001.log": built.full}


@pytest.fixture
def three_segments(tmp_path: Path) -> dict[str, bytes]:
    with open_log(tmp_path / "built") as log:
        for index in range(1, 8):
            log.write([(1, HardState(1, 1, index - 1), [Entry(1, index, bytes([index]) * 1100)])])
    files = files_of(tmp_path / "built")
    assert sorted(files) == ["0001.log", "0002.log", "0003.log"]
    return files


@pytest.mark.covers("STO-4")
@pytest.mark.parametrize("names", [["0001.log"], ["0002.log"], ["0003.log"], ["0002.log", "0003.log"]])
def test_a_missing_segment_is_corruption(
    three_segments: dict[str, bytes], tmp_path: Path, names: list[str]
) -> None:
    left = {name: content for name, content in three_segments.items() if name not in names}
    opens_not(tmp_path / "wal", left, ErrorCode.CORRUPTION)


@pytest.mark.covers("STO-4")
def test_exchanged_segments_are_corruption(three_segments: dict[str, bytes], tmp_path: Path) -> None:
    files = dict(three_segments)
    files["0001.log"], files["0002.log"] = files["0002.log"], files["0001.log"]
    opens_not(tmp_path / "wal", files, ErrorCode.CORRUPTION)


@pytest.mark.covers("STO-4")
@pytest.mark.parametrize("name", ["0001.log", "0002.log"])
def test_a_wrong_byte_anywhere_in_an_earlier_segment_is_corruption(
    three_segments: dict[str, bytes], tmp_path: Path, name: str
) -> None:
    whole = three_segments[name]
    seal = len(whole.rstrip(b"\0"))
    places = {
        *range(10, DATA_START + 160),
        *range(DATA_START + 160, SEGMENT_BYTES, 29),
        *range(seal - 40, seal + 9),
    }
    for place in sorted(places):
        content = bytearray(whole)
        content[place] ^= 0x01
        opens_not(tmp_path / "wal", {**three_segments, name: bytes(content)}, ErrorCode.CORRUPTION)


@pytest.mark.covers("STO-4")
def test_a_torn_last_turn_in_a_later_segment_is_cut_off(
    three_segments: dict[str, bytes], tmp_path: Path
) -> None:
    content = three_segments["0003.log"]
    end = len(content.rstrip(b"\0"))
    for cut in range(HEAD_END, end, 97):
        put_files(tmp_path / "wal", {**three_segments, "0003.log": content[:cut].ljust(SEGMENT_BYTES, b"\0")})
        with open_log(tmp_path / "wal") as log:
            assert log.log(1).last_index == 6
            log.write([(1, None, [Entry(1, 7, b"again")])])
        with open_log(tmp_path / "wal") as log:
            assert log.log(1).entries(7, 8, 0) == [Entry(1, 7, b"again")]


class Stopped(Exception):
    """Ends a write at a step, as a kill would."""


def stop_at(number: int) -> Callable[[str], None]:
    steps: Iterator[int] = iter(range(1, 1000))

    def step(name: str) -> None:
        if next(steps) == number:
            raise Stopped(name)

    return step


@pytest.mark.covers("STO-4", "STO-8")
def test_a_stop_while_the_next_segment_is_begun_loses_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path / "built", stop_at(3))
    log.write([(1, None, [Entry(1, 1, bytes(3500))])])
    with pytest.raises(Stopped):
        log.write([(1, None, [Entry(1, 2, bytes(3500))])])
    log.close()
    files = files_of(tmp_path / "built")
    assert sorted(files) == ["0001.log", "0002.log"]
    sealed = files["0001.log"]
    end = len(sealed.rstrip(b"\0"))
    for cut in range(end - 31, end + 1):
        put_files(tmp_path / "wal", {**files, "0001.log": sealed[:cut].ljust(SEGMENT_BYTES, b"\0")})
        with open_log(tmp_path / "wal") as log:
            assert log.log(1).last_index == 1
            assert files_of(tmp_path / "wal") == files
            log.write([(1, None, [Entry(1, 2, bytes(3500))])])
        with open_log(tmp_path / "wal") as log:
            assert log.log(1).last_index == 2


@pytest.mark.covers("STO-4")
def test_what_is_left_of_a_turn_where_the_seal_belongs_is_corruption(tmp_path: Path) -> None:
    """The turn was synced before the next segment was begun: it is no torn write."""
    log = open_log(tmp_path / "built", stop_at(3))
    log.write([(1, None, [Entry(1, 1, bytes(3500))])])
    with pytest.raises(Stopped):
        log.write([(1, None, [Entry(1, 2, bytes(3500))])])
    log.close()
    files = files_of(tmp_path / "built")
    sealed = files["0001.log"]
    start = DATA_START + records.turn_bytes(1, 3500)
    mark = sealed[start : start + records.MARK_BYTES]
    for number, part in ((2, [records.hard_state_record(1, HardState(1, 1, 0))]), (1, []), (3, [])):
        buffers, _ = records.pack_turn(mark, number, part, start)
        content = (sealed[:start] + buffers[0]).ljust(SEGMENT_BYTES, b"\0")
        opens_not(tmp_path / "wal", {**files, "0001.log": content}, ErrorCode.CORRUPTION)
    without_turn = sealed[:DATA_START].ljust(SEGMENT_BYTES, b"\0")
    opens_not(tmp_path / "wal", {**files, "0001.log": without_turn}, ErrorCode.CORRUPTION)


@pytest.mark.covers("STO-4")
def test_an_unsealed_segment_is_corruption_once_the_next_one_is_written(
    three_segments: dict[str, bytes], tmp_path: Path
) -> None:
    content = three_segments["0002.log"]
    unsealed = content[: len(content.rstrip(b"\0")) - 32].ljust(SEGMENT_BYTES, b"\0")
    opens_not(tmp_path / "wal", {**three_segments, "0002.log": unsealed}, ErrorCode.CORRUPTION)
    first = three_segments["0001.log"]
    unsealed = first[: len(first.rstrip(b"\0")) - 32].ljust(SEGMENT_BYTES, b"\0")
    opens_not(tmp_path / "wal", {**three_segments, "0001.log": unsealed}, ErrorCode.CORRUPTION)


@pytest.mark.covers("STO-8")
def test_a_segment_that_was_never_named_is_no_part_of_the_log(built: Built, tmp_path: Path) -> None:
    put_files(tmp_path / "wal", {"0001.log": built.full, "fresh": b"half a segment"})
    with open_log(tmp_path / "wal") as log:
        assert holds(log, built.full_model)
        log.write([(3, None, [Entry(9, n, bytes(1000)) for n in range(1, 6)])])
    assert sorted(files_of(tmp_path / "wal")) == ["0001.log", "0002.log"]


@pytest.mark.covers("STO-4", "STO-11")
def test_an_entry_that_changed_under_an_open_log_is_corruption_when_read(tmp_path: Path) -> None:
    with open_log(tmp_path / "wal", cache_bytes=0) as log:
        log.write([(1, None, [Entry(1, 1, b"payload"), Entry(1, 2, b"other")])])
        path = tmp_path / "wal" / "0001.log"
        place = path.read_bytes().index(b"payload")
        with path.open("r+b") as file:
            os.pwrite(file.fileno(), b"P", place)
        with pytest.raises(KeyLoadError, match="Corruption"):
            log.log(1).entries(1, 2, 0)
        assert log.log(1).entries(2, 3, 0) == [Entry(1, 2, b"other")]
