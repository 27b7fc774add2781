"""A snapshot that replaces a shard's state, stopped anywhere (CLU-15, CLU-17)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from keyload.contract.errors import KeyLoadError
from keyload.storage import (
    IncomingSnapshot,
    OutgoingSnapshot,
    SnapshotManifest,
    Store,
    files,
    finish_install,
    install,
    pending_install,
    received_snapshot,
    recover_state,
)
from tests.unit.storage.states import BYTES, advance, assert_holds, snapshot_of

OLD, NEW = 8, 40


class Stopped(Exception):
    """The process ends here."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A worker's directory whose shard is at entry `OLD` and has received a snapshot at `NEW`."""
    base = tmp_path_factory.mktemp("install")
    (base / "leader").mkdir()
    snapshot_of(base / "leader" / "shard-3", NEW)
    worker = base / "worker-0"
    worker.mkdir(mode=0o700)
    recover_state(worker)
    store = Store(worker / "shard-3", BYTES)
    advance(store, OLD)
    store.close()
    outgoing = OutgoingSnapshot(base / "leader" / "shard-3")
    incoming = IncomingSnapshot(worker / "shard-3", outgoing.manifest)
    while not incoming.whole:
        offset = incoming.wanted(1)[0]
        incoming.write(offset, outgoing.chunk(offset))
    incoming.complete()
    outgoing.close()
    return worker


@pytest.fixture
def worker(prepared: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(prepared, tmp_path / "worker-0"))


def start(worker: Path, power_lost: bool) -> tuple[SnapshotManifest | None, int]:
    """A start of the worker up to the opened store; what was pending, and the generation."""
    if power_lost:
        (worker / "boot").write_bytes(b'{"boot_id":"another","clean":false}')
    assert recover_state(worker) == []
    pending = pending_install(worker / "shard-3")
    store = Store(worker / "shard-3", BYTES)
    generation = store.generation
    store.close()
    if pending is not None:
        finish_install(worker / "shard-3")
    return pending, generation


@pytest.mark.covers("CLU-15", "CLU-26")
def test_an_installed_snapshot_is_the_state_and_nothing_is_left_of_it(worker: Path) -> None:
    shard = worker / "shard-3"
    steps: list[str] = []
    installed = install(shard, steps.append)
    assert steps == ["SnapshotInstalling", "SnapshotInstalled"]
    assert installed.index == NEW
    store = Store(shard, BYTES)
    assert (store.applied.index, store.durable.index, store.generation) == (NEW, NEW, 1)
    finish_install(shard)
    finish_install(shard)
    advance(store, 5)
    store.close()
    assert list((shard / "snapshot").iterdir()) == []
    assert start(worker, power_lost=True) == (None, 1)
    assert_holds(shard, NEW + 5)


@pytest.mark.covers("CLU-15", "CLU-17", "STO-24")
@pytest.mark.parametrize("power_lost", [False, True])
@pytest.mark.parametrize("point", range(1, 8))
def test_stopped_at_any_point_it_is_the_old_state_or_the_whole_new_one(
    worker: Path, monkeypatch: pytest.MonkeyPatch, point: int, power_lost: bool
) -> None:
    """The points are the syncs of directories on the way, before and behind each."""
    shard = worker / "shard-3"
    sync, left = files.sync_directory, point

    def counted(path: Path) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Stopped
        sync(path)

    with monkeypatch.context() as patch:
        patch.setattr(files, "sync_directory", counted)
        try:
            install(shard)
            Store(shard, BYTES).close()
            finish_install(shard)
        except Stopped:
            pass
        else:
            pytest.fail("the point was not reached")
    pending, generation = start(worker, power_lost)
    if pending is None and received_snapshot(shard) is not None:
        assert_holds(shard, OLD)
        install(shard)
        Store(shard, BYTES).close()
        finish_install(shard)
    else:
        assert generation >= 1
    assert_holds(shard, NEW)
    assert start(worker, power_lost)[0] is None
    assert_holds(shard, NEW)


@pytest.mark.covers("STO-24")
@pytest.mark.parametrize("fatal", ["SnapshotInstalling", "SnapshotInstalled"])
def test_stopped_at_a_named_step_the_next_start_finishes(worker: Path, fatal: str) -> None:
    def step(name: str) -> None:
        if name == fatal:
            raise Stopped

    with pytest.raises(Stopped):
        install(worker / "shard-3", step)
    pending, generation = start(worker, power_lost=True)
    assert pending is not None
    assert (pending.index, generation) == (NEW, 1)
    assert_holds(worker / "shard-3", NEW)


@pytest.mark.covers("CLU-17")
def test_without_a_whole_snapshot_nothing_is_installed(worker: Path) -> None:
    shard = worker / "shard-3"
    image = shard / "snapshot" / "incoming"
    with image.open("ab") as file:
        file.write(b"x")
    for _ in range(2):
        with pytest.raises(KeyLoadError, match="Corruption"):
            install(shard)
        image.unlink(missing_ok=True)
    (shard / "snapshot" / "received.json").unlink()
    with pytest.raises(KeyLoadError, match="Corruption"):
        install(shard)
    assert_holds(shard, OLD)


@pytest.mark.covers("CLU-17")
def test_a_begun_installation_without_its_image_is_corruption(worker: Path) -> None:
    shard = worker / "shard-3"
    snapshot = shard / "snapshot"
    (snapshot / "received.json").rename(snapshot / "installing")
    (snapshot / "incoming").unlink()
    (shard / "data.mdb").unlink()
    with pytest.raises(KeyLoadError, match="Corruption"):
        pending_install(shard)
    (snapshot / "installing").write_bytes(b"{}")
    with pytest.raises(KeyLoadError, match="Corruption"):
        pending_install(shard)


@pytest.mark.covers("CLU-26")
@pytest.mark.parametrize("damage", [b"", b"x", b"9" * 21])
def test_a_damaged_generation_is_corruption(worker: Path, damage: bytes) -> None:
    (worker / "shard-3" / "generation").write_bytes(damage)
    with pytest.raises(KeyLoadError, match="Corruption"):
        Store(worker / "shard-3", BYTES)
