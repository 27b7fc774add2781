"""Writing and reading the log."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from keyload.consensus.log import LogStorage, RaftLog
from keyload.consensus.membership import Membership
from keyload.consensus.messages import Entry, HardState
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import ShardWrite, Wal, segments, wal
from keyload.storage.shard_log import PayloadCache, ShardLog
from tests.unit.storage.log_model import SEGMENT_BYTES, ModelLog, files_of, open_log, settle
from tests.unit.storage.support import INCARNATION


@pytest.mark.covers("STO-8", "STO-10")
def test_a_turn_of_all_shards_is_one_write_and_one_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    log = open_log(tmp_path / "wal", steps.append, segment_bytes=1 << 20)
    write, sync = os.pwritev, os.fdatasync

    def counted_write(*arguments: object) -> int:
        steps.append("write")
        return write(*arguments)  # type: ignore[arg-type]

    def counted_sync(descriptor: int) -> None:
        steps.append("sync")
        sync(descriptor)

    monkeypatch.setattr(os, "pwritev", counted_write)
    monkeypatch.setattr(os, "fdatasync", counted_sync)
    log.write(
        [(shard, HardState(1, 1, 0), [Entry(1, n, b"x" * n) for n in range(1, 200)]) for shard in range(5)]
    )
    assert steps == ["write", "LogWritten", "sync", "LogSynced"]
    log.write([])
    log.write([(1, None, [])])
    assert len(steps) == 4
    log.close()


@pytest.mark.covers("STO-8")
def test_a_new_segment_is_durable_with_its_directory_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path / "wal")
    log.write([(1, None, [Entry(1, 1, bytes(3000))])])
    settle(log)
    calls: list[tuple[str, str]] = []

    def watched(name: str, function):  # type: ignore[no-untyped-def]
        def call(descriptor: int, *rest: object) -> object:
            if threading.current_thread() is threading.main_thread():
                calls.append((name, Path(f"/proc/self/fd/{descriptor}").readlink().name))
            return function(descriptor, *rest)

        return call

    for name in ("pwritev", "fdatasync", "fsync"):
        monkeypatch.setattr(os, name, watched(name, getattr(os, name)))
    log.write([(1, None, [Entry(1, 2, bytes(3000))])])
    assert calls == [
        ("pwritev", "fresh"),
        ("fdatasync", "fresh"),
        ("fsync", "wal"),
        ("pwritev", "0001.log"),
        ("fdatasync", "0001.log"),
        ("pwritev", "0002.log"),
        ("fdatasync", "0002.log"),
    ]
    log.close()


@pytest.mark.covers("STO-11")
@pytest.mark.parametrize("failing", ["write", "sync"])
def test_after_a_failed_write_or_sync_nothing_more_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    log = open_log(tmp_path / "wal")
    log.write([(1, HardState(1, 1, 0), [Entry(1, 1, b"kept")])])
    calls: list[int] = []

    def fail(descriptor: int, *_: object) -> int:
        calls.append(descriptor)
        raise OSError(errno.EIO, "no disk")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev" if failing == "write" else "fdatasync", fail)
        with pytest.raises(KeyLoadError) as caught:
            log.write([(1, None, [Entry(1, 2, b"lost")])])
        assert caught.value.code == ErrorCode.RECOVERY_REQUIRED
    assert len(calls) == 1
    size = files_of(tmp_path / "wal")
    with pytest.raises(KeyLoadError, match="RecoveryRequired"):
        log.write([(1, None, [Entry(1, 2, b"again")])])
    assert files_of(tmp_path / "wal") == size
    assert log.log(1).last_index == 1
    log.close()
    with open_log(tmp_path / "wal") as again:
        assert again.log(1).entries(1, 2, 0) == [Entry(1, 1, b"kept")]
        again.write([(1, None, [Entry(1, 2, b"now")])])
    with open_log(tmp_path / "wal") as again:
        assert again.log(1).entries(2, 3, 0) == [Entry(1, 2, b"now")]


@pytest.mark.covers("STO-11")
def test_a_write_cut_short_is_a_failed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path / "wal")
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "pwritev", lambda descriptor, buffers, start: os.pwrite(descriptor, buffers[0], start)
        )
        with pytest.raises(KeyLoadError, match="RecoveryRequired"):
            log.write([(1, None, [Entry(1, 1, b"data")])])
    with pytest.raises(KeyLoadError, match="RecoveryRequired"):
        log.write([(1, None, [Entry(1, 1, b"data")])])
    log.close()
    with open_log(tmp_path / "wal") as again:
        assert again.log(1).last_index == 0


@pytest.mark.covers("STO-11")
def test_a_closed_log_refuses_writes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "wal")
    log.close()
    log.close()
    with pytest.raises(KeyLoadError, match="RecoveryRequired"):
        log.write([(1, None, [Entry(1, 1, b"data")])])


@pytest.mark.covers("STO-11")
def test_a_disk_without_room_for_the_next_segment_leaves_the_log_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path / "wal")

    def no_room(*_: int) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", no_room)
        log.write([(1, None, [Entry(1, 1, bytes(3000))])])
        settle(log)
        before = files_of(tmp_path / "wal")
        for _ in range(2):
            with pytest.raises(KeyLoadError) as caught:
                log.write([(1, None, [Entry(1, 2, bytes(3000))])])
            assert caught.value.code == ErrorCode.RESOURCE_EXHAUSTED
    assert files_of(tmp_path / "wal") == before
    log.write([(1, None, [Entry(1, 2, bytes(3000))])])
    log.close()
    with open_log(tmp_path / "wal") as again:
        assert again.log(1).last_index == 2


def test_a_turn_larger_than_a_segment_is_written_in_parts(tmp_path: Path) -> None:
    steps: list[str] = []
    model = ModelLog()
    turn: list[ShardWrite] = [(1, HardState(1, 1, 0), [Entry(1, n, bytes(1000)) for n in range(1, 21)])]
    with open_log(tmp_path / "wal", steps.append) as log:
        log.write(turn)
        model.write(turn)
        model.compare(log)
    assert steps.count("LogSynced") > 5
    assert len(files_of(tmp_path / "wal")) == 7
    with open_log(tmp_path / "wal") as log:
        model.compare(log)


def test_a_turn_needs_no_more_memory_than_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal, "MAXIMUM_TURN_BYTES", 10_000)
    written: list[int] = []
    write = os.pwritev

    def watched(descriptor: int, buffers: list[bytes], start: int) -> int:
        written.append(sum(map(len, buffers)))
        return write(descriptor, buffers, start)

    monkeypatch.setattr(os, "pwritev", watched)
    with open_log(tmp_path / "wal", segment_bytes=1 << 20) as log:
        written.clear()
        log.write([(1, None, [Entry(1, n, bytes(999)) for n in range(1, 101)])])
    assert max(written) <= 10_000
    assert sum(written) > 100_000


def test_an_entry_larger_than_the_largest_segment_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "MAXIMUM_SEGMENT_BYTES", 4 * SEGMENT_BYTES)
    with open_log(tmp_path / "wal") as log:
        before = files_of(tmp_path / "wal")
        with pytest.raises(KeyLoadError) as caught:
            log.write([(1, HardState(1, 1, 0), [Entry(1, 1, b""), Entry(1, 2, bytes(4 * SEGMENT_BYTES))])])
        assert caught.value.code == ErrorCode.RESOURCE_EXHAUSTED
        assert files_of(tmp_path / "wal") == before
        assert log.log(1).hard_state == HardState()


@pytest.mark.parametrize("shards", [1, 3, 20])
@pytest.mark.parametrize("times", [1, 4])
def test_the_largest_entry_is_what_a_new_segment_has_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int, times: int
) -> None:
    """Beside it: header, base and hard state of each shard, a turn of bases, and the seal."""
    monkeypatch.setattr(segments, "MAXIMUM_SEGMENT_BYTES", times * SEGMENT_BYTES)
    beside = 128 + (32 + shards * (2 * 28 + 16 + 9)) + (32 + 28) + (32 + shards * 44) + 32
    largest = times * SEGMENT_BYTES - beside
    with open_log(tmp_path / "wal") as log:
        for shard in range(shards):
            log.log(shard)
        for index in (1, 2, 3):
            log.write([(0, None, [Entry(1, index, b"x" * largest)])])
        with pytest.raises(KeyLoadError) as caught:
            log.write([(0, None, [Entry(1, 4, b"x" * (largest + 1))])])
        assert caught.value.code == ErrorCode.RESOURCE_EXHAUSTED
        with pytest.raises(KeyLoadError, match="ResourceExhausted"):
            log.write([(0, None, [Entry(1, 4, b"x" * largest)]), (shards, HardState(), [])])
        log.write([(0, None, [Entry(1, 4, b"y" * (largest - 81 - 44))])])
    with open_log(tmp_path / "wal") as log:
        assert log.log(0).last_index == 4
        assert log.log(0).entries(1, 5, 1 << 30)[2].data == b"x" * largest


def test_an_entry_larger_than_a_segment_gets_one_of_its_size_and_the_next_is_an_ordinary_one(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "wal"
    written = [Entry(1, 1, b"a"), Entry(1, 2, b"b" * 20_000), Entry(1, 3, b"c" * 3_000), Entry(1, 4, b"d")]
    with open_log(directory) as log:
        for entry in written:
            log.write([(1, None, [entry])])
            settle(log)
    sizes = [path.stat().st_size for path in sorted(directory.glob("*.log"))]
    assert sizes == [SEGMENT_BYTES, sizes[1], SEGMENT_BYTES]
    assert 20_000 < sizes[1] < 21_000
    with open_log(directory) as log:
        assert log.log(1).entries(1, 5, 1 << 30) == written
        assert log.trim({1: 4}) == SEGMENT_BYTES + sizes[1]


@pytest.mark.covers("STO-4")
@pytest.mark.parametrize(
    "entries",
    [
        [Entry(2, 3, b"")],
        [Entry(2, 0, b"")],
        [Entry(1, 2, b"")],
        [Entry(2, 2, b""), Entry(2, 4, b"")],
        [Entry(3, 2, b""), Entry(2, 3, b"")],
    ],
)
def test_entries_that_do_not_follow_are_refused(tmp_path: Path, entries: list[Entry]) -> None:
    with open_log(tmp_path / "wal") as log:
        log.write([(1, None, [Entry(2, 1, b"first")])])
        before = files_of(tmp_path / "wal")
        with pytest.raises(KeyLoadError, match="Corruption"):
            log.write([(1, None, entries)])
        assert files_of(tmp_path / "wal") == before


def test_a_shard_log_is_the_storage_of_consensus(tmp_path: Path) -> None:
    with open_log(tmp_path / "wal") as log:
        log.write([(1, HardState(2, 1, 0), [Entry(1, 1, b"a"), Entry(2, 2, b"b")])])
        storage: LogStorage = log.log(1)
        seen = RaftLog(storage, 5, 1, Membership((1, 2, 3)))
        assert (seen.last, seen.last_term, seen.commit, seen.term(1)) == (2, 2, 2, 1)


def test_terms_and_entries_outside_the_log_are_refused(tmp_path: Path) -> None:
    with open_log(tmp_path / "wal") as log:
        log.write([(1, None, [Entry(2, 1, b"first")])])
        for index in (-1, 2):
            with pytest.raises(IndexError):
                log.log(1).term(index)
        with pytest.raises(IndexError):
            log.log(1).entries(0, 1, 10)
        for shard in (-1, 65_536):
            with pytest.raises(ValueError, match="shard"):
                log.log(shard)


@pytest.mark.covers("STO-15")
def test_the_cache_keeps_the_newest_payloads_within_its_bounds() -> None:
    cache = PayloadCache(10_000)
    for index in range(1000):
        cache.add(1, index, bytes(800))
    assert [index for index in range(1000) if cache.get(1, index) is not None] == list(range(990, 1000))
    cache.add(1, 999, bytes(20_000))
    assert all(cache.get(1, index) is None for index in range(1000))
    few = PayloadCache(10_000, 3)
    for shard in (1, 2):
        for index in range(4):
            few.add(shard, index, b"%d" % index)
    assert [few.get(1, index) for index in range(4)] == [None] * 4, "all shards share the bounds"
    assert [few.get(2, index) for index in range(4)] == [None, b"1", b"2", b"3"]
    few.add(2, 2, b"other")
    assert few.get(2, 2) == b"other"


def test_an_entry_costs_24_bytes_of_memory() -> None:
    log = ShardLog(1, PayloadCache(0), lambda place, length: b"")
    for index in range(1, 1001):
        log.put(index, 1, 0, 0, 0)
    columns = [getattr(log, name) for name in ("_places", "_terms", "_lengths", "_checksums")]
    assert sum(column.itemsize for column in columns) == 24


@pytest.mark.covers("STO-2")
def test_the_files_of_the_log_are_private_and_no_links(tmp_path: Path) -> None:
    open_log(tmp_path / "wal").close()
    assert stat.S_IMODE((tmp_path / "wal").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "wal" / "0001.log").stat().st_mode) == 0o600
    (tmp_path / "wal" / "0001.log").rename(tmp_path / "elsewhere")
    (tmp_path / "wal" / "0001.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyLoadError, match="Corruption"):
        open_log(tmp_path / "wal")


@pytest.mark.covers("STO-2")
def test_the_directory_of_the_log_is_private_and_no_link(tmp_path: Path) -> None:
    open_log(tmp_path / "wal").close()
    (tmp_path / "wal").chmod(0o755)
    open_log(tmp_path / "wal").close()
    assert stat.S_IMODE((tmp_path / "wal").stat().st_mode) == 0o700
    (tmp_path / "link").symlink_to(tmp_path / "wal")
    with pytest.raises(KeyLoadError, match="Corruption"):
        open_log(tmp_path / "link")


def test_segments_of_other_sizes_are_read_and_the_next_one_has_the_present_size(tmp_path: Path) -> None:
    model = ModelLog()
    for number, size in enumerate((4096, 16_384, 8192)):
        with open_log(tmp_path / "wal", segment_bytes=size) as log:
            turn: list[ShardWrite] = [(1, None, [Entry(1, 2 * number + n, bytes(3500)) for n in (1, 2)])]
            log.write(turn)
            model.write(turn)
            model.compare(log)
    with pytest.raises(ValueError, match="segment_bytes"):
        Wal(tmp_path / "other", worker=0, incarnation=INCARNATION, segment_bytes=100)
