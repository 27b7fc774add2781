"""Checkpoints, a log that stays short, and snapshots, on three replicas with real files."""

from __future__ import annotations

import errno
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.link.messages import SnapshotChunk, SnapshotOffer, SnapshotWant
from keyload.storage import CHUNK_BYTES, OutgoingSnapshot, Store
from keyload.worker import snapshot_sender, space
from tests.unit.worker.trio import TIMES, Node, Trio

FILLER = f'{{"filler": "{"x" * 30_000}"}}'


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Trio]:
    made = Trio(tmp_path)
    yield made
    made.close()


def fill(trio: Trio, leader: Node, count: int, name: str = "doc") -> None:
    """Write so much that the log goes on in new segments."""
    for number in range(count):
        leader.put(f"{name}{number}", FILLER)
        trio.carry()


def level(trio: Trio, *numbers: int) -> bool:
    """Whether replicas applied the same entry and hold the same bytes."""
    stores = [trio.nodes[number].shard.store for number in numbers]
    return len({store.applied for store in stores}) == 1 and len({store.digest() for store in stores}) == 1


@pytest.mark.covers("STO-17")
def test_a_checkpoint_makes_the_state_durable_and_the_log_short(trio: Trio) -> None:
    leader = trio.lead()
    fill(trio, leader, 12)
    before = leader.wal.bytes
    trio.pass_time(lambda: leader.shard.store.durable == leader.shard.store.applied)
    trio.pass_time(lambda: leader.wal.log(1).first_index > 1)
    assert leader.wal.bytes < before
    assert leader.wal.log(1).first_index <= leader.shard.store.durable.index + 1


@pytest.mark.covers("STO-17")
def test_a_follower_within_the_retained_log_keeps_it(tmp_path: Path) -> None:
    trio = Trio(tmp_path, msgspec.structs.replace(TIMES, retained_log_bytes=1 << 30))
    try:
        leader = trio.lead()
        trio.cut = {3}
        fill(trio, leader, 12)
        trio.pass_time(lambda: leader.shard.store.durable == leader.shard.store.applied)
        assert leader.wal.log(1).first_index == 1
        trio.cut = set()
        trio.pass_time(lambda: level(trio, 1, 2, 3))
        assert trio.nodes[3].replaced == 0
    finally:
        trio.close()


@pytest.fixture
def behind(trio: Trio) -> Trio:
    """Node 3 was away while the log it needs was dropped."""
    leader = trio.lead()
    trio.pass_time(lambda: level(trio, 1, 2, 3))
    trio.cut = {3}
    fill(trio, leader, 24)
    trio.pass_time(lambda: leader.wal.log(1).first_index > 3)
    trio.cut = set()
    return trio


@pytest.mark.covers("CLU-15", "CLU-13", "CLU-26")
def test_a_follower_behind_the_log_gets_a_snapshot_and_the_rest(behind: Trio) -> None:
    fill(behind, behind.nodes[1], 2, "late")
    behind.pass_time(lambda: level(behind, 1, 2, 3))
    assert behind.nodes[3].replaced == 1
    assert behind.nodes[3].shard.store.generation == 1
    assert behind.nodes[1].shard.store.generation == 0
    fill(behind, behind.nodes[1], 3, "later")
    behind.pass_time(lambda: level(behind, 1, 2, 3))
    assert behind.nodes[3].replaced == 1


@pytest.mark.covers("STO-12", "CLU-15")
def test_a_leader_takes_no_image_that_does_not_fit_its_disk(
    behind: Trio, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    taken = behind.nodes[1].place / "snapshot"

    def no_room(directory: Path) -> int:
        asked.append(1)
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(space, "free_bytes", no_room)
        behind.pass_time(lambda: len(asked) > 1)
        assert not taken.exists()
        assert behind.nodes[3].replaced == 0
    behind.pass_time(lambda: level(behind, 1, 2, 3))
    assert behind.nodes[3].replaced == 1


@pytest.mark.covers("CLU-15", "CLU-16")
def test_a_state_whose_image_is_still_being_taken_is_not_replaced(
    behind: Trio, monkeypatch: pytest.MonkeyPatch
) -> None:
    proceed = threading.Event()
    node = behind.nodes[3]

    def slow(*_: object, **__: object) -> None:
        assert proceed.wait(60)
        raise KeyLoadError(ErrorCode.RECOVERY_REQUIRED, "A snapshot was given up.")

    with monkeypatch.context() as patch:
        patch.setattr(snapshot_sender, "take_snapshot", slow)
        node.upkeep._sender._take(node.shard, behind.now)  # as it led and was deposed meanwhile
    received = node.place / "snapshot" / "received.json"
    behind.pass_time(received.exists)
    until = behind.now + 1.0
    behind.pass_time(lambda: behind.now > until)
    assert node.replaced == 0
    proceed.set()
    behind.pass_time(lambda: level(behind, 1, 2, 3))
    assert node.replaced == 1


@pytest.mark.covers("CLU-15", "CLU-16", "CLU-22")
def test_lost_chunks_are_asked_for_again_and_few_are_open(behind: Trio) -> None:
    asked: list[int] = []
    lost = iter([True, False, True, True] * 3)

    def lose(message: object) -> bool:
        if isinstance(message, SnapshotWant):
            asked.append(message.offset)
        if isinstance(message, SnapshotChunk):
            assert len(message.data) <= CHUNK_BYTES
            return next(lost, False)
        return False

    behind.lose = lose
    behind.pass_time(lambda: level(behind, 1, 2, 3))
    assert behind.nodes[3].replaced == 1
    assert len(asked) > len(set(asked))


@pytest.mark.covers("CLU-15", "CLU-17")
def test_a_damaged_chunk_leaves_the_old_state_and_the_image_is_fetched_again(behind: Trio) -> None:
    node = behind.nodes[3]
    old = node.shard.store.digest()
    seen: list[bytes] = []

    def damage(message: object) -> bool:
        if isinstance(message, SnapshotChunk) and not seen:
            assert node.shard.store.digest() == old
            seen.append(message.data)
            wrong = bytes([message.data[-1] ^ 1])
            behind.carried.append(
                (1, 3, msgspec.structs.replace(message, data=message.data[:-1] + wrong)),
            )
            return True
        return False

    behind.lose = damage
    behind.pass_time(lambda: level(behind, 1, 2, 3))
    assert node.replaced == 1
    assert seen


@pytest.mark.covers("CLU-15", "CLU-21")
def test_only_the_leader_of_the_shard_offers_and_only_its_own_shard(behind: Trio) -> None:
    offers: list[SnapshotOffer] = []

    def take(message: object) -> bool:
        if isinstance(message, SnapshotOffer):
            offers.append(message)
        return isinstance(message, SnapshotOffer)

    behind.lose = take
    behind.pass_time(lambda: bool(offers))
    node = behind.nodes[3]
    own, foreign = offers[0].manifest, offers[0].manifest.replace(b'"shard":1', b'"shard":2')
    for sender, message in (
        (2, offers[0]),
        (1, SnapshotOffer(7, own)),
        (1, SnapshotOffer(1, foreign)),
        (1, SnapshotOffer(1, b"{}")),
        (1, SnapshotOffer(1, b"\xff" * 300_000)),
    ):
        node.upkeep.arrived(sender, message, behind.now)
    assert not any(isinstance(message, SnapshotWant) for _, _, message in behind.carried)
    behind.lose = lambda message: False
    behind.pass_time(lambda: level(behind, 1, 2, 3))


@pytest.mark.covers("CLU-15", "CLU-16")
def test_a_leader_whose_image_cannot_be_read_takes_another(
    behind: Trio, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    read = OutgoingSnapshot.chunk

    def fail_once(outgoing: OutgoingSnapshot, offset: int) -> bytes:
        asked.append(offset)
        if len(asked) == 1:
            raise KeyLoadError(ErrorCode.RECOVERY_REQUIRED, "A snapshot could not be read.")
        return read(outgoing, offset)

    monkeypatch.setattr(OutgoingSnapshot, "chunk", fail_once)
    behind.pass_time(lambda: level(behind, 1, 2, 3))
    assert behind.nodes[3].replaced == 1
    assert len(asked) > 1


@pytest.mark.covers("CLU-15", "STO-17")
def test_a_state_whose_reader_slots_are_all_taken_is_checkpointed_and_sent_later(
    behind: Trio, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    def no_slot(self: Store) -> NoReturn:
        refused.append(sys._getframe(1).f_code.co_name)
        raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, "All reader slots of a state are taken.")

    leader = behind.nodes[1]
    with monkeypatch.context() as patch:
        patch.setattr(Store, "begin_checkpoint", no_slot)
        patch.setattr(Store, "cut", no_slot)
        leader.put("one more", "{}")
        behind.pass_time(lambda: {"_begin", "_take"} <= set(refused))
    behind.pass_time(lambda: level(behind, 1, 2, 3))
    behind.pass_time(lambda: leader.shard.store.durable == leader.shard.store.applied)


@pytest.mark.covers("CLU-15")
def test_an_image_that_cannot_be_removed_stops_nobody(behind: Trio, monkeypatch: pytest.MonkeyPatch) -> None:
    unlink = Path.unlink
    kept: list[str] = []

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.name in ("image", "incoming"):
            kept.append(path.name)
            raise OSError(errno.EIO, "no disk")
        unlink(path, missing_ok)

    def damage(message: object) -> bool:
        if isinstance(message, SnapshotChunk) and "incoming" not in kept:
            wrong = msgspec.structs.replace(message, data=message.data[:-1] + bytes([message.data[-1] ^ 1]))
            behind.carried.append((1, 3, wrong))
            return True
        return False

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        behind.lose = damage
        behind.pass_time(lambda: "incoming" in kept)
        behind.nodes[1].upkeep._sender._drop(1)
        assert "image" in kept
    behind.pass_time(lambda: level(behind, 1, 2, 3))


@pytest.mark.covers("CLU-15", "CLU-22")
@pytest.mark.parametrize("offset", [-1, 1 << 40, 1 << 63])
def test_wants_that_fit_no_image_are_not_answered(behind: Trio, offset: int) -> None:
    wants: list[SnapshotWant] = []

    def note(message: object) -> bool:
        if isinstance(message, SnapshotWant):
            wants.append(message)
        return isinstance(message, SnapshotWant)

    behind.lose = note
    behind.pass_time(lambda: bool(wants))
    behind.carried.clear()
    leader = behind.nodes[1]
    leader.upkeep.arrived(3, SnapshotWant(1, wants[0].id, offset), behind.now)
    leader.upkeep.arrived(3, SnapshotWant(1, "0" * 32, 0), behind.now)
    leader.upkeep.arrived(3, SnapshotWant(9, wants[0].id, 0), behind.now)
    assert not behind.carried


@pytest.mark.covers("CLU-15")
def test_a_transfer_goes_on_after_the_receiver_was_restarted(behind: Trio) -> None:
    chunks = [0]

    def stop_after_one(message: object) -> bool:
        if isinstance(message, SnapshotChunk):
            chunks[0] += 1
            return chunks[0] > 1
        return False

    behind.lose = stop_after_one
    behind.pass_time(lambda: chunks[0] > 1)
    behind.carried.clear()
    behind.nodes[3].close()
    behind.nodes[3] = Node(3, behind.root, behind.carried)
    asked: list[int] = []

    def note(message: object) -> bool:
        if isinstance(message, SnapshotWant):
            asked.append(message.offset)
        return False

    behind.lose = note
    behind.pass_time(lambda: level(behind, 1, 2, 3))
    assert 0 not in asked
