"""Snapshots: one cut taken beside writes, sent in pieces, checked as a whole (CLU-15, CLU-16)."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import (
    CHUNK_BYTES,
    IncomingSnapshot,
    OutgoingSnapshot,
    Position,
    SnapshotManifest,
    Store,
    discard_incoming,
    discard_snapshot,
    received_snapshot,
    snapshot,
    stored_snapshot,
    take_snapshot,
    unpack_manifest,
    verify,
    verify_image,
    write_image,
)
from keyload.storage.incoming import MAXIMUM_AHEAD
from tests.unit.storage.states import (
    BYTES,
    INCARNATION,
    advance,
    content,
    make_checkpoint,
    membership_at,
    model,
    snapshot_of,
)

ENTRIES = 120


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shard's directory with a snapshot of several pieces; not to be changed."""
    directory = tmp_path_factory.mktemp("source") / "shard-3"
    taken = snapshot_of(directory, ENTRIES)
    assert taken.image_bytes > 2 * CHUNK_BYTES
    return directory


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """An empty shard's directory on another node."""
    directory = tmp_path / "shard-3"
    directory.mkdir(mode=0o700)
    return directory


def image_holds(path: Path, index: int) -> bool:
    """Whether an image is the state after an entry."""
    directory = path.parent / "opened"
    directory.mkdir(mode=0o700)
    shutil.copyfile(path, directory / "data.mdb")
    store = Store(directory, BYTES)
    try:
        return (store.applied.index, content(store), store.membership) == (
            index,
            model(index),
            membership_at(index),
        )
    finally:
        store.close()
        shutil.rmtree(directory)


def receive(incoming: IncomingSnapshot, outgoing: OutgoingSnapshot, pieces: int = 1 << 30) -> None:
    """Carry pieces over until all are there, or that many."""
    while pieces and not incoming.whole:
        offset = incoming.wanted(1)[0]
        assert incoming.write(offset, outgoing.chunk(offset))
        pieces -= 1


@pytest.mark.covers("CLU-15", "STO-13")
def test_a_snapshot_is_one_cut_however_much_is_written_meanwhile(tmp_path: Path) -> None:
    store = Store(tmp_path / "shard-3", BYTES)
    advance(store, 50)
    cut = store.cut()
    failures: list[BaseException] = []

    def take() -> None:
        try:
            take_snapshot(cut, tmp_path / "shard-3", incarnation=INCARNATION, shard=3, position=7)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=take)
    thread.start()
    for _ in range(10):
        advance(store, 5)
        make_checkpoint(store)
    thread.join()
    cut.close()
    assert failures == []
    taken = stored_snapshot(tmp_path / "shard-3")
    assert taken is not None
    assert (taken.applied, taken.position, taken.membership) == (Position(50, 1), 7, membership_at(50))
    assert image_holds(tmp_path / "shard-3" / "snapshot" / "image", 50)
    store.close()


@pytest.mark.covers("CLU-15")
def test_a_received_snapshot_is_the_one_that_was_taken(source: Path, target: Path) -> None:
    outgoing = OutgoingSnapshot(source)
    incoming = IncomingSnapshot(target, unpack_manifest(outgoing.manifest.packed()))
    steps: list[str] = []
    receive(incoming, outgoing)
    assert received_snapshot(target) is None
    incoming.complete(steps.append)
    assert steps == ["SnapshotReceived"]
    assert received_snapshot(target) == outgoing.manifest == stored_snapshot(source)
    assert image_holds(target / "snapshot" / "incoming", ENTRIES)
    outgoing.close()
    outgoing.close()


@pytest.mark.covers("CLU-15", "CLU-16")
def test_pieces_may_come_in_any_order_and_only_wanted_ones_are_taken(source: Path, target: Path) -> None:
    chance = Random(3)
    outgoing = OutgoingSnapshot(source)
    incoming = IncomingSnapshot(target, outgoing.manifest)
    assert not incoming.write(1, outgoing.chunk(0))
    assert not incoming.write(0, outgoing.chunk(0)[:-1])
    assert not incoming.write(-CHUNK_BYTES, outgoing.chunk(0))
    assert not incoming.write(MAXIMUM_AHEAD * CHUNK_BYTES, outgoing.chunk(0))
    assert len(incoming.wanted(2)) == 2
    while not incoming.whole:
        offset = chance.choice(incoming.wanted(4))
        assert incoming.write(offset, outgoing.chunk(offset))
        assert not incoming.write(offset, outgoing.chunk(offset))
        if incoming.sync_due:
            incoming.sync()
            assert not incoming.sync_due
    assert incoming.wanted(4) == []
    incoming.complete()
    outgoing.close()


@pytest.mark.covers("CLU-15")
def test_an_interrupted_transfer_goes_on_where_it_stopped(source: Path, target: Path) -> None:
    outgoing = OutgoingSnapshot(source)
    first = IncomingSnapshot(target, outgoing.manifest)
    receive(first, outgoing, 2)
    first.write(first.wanted(2)[-1], outgoing.chunk(first.wanted(2)[-1]))  # in memory only
    first.close()
    with (target / "snapshot" / "incoming").open("ab") as file:
        file.write(b"half a piece")
    second = IncomingSnapshot(target, outgoing.manifest)
    assert second.received_bytes == 2 * CHUNK_BYTES
    receive(second, outgoing)
    second.close()
    third = IncomingSnapshot(target, outgoing.manifest)
    assert third.whole
    third.complete()
    again = IncomingSnapshot(target, outgoing.manifest)
    assert again.whole
    assert received_snapshot(target) is None
    again.complete()
    assert image_holds(target / "snapshot" / "incoming", ENTRIES)
    outgoing.close()


@pytest.mark.covers("STO-11", "CLU-15")
def test_after_a_failed_sync_a_snapshot_is_not_completed(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outgoing = OutgoingSnapshot(source)
    incoming = IncomingSnapshot(target, outgoing.manifest)
    receive(incoming, outgoing, 1)

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(KeyLoadError, match="RecoveryRequired"):
            incoming.sync()
    receive(incoming, outgoing)
    with pytest.raises(KeyLoadError, match="RecoveryRequired"):
        incoming.complete()
    assert received_snapshot(target) is None
    incoming.discard()
    again = IncomingSnapshot(target, outgoing.manifest)
    assert again.received_bytes == 0
    receive(again, outgoing)
    again.complete()
    assert received_snapshot(target) == outgoing.manifest
    outgoing.close()


@pytest.mark.covers("CLU-15")
def test_the_transfer_of_another_snapshot_begins_anew(source: Path, target: Path) -> None:
    outgoing = OutgoingSnapshot(source)
    other = msgspec.structs.replace(outgoing.manifest, position=1).named()
    first = IncomingSnapshot(target, other)
    receive(first, outgoing, 2)
    first.close()
    assert IncomingSnapshot(target, outgoing.manifest).received_bytes == 0
    (target / "snapshot" / "incoming.json").write_bytes(b"{")
    second = IncomingSnapshot(target, outgoing.manifest)
    assert second.received_bytes == 0
    second.discard()
    assert list((target / "snapshot").iterdir()) == []
    discard_incoming(target)
    outgoing.close()


@pytest.mark.covers("CLU-15", "BKP-26")
@pytest.mark.parametrize("seed", range(25))
def test_one_wrong_byte_anywhere_in_an_image_is_refused(source: Path, target: Path, seed: int) -> None:
    outgoing = OutgoingSnapshot(source)
    incoming = IncomingSnapshot(target, outgoing.manifest)
    wrong = Random(seed).randrange(outgoing.manifest.image_bytes)
    for offset in range(0, outgoing.manifest.image_bytes, CHUNK_BYTES):
        piece = bytearray(outgoing.chunk(offset))
        if offset <= wrong < offset + CHUNK_BYTES:
            piece[wrong - offset] ^= 1 << seed % 8
        assert incoming.write(offset, bytes(piece))
    with pytest.raises(KeyLoadError) as caught:
        incoming.complete()
    assert caught.value.code == ErrorCode.CORRUPTION
    assert list((target / "snapshot").iterdir()) == []
    outgoing.close()


@pytest.mark.covers("CLU-15", "BKP-26")
def test_one_wrong_byte_anywhere_in_a_manifest_is_refused(source: Path) -> None:
    good = (source / "snapshot" / "manifest.json").read_bytes()
    for place in range(len(good)):
        for bit in range(8):
            wrong = good[:place] + bytes([good[place] ^ 1 << bit]) + good[place + 1 :]
            with pytest.raises(KeyLoadError) as caught:
                unpack_manifest(wrong)
            assert caught.value.code in (ErrorCode.CORRUPTION, ErrorCode.FORMAT_UNSUPPORTED)


@pytest.mark.covers("STO-3", "CLU-15")
def test_manifests_that_are_none_are_refused(source: Path) -> None:
    found = stored_snapshot(source)
    assert found is not None
    later = msgspec.structs.replace(found, format=2).named()
    with pytest.raises(KeyLoadError, match="FormatUnsupported"):
        unpack_manifest(later.packed())
    for wrong in (b"", b"[]", b"\xff", b"[" * 5000, b" " * (300 << 10), b'{"format":1}'):
        with pytest.raises(KeyLoadError, match="Corruption"):
            unpack_manifest(wrong)


def with_changed(found: SnapshotManifest, image: bytes) -> SnapshotManifest:
    """The manifest an image would have that says what it does not hold."""
    return msgspec.structs.replace(found, image_bytes=len(image), sha256=sha256(image).hexdigest()).named()


@pytest.mark.covers("CLU-15")
@pytest.mark.parametrize("kind", ["index", "term", "membership", "garbage", "foreign", "torn"])
def test_an_image_that_is_not_what_its_manifest_says_is_refused(
    source: Path, target: Path, kind: str
) -> None:
    found = stored_snapshot(source)
    assert found is not None
    image = (source / "snapshot" / "image").read_bytes()
    changes: dict[str, Callable[[], tuple[SnapshotManifest, bytes]]] = {
        "index": lambda: (msgspec.structs.replace(found, index=found.index + 1).named(), image),
        "term": lambda: (msgspec.structs.replace(found, term=9).named(), image),
        "membership": lambda: (msgspec.structs.replace(found, membership=b"others").named(), image),
        "garbage": lambda: (with_changed(found, b"\xee" * 9000), b"\xee" * 9000),
        "foreign": lambda: (with_changed(found, b""), b""),
        "torn": lambda: (with_changed(found, torn := image[:8192] + b"\xee" * (len(image) - 8192)), torn),
    }
    manifest, sent = changes[kind]()
    incoming = IncomingSnapshot(target, manifest)
    while not incoming.whole:
        offset = incoming.wanted(1)[0]
        assert incoming.write(offset, sent[offset : offset + CHUNK_BYTES])
    with pytest.raises(KeyLoadError) as caught:
        incoming.complete()
    assert caught.value.code in (ErrorCode.CORRUPTION, ErrorCode.FORMAT_UNSUPPORTED)
    assert received_snapshot(target) is None


@pytest.mark.covers("CLU-16")
def test_a_snapshot_being_sent_stays_readable_when_another_takes_its_place(tmp_path: Path) -> None:
    directory = tmp_path / "shard-3"
    first = snapshot_of(directory, 40)
    outgoing = OutgoingSnapshot(directory)
    second = snapshot_of(directory, 60)
    assert first.id != second.id
    incoming = IncomingSnapshot(tmp_path / "shard-3", outgoing.manifest)
    receive(incoming, outgoing)
    incoming.complete()
    assert received_snapshot(directory) == first
    assert stored_snapshot(directory) == second
    discard_snapshot(directory)
    assert stored_snapshot(directory) is None
    with pytest.raises(ValueError, match="no snapshot"):
        OutgoingSnapshot(directory)
    outgoing.close()


@pytest.mark.covers("CLU-17")
def test_a_damaged_established_snapshot_is_corruption_and_stays(tmp_path: Path) -> None:
    directory = tmp_path / "shard-3"
    snapshot_of(directory, 20)
    image = directory / "snapshot" / "image"
    with image.open("ab") as file:
        file.write(b"x")
    with pytest.raises(KeyLoadError, match="Corruption"):
        stored_snapshot(directory)
    image.unlink()
    with pytest.raises(KeyLoadError, match="Corruption"):
        OutgoingSnapshot(directory)


@pytest.mark.covers("CLU-16")
def test_a_snapshot_that_is_given_up_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "shard-3"
    first = snapshot_of(directory, 30)
    store = Store(directory, BYTES)
    advance(store, 40)
    cut = store.cut()
    stop = threading.Event()
    stop.set()
    for call in (
        lambda: take_snapshot(cut, directory, incarnation=INCARNATION, shard=3, position=1, stop=stop),
        lambda: write_image(cut, directory / "elsewhere", stop),
    ):
        with pytest.raises(KeyLoadError, match="RecoveryRequired"):
            call()

    def full(descriptor: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshot, "write_all", full)
    with pytest.raises(KeyLoadError, match="ResourceExhausted"):
        take_snapshot(cut, directory, incarnation=INCARNATION, shard=3, position=1)
    monkeypatch.undo()
    assert stored_snapshot(directory) == first
    assert sorted(path.name for path in (directory / "snapshot").iterdir()) == ["image", "manifest.json"]
    assert "snapshot-copy" not in {thread.name for thread in threading.enumerate()}
    cut.close()
    cut.close()
    store.close()


@pytest.mark.covers("STO-16")
def test_a_check_that_others_have_killed_says_nothing_of_the_file(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import os, resource, signal; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); "
        "os.kill(os.getpid(), signal.SIG{})"
    )
    run = subprocess.run
    for name, code in (
        ("KILL", ErrorCode.RECOVERY_REQUIRED),
        ("SEGV", ErrorCode.CORRUPTION),
        ("XCPU", ErrorCode.CORRUPTION),  # more processor time than a whole file needs
    ):

        def ended(command: list[str], name: str = name, **options: Any) -> Any:
            return run([command[0], "-c", program.format(name)], **options)

        monkeypatch.setattr(subprocess, "run", ended)
        with pytest.raises(KeyLoadError) as caught:
            verify_image(source / "snapshot" / "image", every_record=False)
        assert caught.value.code == code


@pytest.mark.covers("STO-16")
def test_a_check_that_gets_no_processor_time_says_nothing_about_the_state(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "_PATIENCE", 0)
    with pytest.raises(KeyLoadError) as caught:
        verify_image(source / "snapshot" / "image", every_record=False)
    assert caught.value.code == ErrorCode.RECOVERY_REQUIRED


@pytest.mark.covers("CLU-13", "STO-16")
def test_an_image_has_the_digest_of_its_store_and_every_record_is_checked(tmp_path: Path) -> None:
    directory = tmp_path / "shard-3"
    store = Store(directory, BYTES)
    advance(store, 30)
    cut = store.cut()
    image = tmp_path / "image"
    written = write_image(cut, image)
    assert written.image_bytes == image.stat().st_size
    facts = verify_image(image, every_record=True)
    assert facts.digest == store.digest()
    assert facts.records == len(content(store))
    assert facts.record_bytes > sum(len(value) for value in content(store).values())
    cut.close()
    place, value = b"a", b"value without a checksum"
    store.apply(31, 1, [[(place, value)]])
    cut = store.cut()
    write_image(cut, image)
    cut.close()
    assert verify_image(image, every_record=False).applied == Position(31, 1)
    with pytest.raises(KeyLoadError, match="Corruption"):
        verify_image(image, every_record=True)
    with pytest.raises(KeyLoadError, match="Corruption"):
        verify_image(tmp_path / "missing", every_record=True)
    store.close()
