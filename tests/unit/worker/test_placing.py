"""A worker that leads the system shard carries a binding through, also when it starts anew on the way.

What a client sees is that of `tests/unit/models/test_placement.py`; here the steps go over real sockets, log
and state.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from keyload.codec.identity import atomic_partition_id, data_shard
from keyload.codec.placement import physical_shard_id
from keyload.link.messages import Confirmed, Refusal, Reply
from tests.unit.worker.support import (
    INCARNATION,
    SHARDS,
    WorkerUnderTest,
    partition,
    partition_tree,
    problem,
    put,
)

Start = Callable[..., WorkerUnderTest]
IDENTITY = uuid.UUID(int=77)
KEY = "key"
HOME = data_shard(atomic_partition_id(*partition(KEY)), SHARDS)
TARGET = HOME % SHARDS + 1


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[WorkerUnderTest] = []

    def make(**settings: Any) -> WorkerUnderTest:
        worker = WorkerUnderTest(tmp_path / "node", f"ipc://{tmp_path}/front-{len(running)}", **settings)
        running.append(worker)
        worker.wait_ready()
        return worker

    yield make
    for worker in running:
        if not worker.context.closed:
            worker.stop()


def ask(worker: WorkerUnderTest, target: int = TARGET, revision: int = 0) -> Reply | Refusal | Confirmed:
    """One attempt to bind the partition."""
    tree = {
        "version": 1,
        "expectedRevision": revision,
        "partition": partition_tree(KEY),
        "physicalShardId": physical_shard_id(INCARNATION, target),
    }
    command = worker.command("keyload_admin_partition_placement_bind", tree, None, IDENTITY)
    worker.send(command)
    return worker.answer(command.call)


def bind(worker: WorkerUnderTest) -> Reply | Refusal | Confirmed:
    """Ask until there is an outcome."""
    for _ in range(1000):
        answer = ask(worker)
        if not (isinstance(answer, Refusal) and answer.again):
            return answer
        worker.pump(5)
    raise AssertionError("the binding is never settled")


def wait_for_errand(worker: WorkerUnderTest) -> None:
    while not worker.errands:
        worker.pump()


@pytest.mark.covers("CLU-31", "CLU-32")
def test_a_binding_is_carried_through_and_writes_follow_it(start: Start) -> None:
    worker = start()
    worker.configure_collection()
    answer = bind(worker)
    assert isinstance(answer, Reply), problem(answer)
    assert answer.payload == b"true"
    assert worker.catalog.place(partition(KEY), SHARDS) == (TARGET, 2)
    assert worker.catalog.binding is None
    assert isinstance(worker.commit(put(KEY, "doc", "{}")), Reply)
    assert isinstance(worker.read_document(KEY, "doc"), Reply)
    assert len(worker.errands) == 1


@pytest.mark.covers("CLU-32")
def test_a_partition_with_data_stays(start: Start) -> None:
    worker = start()
    worker.configure_collection()
    assert isinstance(worker.commit(put(KEY, "doc", "{}")), Reply)
    assert problem(bind(worker)).error_code == "UnsupportedCapability"
    assert worker.catalog.place(partition(KEY), SHARDS) == (HOME, 1)
    assert isinstance(worker.commit(put(KEY, "other", "{}")), Reply)


@pytest.mark.covers("CLU-32", "CMD-18")
@pytest.mark.parametrize("lost", ["the closing", "its answer"])
def test_a_worker_that_starts_anew_goes_on_with_the_binding(start: Start, lost: str) -> None:
    first = start()
    first.configure_collection()
    first.runs_errands = lost != "the closing"
    first.returns_errands = False
    answer = ask(first)
    assert isinstance(answer, Refusal)
    assert answer.again
    wait_for_errand(first)
    first.pump()
    first.stop()
    second = start()
    while second.catalog.binding is not None:
        second.pump()
    assert second.catalog.place(partition(KEY), SHARDS) == (TARGET, 2)
    answer = ask(second)
    assert isinstance(answer, Reply), problem(answer)
    assert isinstance(second.commit(put(KEY, "doc", "{}")), Reply)


@pytest.mark.covers("CLU-32")
def test_a_closing_whose_answer_is_lost_is_repeated(start: Start) -> None:
    worker = start(call_ms=200)
    worker.configure_collection()
    worker.returns_errands = False
    ask(worker)
    wait_for_errand(worker)
    written = worker.commit(put(KEY, "doc", "{}"))  # the partition is closed, or will be
    worker.returns_errands = True
    while worker.catalog.binding is not None:
        worker.pump()
    moved = isinstance(written, Refusal) and written.again
    assert worker.catalog.place(partition(KEY), SHARDS) == ((TARGET, 2) if moved else (HOME, 1))
    assert len(worker.errands) >= 2
    assert isinstance(worker.commit(put(KEY, "doc", "{}")), Reply)
