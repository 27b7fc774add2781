"""Logs that begin behind an entry: trimmed, or based on a snapshot (STO-17)."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from keyload.consensus.messages import Entry, HardState
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import Wal
from tests.unit.storage.log_model import SEGMENT_BYTES, files_of, open_log, put_files, settle
from tests.unit.storage.support import INCARNATION


def filled(directory: Path, last: int = 8, size: int = 1500) -> Wal:
    """A log with two entries of shard 1 in each segment, and a vote of shard 2 in the first."""
    log = open_log(directory)
    log.write([(2, HardState(7, 3, 0, joined=True), [])])
    for index in range(1, last + 1):
        log.write([(1, None, [Entry(1, index, bytes([index]) * size, membership=index == 5)])])
    return log


def refuses_everything(log: Wal) -> None:
    for act in (
        lambda: log.write([(1, HardState(), [])]),
        lambda: log.rebase(1, 100, 9),
        lambda: log.trim({1: 5}),
    ):
        with pytest.raises(KeyLoadError) as caught:
            act()
        assert caught.value.code == ErrorCode.RECOVERY_REQUIRED


def refusal(log: Wal) -> ErrorCode | None:
    """Write the smallest entry; what it was refused for."""
    try:
        log.write([(1, None, [Entry(1, log.log(1).last_index + 1, b"")])])
    except KeyLoadError as error:
        return error.code
    return None


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.log"))


@pytest.mark.covers("STO-17")
def test_trimming_drops_the_segments_in_which_nobody_needs_an_entry(tmp_path: Path) -> None:
    log = filled(tmp_path / "wal")
    assert names(tmp_path / "wal") == ["0001.log", "0002.log", "0003.log", "0004.log"]
    assert log.bytes == 4 * SEGMENT_BYTES
    assert log.trim({}) == 0
    assert log.trim({1: 2}) == 0
    assert log.trim({2: 100}) == 0
    assert log.trim({1: 3}) == SEGMENT_BYTES
    assert (log.log(1).first_index, log.log(1).last_index) == (3, 8)
    assert log.trim({1: 6}) == SEGMENT_BYTES
    settle(log)
    assert log.trim({1: 100}) == SEGMENT_BYTES
    settle(log)
    assert names(tmp_path / "wal") == ["0004.log"]
    assert log.bytes == SEGMENT_BYTES
    shard = log.log(1)
    assert (shard.first_index, shard.last_index, shard.term(6)) == (7, 8, 1)
    with pytest.raises(IndexError):
        shard.term(5)
    with pytest.raises(IndexError):
        shard.entries(6, 8, 10)
    assert shard.memberships(0) == []
    log.close()
    with open_log(tmp_path / "wal") as log:
        shard = log.log(1)
        assert (shard.first_index, shard.term(6)) == (7, 1)
        assert [entry.data[0] for entry in shard.entries(7, 9, 1 << 20)] == [7, 8]


@pytest.mark.covers("STO-17", "CLU-7")
def test_a_hard_state_outlives_the_segment_it_was_written_in(tmp_path: Path) -> None:
    with filled(tmp_path / "wal") as log:
        log.trim({1: 9})
    assert names(tmp_path / "wal") == ["0004.log"]
    with open_log(tmp_path / "wal") as log:
        assert log.log(2).hard_state == HardState(7, 3, 0, joined=True)
        assert log.log(1).hard_state == HardState()


@pytest.mark.covers("STO-17")
def test_a_shard_whose_entries_are_all_dropped_goes_on_behind_them(tmp_path: Path) -> None:
    with open_log(tmp_path / "wal") as log:
        log.write([(2, None, [Entry(3, 1, b"old"), Entry(4, 2, b"old")])])
        for index in range(1, 4):
            log.write([(1, None, [Entry(1, index, bytes(1500))])])
        log.trim({1: 3, 2: 3})
        assert (log.log(2).first_index, log.log(2).last_index, log.log(2).term(2)) == (3, 2, 4)
        for term, index in ((3, 3), (4, 2), (4, 4)):
            with pytest.raises(KeyLoadError, match="Corruption"):
                log.write([(2, None, [Entry(term, index, b"")])])
    with open_log(tmp_path / "wal") as log:
        assert (log.log(2).first_index, log.log(2).last_index, log.log(2).term(2)) == (3, 2, 4)
        log.write([(2, None, [Entry(4, 3, b"new")])])
    with open_log(tmp_path / "wal") as log:
        assert log.log(2).entries(3, 4, 0) == [Entry(4, 3, b"new")]


@pytest.mark.covers("STO-17")
def test_entries_replaced_by_others_hold_no_segment(tmp_path: Path) -> None:
    with open_log(tmp_path / "wal") as log:
        log.write([(1, None, [Entry(1, 1, b"first")])])
        for index in range(2, 6):
            log.write([(1, None, [Entry(1, index, bytes(1500))])])
        log.write([(1, None, [Entry(2, 2, b"other" * 300), Entry(2, 3, b"other" * 100)])])
        assert log.trim({1: 2}) == 2 * SEGMENT_BYTES
    assert names(tmp_path / "wal") == ["0003.log"]
    with open_log(tmp_path / "wal") as log:
        shard = log.log(1)
        assert (shard.first_index, shard.last_index, shard.term(1)) == (2, 3, 1)
        assert shard.entries(2, 3, 0) == [Entry(2, 2, b"other" * 300)]


@pytest.mark.covers("STO-17")
def test_the_cache_forgets_what_was_dropped(tmp_path: Path) -> None:
    with filled(tmp_path / "wal") as log:
        log.trim({1: 7})
        assert [index for index in range(1, 9) if log._cache.get(1, index) is not None] == [7, 8]
        assert log._cache._bytes == 2 * (1500 + 200)
        log.rebase(1, 20, 3)
        assert log._cache._bytes == 0
        log.write([(1, None, [Entry(3, 21, b"x")])])
        assert log.log(1).entries(21, 22, 0) == [Entry(3, 21, b"x")]


@pytest.mark.covers("STO-17")
def test_files_of_dropped_segments_are_closed(tmp_path: Path) -> None:
    with filled(tmp_path / "wal") as log:
        log._cache.discard_shard(1)
        log.log(1).entries(1, 9, 1 << 20)
        log.trim({1: 9})
        settle(log)
        open_files = [path.resolve() for path in Path("/proc/self/fd").iterdir()]
        assert not [path for path in open_files if path.is_relative_to(tmp_path) and "deleted" in path.name]


@pytest.mark.covers("STO-17")
def test_trimming_syncs_the_bases_before_anything_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path / "wal")
    settle(log)
    calls: list[str] = []

    def watched(name: str, function: Callable[..., object]) -> Callable[..., object]:
        def call(target: object, *rest: object, **options: object) -> object:
            path = target if isinstance(target, Path) else Path(f"/proc/self/fd/{target}").readlink()
            calls.append(f"{name} {path.name}")
            return function(target, *rest, **options)

        return call

    for name in ("pwritev", "fdatasync", "fsync"):
        monkeypatch.setattr(os, name, watched(name, getattr(os, name)))
    monkeypatch.setattr(Path, "unlink", watched("unlink", Path.unlink))
    log.trim({1: 5})
    settle(log)
    assert calls[:2] == ["pwritev 0004.log", "fdatasync 0004.log"]
    assert calls[2:] == ["unlink 0001.log", "unlink 0002.log", "fsync wal"]
    calls.clear()
    log.trim({1: 5})
    assert calls == []
    monkeypatch.undo()
    log.close()


@pytest.mark.covers("STO-12", "STO-17")
def test_trimming_needs_no_room_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: int) -> None:
        raise OSError(errno.ENOSPC, "no room")

    log = filled(tmp_path / "wal", last=3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", no_room)
        refusals = (refusal(log) for _ in range(SEGMENT_BYTES))
        assert next(filter(None, refusals)) == ErrorCode.RESOURCE_EXHAUSTED
        with pytest.raises(KeyLoadError, match="ResourceExhausted"):
            log.rebase(1, log.log(1).last_index, 1)
        last = log.log(1).last_index
        assert log.trim({1: last + 1}) == SEGMENT_BYTES
        assert log.log(1).first_index == 3
    log.write([(1, None, [Entry(1, last + 1, b"x")])])
    log.close()
    with open_log(tmp_path / "wal") as log:
        assert (log.log(1).first_index, log.log(1).last_index) == (3, last + 1)
    assert names(tmp_path / "wal") == ["0002.log", "0003.log"]


@pytest.mark.covers("STO-17")
def test_a_segment_that_could_not_be_removed_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path / "wal")
    settle(log)

    def fail(*_: object, **_options: object) -> None:
        raise OSError(errno.EIO, "no disk")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", fail)
        assert log.trim({1: 5}) == 2 * SEGMENT_BYTES
        settle(log)
        assert names(tmp_path / "wal") == ["0001.log", "0002.log", "0003.log", "0004.log"]
        assert log.bytes == 2 * SEGMENT_BYTES
    assert log.trim({1: 5}) == 0
    settle(log)
    assert names(tmp_path / "wal") == ["0003.log", "0004.log"]
    log.write([(1, None, [Entry(1, 9, b"next")])])
    log.close()


@pytest.mark.covers("STO-17")
def test_a_process_without_threads_left_removes_segments_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with filled(tmp_path / "wal") as log:
        settle(log)
        with monkeypatch.context() as patch:
            patch.setattr(Thread, "start", none_left)
            assert log.trim({1: 5}) == 2 * SEGMENT_BYTES
        assert log.trim({1: 7}) == SEGMENT_BYTES
        settle(log)
        assert names(tmp_path / "wal") == ["0004.log"]


@pytest.mark.covers("STO-4", "STO-17")
@pytest.mark.parametrize("left", [[1, 2], [2], [1], []])
def test_whatever_a_stop_left_of_dropped_segments_is_no_matter(tmp_path: Path, left: list[int]) -> None:
    log = filled(tmp_path / "wal")
    before = files_of(tmp_path / "wal")
    log.trim({1: 5})
    log.close()
    for number in left:
        (tmp_path / "wal" / f"{number:04d}.log").write_bytes(before[f"{number:04d}.log"])
    with open_log(tmp_path / "wal") as log:
        assert (log.log(1).first_index, log.log(1).last_index) == (5, 8)
        settle(log)
        assert len(names(tmp_path / "wal")) == 2 + len([n for n in left if n == 2 or 2 in left])
        assert log.trim({}) == SEGMENT_BYTES * len([n for n in left if n == 2 or 2 in left])
        settle(log)
        assert names(tmp_path / "wal") == ["0003.log", "0004.log"]
        assert log.bytes == 2 * SEGMENT_BYTES


@pytest.mark.covers("STO-17")
def test_how_much_of_the_log_a_follower_needs(tmp_path: Path) -> None:
    with filled(tmp_path / "wal", last=3) as log:
        shard = log.log(1)
        ends = [shard.bytes_from(index) for index in (0, 1, 2, 3, 4, 100)]
        end = log._files.end
        first = 128 + (32 + 28 + 9) + (32 + 28)
        second = 128 + (32 + 4 * 28 + 2 * 25) + (32 + 28)
        assert ends == [
            SEGMENT_BYTES - first + end,
            SEGMENT_BYTES - first + end,
            SEGMENT_BYTES - (first + 1500 + 32 + 28) + end,
            end - second,
            0,
            0,
        ]
        assert log.log(5).bytes_from(1) == 0
        log.write([(5, None, [Entry(1, 1, b"")])])
        assert log.log(5).bytes_from(1) == 0
        log.write([(1, None, [Entry(1, 4, bytes(100))])])
        assert log.log(5).bytes_from(1) == 32 + 28 + 100


@pytest.mark.covers("STO-17")
def test_memory_falls_with_the_log(tmp_path: Path) -> None:
    with open_log(tmp_path / "wal", segment_bytes=1 << 16, cache_bytes=0) as log:
        for first in range(1, 20_001, 400):
            log.write([(1, None, [Entry(1, first + n, b"x") for n in range(400)])])
        shard = log.log(1)
        columns = ("_places", "_terms", "_lengths", "_checksums")
        before = sum(getattr(shard, name).__sizeof__() for name in columns)
        log.trim({1: 20_000})
        after = sum(getattr(shard, name).__sizeof__() for name in columns)
        assert before > 20_000 * 24 > 8 * after


def test_a_new_base_ahead_of_the_log_drops_all_of_it(tmp_path: Path) -> None:
    with filled(tmp_path / "wal") as log:
        log.rebase(1, 9, 2)
        shard = log.log(1)
        assert (shard.first_index, shard.last_index, shard.term(9)) == (10, 9, 2)
        log.write([(1, None, [Entry(2, 10, b"next")])])
        assert log.trim({}) == 3 * SEGMENT_BYTES
    with open_log(tmp_path / "wal") as log:
        shard = log.log(1)
        assert (shard.first_index, shard.last_index, shard.term(9)) == (10, 10, 2)
        assert shard.entries(10, 11, 0) == [Entry(2, 10, b"next")]


@pytest.mark.parametrize(("term", "last"), [(1, 8), (2, 4)])
def test_a_new_base_inside_the_log_keeps_what_follows_only_when_the_log_has_it(
    tmp_path: Path, term: int, last: int
) -> None:
    with filled(tmp_path / "wal") as log:
        log.rebase(1, 4, term)
        assert (log.log(1).first_index, log.log(1).last_index, log.log(1).term(4)) == (5, last, term)
    with open_log(tmp_path / "wal") as log:
        assert (log.log(1).first_index, log.log(1).last_index, log.log(1).term(4)) == (5, last, term)
        assert [entry.index for entry in log.log(1).memberships(4)] == ([5] if last == 8 else [])


def test_a_base_never_goes_back(tmp_path: Path) -> None:
    with filled(tmp_path / "wal") as log:
        log.rebase(1, 4, 1)
        before = files_of(tmp_path / "wal")
        log.rebase(1, 4, 1)
        for index, term in ((4, 2), (3, 1), (0, 0)):
            with pytest.raises(KeyLoadError, match="Corruption"):
                log.rebase(1, index, term)
        log.rebase(9, 0, 0)
        settle(log)
        assert files_of(tmp_path / "wal")["0004.log"] == before["0004.log"]


def test_a_base_is_durable_on_return(tmp_path: Path) -> None:
    steps: list[str] = []
    with open_log(tmp_path / "wal", steps.append) as log:
        log.rebase(1, 100, 7)
        assert steps == ["LogWritten", "LogSynced"]
        put_back = files_of(tmp_path / "wal")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "0001.log").write_bytes(put_back["0001.log"])
    with open_log(tmp_path / "other") as log:
        assert (log.log(1).first_index, log.log(1).last_index, log.log(1).term(100)) == (101, 100, 7)


def test_memberships_are_found_behind_an_index(tmp_path: Path) -> None:
    entries = [Entry(1, n, b"%d" % n, membership=n in (2, 3, 7)) for n in range(1, 9)]
    log = open_log(tmp_path / "wal", cache_bytes=0)
    log.write([(1, None, entries)])
    for _ in range(2):
        shard = log.log(1)
        assert shard.entries(1, 9, 1 << 20) == entries
        assert shard.memberships(0) == [entries[1], entries[2], entries[6]]
        assert shard.memberships(2) == [entries[2], entries[6]]
        assert shard.memberships(7) == []
        log.close()
        log = open_log(tmp_path / "wal", cache_bytes=0)
    log.write([(1, None, [Entry(2, 3, b"plain")])])
    assert log.log(1).memberships(0) == [entries[1]]
    log.close()


@pytest.mark.covers("STO-4")
def test_before_it_is_told_to_begin_the_log_changes_and_writes_nothing(tmp_path: Path) -> None:
    filled(tmp_path / "built").close()
    files = files_of(tmp_path / "built")
    torn = files["0004.log"].rstrip(b"\0")[:-5].ljust(SEGMENT_BYTES, b"\0")
    files = {**files, "0004.log": torn, "fresh": b"left over"}
    directory = tmp_path / "built"
    put_files(directory, files)
    wal = Wal(directory, worker=0, incarnation=INCARNATION, segment_bytes=SEGMENT_BYTES)
    assert wal.log(1).last_index == 7
    refuses_everything(wal)
    wal.close()
    assert files_of(directory) == files
    Wal(tmp_path / "none", worker=0, incarnation=INCARNATION).close()
    assert not (tmp_path / "none").exists()
