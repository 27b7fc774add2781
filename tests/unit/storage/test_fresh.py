"""The next segment, made ahead in a thread."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest

from keyload.consensus.messages import Entry
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import ShardWrite, fresh
from keyload.storage.fresh import FreshFile, allocate, path_in
from tests.unit.storage.log_model import open_log, settle

MIB = 1 << 20


def in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def failing(code: int, *, when: Callable[[], bool]) -> Callable[..., None]:
    """A `posix_fallocate` that fails."""
    real = os.posix_fallocate

    def call(*arguments: int) -> None:
        if when():
            raise OSError(code, "no disk")
        real(*arguments)

    return call


def turn(index: int, size: int = 3000) -> list[ShardWrite]:
    return [(1, None, [Entry(1, index, bytes(size))])]


@pytest.mark.covers("STO-12")
def test_a_segment_that_is_prepared_costs_the_loop_no_allocation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path / "wal")
    monkeypatch.setattr(os, "posix_fallocate", failing(errno.EIO, when=in_main_thread))
    for index in range(1, 6):
        log.write(turn(index))
        settle(log)
        assert path_in(tmp_path / "wal").stat().st_size == 4096
    log.close()
    assert not path_in(tmp_path / "wal").exists()
    assert len(list((tmp_path / "wal").iterdir())) == 5


def test_nothing_is_prepared_before_half_of_a_segment_is_used(tmp_path: Path) -> None:
    with open_log(tmp_path / "wal") as log:
        log.write(turn(1, size=2048 - 128 - 32 - 28))
        assert log._files.end == 2048
        assert log._fresh._thread is None
        log.write(turn(2, size=0))
        assert log._fresh._thread is not None


@pytest.mark.covers("STO-12")
def test_a_disk_that_was_full_for_a_while_only_is_no_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_log(tmp_path / "wal") as log:
        with monkeypatch.context() as patch:
            patch.setattr(os, "posix_fallocate", failing(errno.ENOSPC, when=lambda: True))
            log.write(turn(1))
            settle(log)
        assert not path_in(tmp_path / "wal").exists()
        log.write(turn(2))
    with open_log(tmp_path / "wal") as log:
        assert log.log(1).last_index == 2


@pytest.mark.covers("STO-11", "STO-12")
@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (errno.ENOSPC, ErrorCode.RESOURCE_EXHAUSTED),
        (errno.EDQUOT, ErrorCode.RESOURCE_EXHAUSTED),
        (errno.EIO, ErrorCode.RECOVERY_REQUIRED),
    ],
)
def test_a_failure_in_the_thread_is_met_when_the_segment_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, outcome: ErrorCode
) -> None:
    log = open_log(tmp_path / "wal")
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", failing(code, when=lambda: True))
        log.write(turn(1))
        settle(log)
        for _ in range(2):
            with pytest.raises(KeyLoadError) as caught:
                log.write(turn(2))
            assert caught.value.code == outcome
    if outcome == ErrorCode.RESOURCE_EXHAUSTED:
        log.write(turn(2))
    log.close()
    with open_log(tmp_path / "wal") as log:
        assert log.log(1).last_index == (2 if outcome == ErrorCode.RESOURCE_EXHAUSTED else 1)


@pytest.mark.covers("STO-12")
@pytest.mark.parametrize("failing_call", ["open", "pwritev"])
def test_a_disk_that_fills_up_at_any_call_leaves_the_log_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing_call: str
) -> None:
    log = open_log(tmp_path / "wal")
    log.write(turn(1))
    settle(log)
    if failing_call == "open":
        log._fresh.close()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patch:
        patch.setattr(os, failing_call, full)
        with pytest.raises(KeyLoadError) as caught:
            log.write(turn(2))
        assert caught.value.code == ErrorCode.RESOURCE_EXHAUSTED
    assert [path.name for path in (tmp_path / "wal").iterdir()] == ["0001.log"]
    log.write(turn(2))
    log.close()
    with open_log(tmp_path / "wal") as log:
        assert log.log(1).last_index == 2


def test_a_segment_needed_before_it_is_done_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, go_on = Event(), Event()
    written: list[int] = []
    real = os.pwrite

    def slow(descriptor: int, content: bytes, place: int) -> int:
        writing.set()
        go_on.wait()
        written.append(place)
        return real(descriptor, content, place)

    monkeypatch.setattr(os, "pwrite", slow)
    file = FreshFile(tmp_path, 8 * MIB + 5)
    file.prepare()
    file.prepare()
    writing.wait()
    file._needed.set()
    go_on.set()
    descriptor = file.take(8 * MIB + 5)
    assert written == [0]
    assert os.fstat(descriptor).st_size == 8 * MIB + 5
    assert os.pread(descriptor, 9 * MIB, 0) == bytes(8 * MIB + 5)
    os.close(descriptor)
    file.close()
    file.close()


def test_all_of_a_file_is_filled_when_there_is_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    write, sync = os.pwrite, os.fsync

    def watched_write(descriptor: int, content: bytes, place: int) -> int:
        calls.append((place, len(content)))
        return write(descriptor, content, place)

    def watched_sync(descriptor: int) -> None:
        calls.append("sync")
        sync(descriptor)

    monkeypatch.setattr(os, "pwrite", watched_write)
    monkeypatch.setattr(os, "fsync", watched_sync)
    os.close(allocate(tmp_path, 2 * MIB + 5, Event()))
    assert calls == [(0, MIB), (MIB, MIB), (2 * MIB, 5), "sync"]
    assert path_in(tmp_path).stat().st_size == 2 * MIB + 5
    assert path_in(tmp_path).stat().st_blocks * 512 >= 2 * MIB


def test_no_thread_and_no_descriptor_is_left(tmp_path: Path) -> None:
    before = {path.name for path in Path("/proc/self/fd").iterdir()}
    log = open_log(tmp_path / "wal")
    for index in range(1, 8):
        log.write(turn(index))
    log.close()
    assert {path.name for path in Path("/proc/self/fd").iterdir()} == before
    assert not [thread for thread in threading.enumerate() if thread.name == "next-segment"]


def test_a_process_without_threads_left_makes_the_segment_when_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", none_left)
    with open_log(tmp_path / "wal") as log:
        for index in range(1, 4):
            log.write(turn(index))
    with open_log(tmp_path / "wal") as log:
        assert log.log(1).last_index == 3


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"content")
    fresh.path_in(tmp_path).symlink_to(tmp_path / "victim")
    os.close(allocate(tmp_path, 4096))
    assert (tmp_path / "victim").read_bytes() == b"content"
    assert not path_in(tmp_path).is_symlink()
