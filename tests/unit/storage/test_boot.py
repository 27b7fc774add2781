"""What is left of the state after each kind of stop."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import lmdb
import pytest

from keyload.consensus.messages import Entry
from keyload.contract.errors import KeyLoadError
from keyload.storage import (
    Position,
    Store,
    boot,
    checkpoint,
    mark_clean,
    pack_writes,
    pages,
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
    """As if the machine had been started again: another boot id, and a meta page that was never written."""
    marker = worker / "boot"
    marker.write_bytes(marker.read_bytes().replace(boot.boot_id().encode(), b"another-boot"))
    with (worker / "shard-3" / "data.mdb").open("r+b") as file:
        file.write(b"\xff" * pages.PAGE_BYTES)


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    directory = tmp_path / "worker-0"
    directory.mkdir(mode=0o700)
    return directory


@pytest.mark.covers("STO-5")
def test_after_a_power_loss_the_state_is_put_back_and_completed_from_the_log(worker: Path) -> None:
    _, before = run(worker, ENTRIES[:5])
    lose_power(worker)
    assert run(worker, []) == ([], before)
    assert run(worker, ENTRIES[5:])[0] == []


@pytest.mark.covers("STO-5")
def test_a_state_that_never_had_a_checkpoint_is_made_again_from_the_log(worker: Path) -> None:
    _, before = run(worker, ENTRIES[:5])
    (worker / "shard-3" / "checkpoint").unlink()
    lose_power(worker)
    assert run(worker, []) == ([3], before)


def damaged(content: bytes) -> bytes:
    return content[:200] + bytes([content[200] ^ 1]) + content[201:]


DAMAGES = {
    "a wrong byte": (damaged, "Corruption"),
    "cut off": (lambda content: content[:-1], "Corruption"),
    "longer": (lambda content: content + b"x", "Corruption"),
    "empty": (lambda content: b"", "Corruption"),
    "foreign": (lambda content: b"anything" + content[8:], "FormatUnsupported"),
    "later": (lambda content: content[:8] + b"\x02\x00" + content[10:], "FormatUnsupported"),
}


@pytest.mark.covers("STO-3", "STO-5", "CLU-17")
@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_unknown_checkpoint_stops_the_worker_and_files_stay(
    worker: Path, damage: str, power: bool
) -> None:
    run(worker, ENTRIES)
    change, code = DAMAGES[damage]
    path = worker / "shard-3" / "checkpoint"
    path.write_bytes(change(path.read_bytes()))
    if power:
        lose_power(worker)
    before = {path: path.read_bytes() for path in worker.rglob("*") if path.is_file() and path.name != "boot"}
    with pytest.raises(KeyLoadError, match=code):
        run(worker, [])
    for path, content in before.items():
        if path.name != "lock.mdb":
            assert path.read_bytes() == content


@pytest.mark.covers("STO-5")
def test_the_checkpoint_of_another_shard_or_another_length_is_corruption(worker: Path) -> None:
    run(worker, ENTRIES)
    own = worker / "shard-3"
    Store(worker / "shard-4", 1 << 30).close()
    saved = (own / "checkpoint").read_bytes()
    (own / "checkpoint").write_bytes((worker / "shard-4" / "checkpoint").read_bytes())
    lose_power(worker)
    with pytest.raises(KeyLoadError, match="Corruption"):
        recover_state(worker)
    (own / "checkpoint").write_bytes(saved)
    found = checkpoint.load(own)
    assert found is not None
    with (own / "data.mdb").open("r+b") as file:
        file.truncate(found.file_bytes - 1)
    with pytest.raises(KeyLoadError, match="Corruption"):
        recover_state(worker)
    (own / "data.mdb").unlink()
    with pytest.raises(KeyLoadError, match="Corruption"):
        recover_state(worker)


@pytest.mark.covers("STO-5", "STO-16")
def test_a_state_that_its_checkpoint_does_not_lead_to_is_corruption(worker: Path) -> None:
    run(worker, ENTRIES)
    lose_power(worker)
    path = worker / "shard-3" / "data.mdb"
    path.write_bytes(path.read_bytes()[: 2 * pages.PAGE_BYTES].ljust(path.stat().st_size, b"\xee"))
    with pytest.raises(KeyLoadError, match="Corruption"):
        recover_state(worker)


def test_after_a_killed_process_the_state_is_used_as_it_is(worker: Path) -> None:
    _, before = run(worker, ENTRIES)
    inode = (worker / "shard-3" / "data.mdb").stat().st_ino
    assert run(worker, []) == ([], before)
    assert (worker / "shard-3" / "data.mdb").stat().st_ino == inode


class _FailingSync:
    """An environment whose sync fails."""

    def sync(self, force: bool) -> None:
        raise lmdb.Error("the disk is gone", errno.EIO)


@pytest.mark.covers("STO-5", "STO-11")
def test_after_a_failed_sync_of_a_state_the_next_start_puts_it_back(
    worker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, before = run(worker, ENTRIES[:5])
    recover_state(worker)
    store = Store(worker / "shard-3", 1 << 30)
    with open_log(worker / "wal") as log:
        for entry in ENTRIES[5:]:
            log.write([(3, None, [entry])])
            store.apply(entry.index, entry.term, [unpack_writes(entry.data)])
    after = store.digest()
    assert after != before
    begun = store.begin_checkpoint()
    monkeypatch.setattr(begun, "_environment", _FailingSync())
    with pytest.raises(KeyLoadError, match="RecoveryRequired"):
        begun.complete()
    store.close(durable=False)
    with (worker / "shard-3" / "data.mdb").open("r+b") as file:
        file.write(b"\xff" * pages.PAGE_BYTES)  # the system has forgotten that this page is to be written
    assert run(worker, []) == ([], after)


@pytest.mark.covers("STO-5")
def test_after_a_clean_stop_another_boot_keeps_the_state_once(
    worker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, before = run(worker, ENTRIES)
    mark_clean(worker)
    monkeypatch.setattr(boot, "boot_id", lambda: "next-boot")
    (worker / "shard-3" / "checkpoint").unlink()
    assert run(worker, []) == ([], before)
    monkeypatch.setattr(boot, "boot_id", lambda: "the-boot-after")
    (worker / "shard-3" / "checkpoint").unlink()
    assert run(worker, []) == ([3], before)


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"boot_id": 1, "clean": true}', b"[" * 5000])
def test_without_a_readable_marker_no_state_is_trusted(worker: Path, content: bytes | None) -> None:
    _, before = run(worker, ENTRIES)
    if content is None:
        (worker / "boot").unlink()
    else:
        (worker / "boot").write_bytes(content)
    with (worker / "shard-3" / "data.mdb").open("r+b") as file:
        file.write(b"\xff" * pages.PAGE_BYTES)
    assert run(worker, []) == ([], before)


def test_a_system_without_boot_ids_trusts_clean_stops_only(
    worker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot, "boot_id", lambda: "")
    _, before = run(worker, ENTRIES)
    (worker / "shard-3" / "checkpoint").unlink()
    assert run(worker, []) == ([3], before)
    mark_clean(worker)
    (worker / "shard-3" / "checkpoint").unlink()
    assert run(worker, []) == ([], before)


def test_the_marker_names_this_boot(worker: Path) -> None:
    assert recover_state(worker) == []
    assert json.loads((worker / "boot").read_bytes()) == {"boot_id": boot.boot_id(), "clean": False}
    assert boot.boot_id() != ""
