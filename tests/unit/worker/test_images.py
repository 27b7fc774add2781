"""Images that a running worker makes of its shards for a backup (BKP-2, BKP-3)."""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec
import pytest

from keyload.backup.manifest import ShardImage
from keyload.contract.errors import ErrorCode
from keyload.link.messages import BackupShard, Refusal, Reply
from keyload.storage import Position, Store, verify_image
from keyload.worker import space
from tests.unit.worker.support import SHARDS, WorkerUnderTest, problem, put
from tests.unit.worker.test_loop import Start, start  # noqa: F401


def ask(worker: WorkerUnderTest, shard: int, backup: str) -> int:
    call = worker.number()
    worker.send(BackupShard(call, shard, backup))
    return call


def shelf(worker: WorkerUnderTest) -> tuple[str, Path]:
    """The directory of a new backup, as the front makes it."""
    backup = secrets.token_hex(16)
    directory = Path(worker.launch.directory) / "backups" / backup
    directory.mkdir(parents=True)
    return backup, directory


@pytest.mark.covers("BKP-1", "BKP-2")
def test_an_image_holds_everything_committed_before_it_was_asked_for(start: Start, tmp_path: Path) -> None:  # noqa: F811
    worker = start()
    worker.wait_ready()
    worker.configure_collection()
    for number in range(12):
        assert isinstance(worker.commit(put(f"key{number}", "doc", f'{{"n": {number}}}')), Reply)
    backup, directory = shelf(worker)
    calls = {shard: ask(worker, shard, backup) for shard in range(SHARDS + 1)}
    images: dict[int, ShardImage] = {}
    for shard, call in calls.items():
        answer = worker.answer(call)
        assert isinstance(answer, Reply), problem(answer)
        images[shard] = msgspec.json.decode(answer.payload, type=ShardImage)
    applied = {number: shard.store.applied for number, shard in worker.worker._shards.items()}
    digests = {number: shard.store.digest() for number, shard in worker.worker._shards.items()}
    for shard, image in images.items():
        path = directory / image.file.name
        facts = verify_image(path, every_record=True)
        assert facts.applied == Position(image.index, image.term) == applied[shard]
        assert facts.digest == digests[shard]
        assert path.stat().st_size == image.file.bytes
        assert path.stat().st_mode & 0o777 == 0o600
    assert sum(image.position for shard, image in images.items() if shard) >= 12
    worker.stop()


@pytest.mark.covers("BKP-3")
def test_writes_go_on_while_images_are_taken(start: Start) -> None:  # noqa: F811
    worker = start()
    worker.wait_ready()
    worker.configure_collection()
    backup, directory = shelf(worker)
    calls = [ask(worker, 1 + number % SHARDS, backup) for number in range(9)]
    for number in range(20):
        assert isinstance(worker.commit(put(f"key{number}", "doc", "{}")), Reply)
    answers = [worker.answer(call) for call in calls]
    assert all(isinstance(answer, Reply) for answer in answers)
    assert len(list(directory.iterdir())) == SHARDS


@pytest.mark.covers("BKP-2")
def test_an_image_that_cannot_be_made_is_refused_and_leaves_nothing(start: Start) -> None:  # noqa: F811
    worker = start()
    worker.wait_ready()
    answer = worker.answer(ask(worker, 1, "0" * 32))
    assert problem(answer).error_code == ErrorCode.RECOVERY_REQUIRED
    answer = worker.answer(ask(worker, 77, "0" * 32))
    assert problem(answer).error_code == ErrorCode.OWNERSHIP_LOST
    assert isinstance(worker.confirm(), object)


@pytest.mark.covers("STO-12")
def test_an_image_without_room_is_refused(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    worker = start()
    worker.wait_ready()
    backup, directory = shelf(worker)
    with monkeypatch.context() as patch:
        patch.setattr(space, "free_bytes", lambda directory: 0)
        answer = worker.answer(ask(worker, 1, backup))
    assert problem(answer).error_code == ErrorCode.RESOURCE_EXHAUSTED
    assert list(directory.iterdir()) == []
    assert isinstance(worker.answer(ask(worker, 1, backup)), Reply)


@pytest.mark.covers("BKP-2")
def test_a_shard_without_majority_gives_no_image(start: Start) -> None:  # noqa: F811
    worker = start(absent_peers=True, call_ms=200)
    backup, directory = shelf(worker)
    answer = worker.answer(ask(worker, 1, backup))
    assert isinstance(answer, Refusal)
    assert problem(answer).error_code == ErrorCode.OWNERSHIP_LOST
    assert list(directory.iterdir()) == []


@pytest.mark.covers("BKP-3")
def test_a_worker_that_stops_gives_up_its_images(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    worker = start()
    worker.wait_ready()
    taken: list[Store] = []
    cut = Store.cut

    def counted(store: Store) -> object:
        taken.append(store)
        return cut(store)

    monkeypatch.setattr(Store, "cut", counted)
    backup, _ = shelf(worker)
    for _ in range(3):
        ask(worker, 1, backup)
    worker.stop()
    assert len(taken) <= 3
