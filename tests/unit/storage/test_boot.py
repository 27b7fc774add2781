"""What is left of the state after each kind of stop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keyload.consensus.messages import Entry
from keyload.storage import (
    Position,
    Store,
    boot,
    mark_clean,
    pack_writes,
    recover_state,
    stored_form,
    unpack_writes,
)
from tests.unit.storage.log_model import open_log

ENTRIES = [Entry(1, n, pack_writes(stored_form({b"%d" % (n % 3): b"%d" % n}))) for n in range(1, 8)]


def run(worker: Path, entries: list[Entry]) -> tuple[list[int], str]:
    """One life of a worker: recover, replay the log, apply and log new entries; which state was removed,
    digest."""
    removed = recover_state(worker)
    store = Store(worker / "shard-3", 1 << 30)
    with open_log(worker / "wal") as log:
        shard = log.log(3)
        if shard.last_index > store.applied.index:
            for entry in shard.entries(store.applied.index + 1, shard.last_index + 1, 1 << 30):
                store.apply(entry.index, entry.term, [unpack_writes(entry.data)])
        for entry in entries:
            log.write([(3, None, [entry])])
            store.apply(entry.index, entry.term, [unpack_writes(entry.data)])
    digest = store.digest()
    assert store.applied == Position(shard.last_index, 1)
    store.close()
    return removed, digest


def lose_power(worker: Path) -> None:
    """As if the machine had been started again: another boot id, and a page of the state that was never
    written."""
    marker = worker / "boot"
    marker.write_bytes(marker.read_bytes().replace(boot.boot_id().encode(), b"another-boot"))
    with (worker / "shard-3" / "data.mdb").open("r+b") as file:
        file.seek(4096)
        file.write(bytes(8192))


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    directory = tmp_path / "worker-0"
    directory.mkdir(mode=0o700)
    return directory


def test_after_a_power_loss_the_state_is_made_again_from_the_log(worker: Path, tmp_path: Path) -> None:
    _, before = run(worker, ENTRIES[:5])
    lose_power(worker)
    removed, digest = run(worker, [])
    assert (removed, digest) == ([3], before)
    assert run(worker, ENTRIES[5:])[0] == []


def test_after_a_killed_process_the_state_is_used_as_it_is(worker: Path) -> None:
    _, before = run(worker, ENTRIES)
    inode = (worker / "shard-3" / "data.mdb").stat().st_ino
    assert run(worker, []) == ([], before)
    assert (worker / "shard-3" / "data.mdb").stat().st_ino == inode


def test_after_a_clean_stop_another_boot_keeps_the_state_once(
    worker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, before = run(worker, ENTRIES)
    store = Store(worker / "shard-3", 1 << 30)
    store.sync()
    store.close()
    mark_clean(worker)
    monkeypatch.setattr(boot, "boot_id", lambda: "next-boot")
    assert run(worker, []) == ([], before)
    monkeypatch.setattr(boot, "boot_id", lambda: "the-boot-after")
    assert run(worker, []) == ([3], before)


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"boot_id": 1, "clean": true}', b"[" * 5000])
def test_without_a_readable_marker_no_state_is_trusted(worker: Path, content: bytes | None) -> None:
    _, before = run(worker, ENTRIES)
    if content is None:
        (worker / "boot").unlink()
    else:
        (worker / "boot").write_bytes(content)
    assert run(worker, []) == ([3], before)


def test_a_system_without_boot_ids_trusts_clean_stops_only(
    worker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot, "boot_id", lambda: "")
    _, before = run(worker, ENTRIES)
    assert run(worker, []) == ([3], before)
    mark_clean(worker)
    assert run(worker, []) == ([], before)


def test_the_marker_names_this_boot(worker: Path) -> None:
    assert recover_state(worker) == []
    assert json.loads((worker / "boot").read_bytes()) == {"boot_id": boot.boot_id(), "clean": False}
    assert boot.boot_id() != ""
