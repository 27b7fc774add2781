"""Checkpoints: what they keep of a state whose later pages are lost (STO-5, STO-17)."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from random import Random

import lmdb
import pytest

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import Position, Store, checkpoint, files, pages, recover_state
from tests.unit.storage import states
from tests.unit.storage.states import BYTES, advance, assert_holds, content, make_checkpoint, model

SECTOR = 512


def torn(old: bytes, new: bytes, chance: Random) -> bytes:
    """A file in which each page, and of some pages each sector, is the old or the new one."""
    old = old.ljust(len(new), b"\0")
    result = bytearray(new)
    for start in range(0, len(new), pages.PAGE_BYTES):
        unit = SECTOR if chance.random() < 0.3 else pages.PAGE_BYTES
        for place in range(start, start + pages.PAGE_BYTES, unit):
            if chance.random() < 0.5:
                result[place : place + unit] = old[place : place + unit]
    return bytes(result)


def restart_from(worker: Path, data: bytes, saved: bytes) -> None:
    """A worker directory after a power loss: these bytes of the state, this checkpoint, no marker."""
    shard = worker / "shard-3"
    shard.mkdir(parents=True)
    (shard / "data.mdb").write_bytes(data)
    (shard / "checkpoint").write_bytes(saved)
    assert recover_state(worker) == []


@pytest.mark.covers("STO-5", "STO-17")
@pytest.mark.parametrize("seed", range(3))
def test_the_tree_of_a_checkpoint_stays_whole_whatever_is_written_after_it(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    store = Store(tmp_path / "shard-3", BYTES)
    data = tmp_path / "shard-3" / "data.mdb"
    for number in range(3):
        advance(store, chance.randint(1, 30))
        make_checkpoint(store)
        synced, saved = data.read_bytes(), (tmp_path / "shard-3" / "checkpoint").read_bytes()
        durable = store.durable.index
        advance(store, chance.randint(20, 60))
        for attempt in range(3):
            worker = tmp_path / f"worker-{number}-{attempt}"
            restart_from(worker, torn(synced, data.read_bytes(), chance), saved)
            assert_holds(worker / "shard-3", durable)
    store.close()


@pytest.mark.covers("STO-5")
def test_while_a_checkpoint_is_on_its_way_the_one_before_stays_whole(tmp_path: Path) -> None:
    chance = Random(7)
    store = Store(tmp_path / "shard-3", BYTES)
    data, file = tmp_path / "shard-3" / "data.mdb", tmp_path / "shard-3" / "checkpoint"
    advance(store, 20)
    make_checkpoint(store)
    synced, saved = data.read_bytes(), file.read_bytes()
    advance(store, 10)
    begun = store.begin_checkpoint()
    advance(store, 40)
    restart_from(tmp_path / "before", torn(synced, data.read_bytes(), chance), saved)
    assert_holds(tmp_path / "before" / "shard-3", 20)
    synced = data.read_bytes()
    begun.complete()
    assert store.durable == Position(20, 1)
    advance(store, 40)
    restart_from(tmp_path / "after", torn(synced, data.read_bytes(), chance), file.read_bytes())
    assert_holds(tmp_path / "after" / "shard-3", 30)
    restart_from(tmp_path / "rename-lost", torn(synced, data.read_bytes(), chance), saved)
    assert_holds(tmp_path / "rename-lost" / "shard-3", 20)
    store.adopt(begun)
    assert store.durable == Position(30, 1)
    store.close()


@pytest.mark.covers("STO-5")
def test_a_store_put_back_goes_on_and_can_be_put_back_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "shard-3", BYTES)
    advance(store, 25)
    make_checkpoint(store)
    advance(store, 25)
    data, saved = (tmp_path / "shard-3" / name for name in ("data.mdb", "checkpoint"))
    restart_from(tmp_path / "first", data.read_bytes(), saved.read_bytes())
    store.close()
    shard = tmp_path / "first" / "shard-3"
    again = Store(shard, BYTES)
    advance(again, 60)
    restart_from(tmp_path / "second", (shard / "data.mdb").read_bytes(), (shard / "checkpoint").read_bytes())
    assert_holds(tmp_path / "second" / "shard-3", 25)
    assert content(again) == model(85)
    again.close()
    assert_holds(shard, 85)


@pytest.mark.covers("STO-5")
def test_opening_makes_durable_what_a_killed_process_left_before_anything_is_written(tmp_path: Path) -> None:
    directory = tmp_path / "shard-3"
    store = Store(directory, BYTES)
    assert store.durable == store.applied == Position(0, 0)
    advance(store, 9)
    assert store.durable == Position(0, 0)
    store.close(durable=False)
    steps: list[str] = []
    store = Store(directory, BYTES, step=steps.append)
    assert store.durable == store.applied == Position(9, 1)
    assert steps == ["CheckpointPinned", "CheckpointSyncing", "CheckpointSynced", "CheckpointSaved"]
    saved = checkpoint.load(directory)
    assert saved is not None
    assert saved.position == Position(9, 1)
    store.close(durable=False)


@pytest.mark.covers("STO-17")
def test_a_store_that_is_durable_as_it_is_is_opened_without_a_sync(tmp_path: Path) -> None:
    directory = tmp_path / "shard-3"
    store = Store(directory, BYTES)
    advance(store, 9)
    store.close()
    before = (directory / "checkpoint").stat().st_ino
    steps: list[str] = []
    store = Store(directory, BYTES, step=steps.append)
    store.close()
    store.close()
    assert steps == ["CheckpointPinned"]
    assert (directory / "checkpoint").stat().st_ino == before
    assert_holds(directory, 9)


def test_one_checkpoint_at_a_time_and_only_a_completed_one_is_adopted(tmp_path: Path) -> None:
    store = Store(tmp_path / "shard-3", BYTES)
    other = Store(tmp_path / "shard-4", BYTES)
    begun = store.begin_checkpoint()
    with pytest.raises(RuntimeError):
        store.begin_checkpoint()
    with pytest.raises(RuntimeError):
        store.adopt(begun)
    begun.complete()
    with pytest.raises(RuntimeError):
        other.adopt(begun)
    store.close()
    other.close()


@pytest.mark.covers("STO-17")
def test_checkpoints_leak_neither_reader_slots_nor_pages(tmp_path: Path) -> None:
    store = Store(tmp_path / "shard-3", BYTES, max_readers=4)
    sizes: list[int] = []
    for _ in range(40):
        advance(store, 5)
        make_checkpoint(store)
        sizes.append((tmp_path / "shard-3" / "data.mdb").stat().st_size)
    assert sizes[-1] < sizes[19] * 1.5
    cuts = [store.reader() for _ in range(3)]
    for cut in cuts:
        cut.close()
    store.close()


@pytest.mark.covers("STO-11", "STO-12")
def test_a_checkpoint_without_room_is_given_up_and_the_next_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "shard-3", BYTES, max_readers=4)
    advance(store, 5)

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_durably", full)
        for _ in range(10):
            begun = store.begin_checkpoint()
            with pytest.raises(KeyLoadError) as caught:
                begun.complete()
            assert caught.value.code == ErrorCode.RESOURCE_EXHAUSTED
    assert store.durable == Position(0, 0)
    make_checkpoint(store)
    assert store.durable == Position(5, 1)
    store.close()


@pytest.mark.covers("STO-8", "STO-11")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_checkpoint_whose_name_may_not_be_durable_is_not_given_up_as_if_it_were_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store = Store(tmp_path / "shard-3", BYTES)
    advance(store, 5)
    begun = store.begin_checkpoint()

    def broken(path: Path) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(files, "sync_directory", broken)
        with pytest.raises(KeyLoadError) as caught:
            begun.complete()
    assert caught.value.code == ErrorCode.RECOVERY_REQUIRED
    with pytest.raises(KeyLoadError):
        store.begin_checkpoint()
    store.close(durable=False)
    synced: list[Path] = []
    sync = files.sync_directory

    def noted(path: Path) -> None:
        synced.append(path)
        sync(path)

    monkeypatch.setattr(files, "sync_directory", noted)
    Store(tmp_path / "shard-3", BYTES).close()
    assert tmp_path / "shard-3" in synced


class _FailingSync:
    """An environment whose sync fails once."""

    def __init__(self) -> None:
        self.calls = 0

    def sync(self, force: bool) -> None:
        self.calls += 1
        raise lmdb.Error("the disk is gone", errno.EIO)


@pytest.mark.covers("STO-11")
@pytest.mark.parametrize("failing", ["sync", "file"])
def test_after_a_failed_sync_no_checkpoint_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    store = Store(tmp_path / "shard-3", BYTES)
    advance(store, 5)
    begun = store.begin_checkpoint()

    def broken(path: Path, data: bytes) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    if failing == "sync":
        monkeypatch.setattr(begun, "_environment", _FailingSync())
    else:
        monkeypatch.setattr(files, "write_durably", broken)
    with pytest.raises(KeyLoadError) as caught:
        begun.complete()
    assert caught.value.code == ErrorCode.RECOVERY_REQUIRED
    monkeypatch.undo()
    for call in (store.begin_checkpoint, store.close):
        with pytest.raises(KeyLoadError) as caught:
            call()
        assert caught.value.code == ErrorCode.RECOVERY_REQUIRED
    store.close()
    assert_holds(tmp_path / "shard-3", 5)


@pytest.mark.covers("STO-17")
def test_closing_waits_for_a_checkpoint_in_another_thread(tmp_path: Path) -> None:
    synced, proceed = threading.Event(), threading.Event()

    def step(name: str) -> None:
        if name == "CheckpointSynced" and threading.current_thread() is not threading.main_thread():
            synced.set()
            assert proceed.wait(30)

    store = Store(tmp_path / "shard-3", BYTES, step=step)
    advance(store, 5)
    begun = store.begin_checkpoint()
    thread = threading.Thread(target=begun.complete)
    thread.start()
    assert synced.wait(30)
    advance(store, 5)
    releaser = threading.Timer(0.05, proceed.set)
    releaser.start()
    store.close()
    assert begun.done
    thread.join()
    releaser.join()
    assert_holds(tmp_path / "shard-3", 10)


@pytest.mark.covers("STO-17")
def test_closing_gives_up_a_checkpoint_that_no_thread_has_begun(tmp_path: Path) -> None:
    store = Store(tmp_path / "shard-3", BYTES)
    begun = store.begin_checkpoint()
    advance(store, 5)
    store.close()
    begun.complete()
    assert not begun.done
    assert_holds(tmp_path / "shard-3", 5)


def test_the_newest_meta_page_must_be_there(tmp_path: Path) -> None:
    store = Store(tmp_path / "shard-3", BYTES)
    advance(store, 1)
    with (tmp_path / "shard-3" / "data.mdb").open("r+b") as file:
        file.write(bytes(2 * pages.PAGE_BYTES))
    with pytest.raises(KeyLoadError, match="Corruption"):
        store.begin_checkpoint()
    store.close(durable=False)


def test_the_model_of_the_tests_has_every_kind_of_key() -> None:
    state = states.model(60)
    assert any(len(key) > 510 for key in state)
    assert any(len(value) > 4096 for value in state.values())
