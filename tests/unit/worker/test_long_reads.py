"""Long reads in real reader processes: their cut, their bounds, their ends, and what the rest notices."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from keyload.codec.identity import atomic_partition_id, data_shard
from keyload.contract.documents import GetDocumentRequest, PutDocument
from keyload.contract.shared import EntityRef
from keyload.link.catalog import Catalog
from keyload.link.messages import Cancel, Read, Refusal, Reply
from keyload.worker import pool as pools
from keyload.worker import readers
from keyload.worker.batch import Answer
from keyload.worker.calls import ReadCall
from keyload.worker.pool import LongRead, ReaderPool
from keyload.worker.read_jobs import Frames, Result, Setup, framed
from keyload.worker.reader_process import ReaderProcess
from tests.unit.shards import INCARNATION, PARTITION, START, Shard, code_of, collection, principal
from tests.unit.shards import partition_ref as reference_of

from .conftest import OpenShard
from .support import SHARDS, WorkerUnderTest, partition, problem, put
from .test_loop import document

COMMAND = (sys.executable, "-m", "tests.unit.worker.scan_reader")


class Pool:
    """A pool over one shard, with the test as its loop."""

    def __init__(self, shard: Shard, directory: Path) -> None:
        self.shard = shard
        self.answers: dict[int, Answer] = {}
        self.calls = 0
        self.pool = ReaderPool(Setup(0, str(directory), INCARNATION, 3), self._take, COMMAND)

    def _take(self, call: ReadCall, answer: Answer) -> None:
        self.answers[call.message.call] = answer

    def ask(self, word: str, *, by: str = "ann", seconds: float = 60.0, shard: int = 0) -> int:
        """Submit a read; gives its number."""
        self.calls += 1
        now = time.monotonic()
        read = read_of(self.calls, word, shard=shard, by=by)
        excerpt = self.shard.catalog.excerpt(by, PARTITION)
        call = ReadCall(read, now, now + seconds)
        self.pool.submit(LongRead(call, read, excerpt, None, START), now)
        return self.calls

    def pump(self, milliseconds: int = 100) -> None:
        """One turn of the loop."""
        select.select([self.pool.descriptor], [], [], milliseconds / 1000)
        self.pool.receive(time.monotonic())
        self.pool.sweep(time.monotonic())

    def answer(self, call: int) -> Answer:
        """Turn until a read is answered."""
        deadline = time.monotonic() + 30
        while call not in self.answers:
            assert time.monotonic() < deadline
            self.pump()
        return self.answers.pop(call)

    def result(self, call: int) -> Any:
        answer = self.answer(call)
        assert not answer.refused, code_of(answer)
        return msgspec.json.decode(answer.payload)


def read_of(call: int, word: str, *, shard: int = 0, by: str = "ann") -> Read:
    reference = EntityRef(partition=reference_of(PARTITION), collection="orders", id=word)
    payload = msgspec.msgpack.encode(GetDocumentRequest(reference=reference))
    return Read(call, shard, "keyload_documents_get", by, 1, PARTITION, payload)


@pytest.fixture
def pool(open_shard: OpenShard, tmp_path: Path) -> Iterator[Pool]:
    shard = open_shard(resources=[collection()], principals=[principal(), principal("bob")])
    shard.commit(*(PutDocument(collection="orders", id=f"d{n}", json="{}") for n in range(20)))
    # shard 0 would read its catalog from the store, so the files are those of shard 1
    (tmp_path / "shard-1").symlink_to(tmp_path / "shard-0")
    (tmp_path / "shard-2").symlink_to(tmp_path / "shard-0")
    pool = Pool(shard, tmp_path)
    yield pool
    pool.pool.close()


def records(shard: Shard) -> int:
    return len(shard.content())


def ended(process_id: int) -> bool:
    return not Path(f"/proc/{process_id}").exists()


@pytest.mark.covers("STO-13", "STO-14")
def test_a_long_read_sees_one_cut_while_the_shard_goes_on_writing(pool: Pool, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    before = records(pool.shard)
    call = pool.ask(f"twice:{pipe}", shard=1)
    descriptor = os.open(pipe, os.O_WRONLY)  # waits until the read has counted once
    pool.shard.commit(PutDocument(collection="orders", id="later", json="{}"))
    os.close(descriptor)
    assert pool.result(call) == [before, before]
    assert pool.result(pool.ask("count", shard=1)) == records(pool.shard) > before


@pytest.mark.covers("STO-14", "ADM-25")
def test_a_read_over_its_time_ends_and_its_process_makes_the_next_one(pool: Pool) -> None:
    count = pool.result(pool.ask("count", shard=1))
    before = pool.pool.process_ids
    late = pool.ask("scan", seconds=0.2, shard=1)
    assert code_of(pool.answer(late)) == "BudgetExceeded"
    assert pool.result(pool.ask("count", shard=1)) == count
    assert pool.pool.process_ids == before


@pytest.mark.covers("STO-14", "CLU-9")
def test_a_process_that_does_not_end_its_read_is_ended(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "GRACE_SECONDS", 0.1)
    late = pool.ask("spin", seconds=0.2, shard=1)
    [process] = pool.pool.process_ids
    assert code_of(pool.answer(late)) == "BudgetExceeded"
    assert ended(process)
    assert pool.result(pool.ask("count", shard=1)) == records(pool.shard)


@pytest.mark.covers("CLU-9")
def test_a_process_that_dies_loses_its_read_and_its_place_in_the_table_of_readers(
    pool: Pool, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    held = pool.ask(f"twice:{pipe}", shard=1)
    descriptor = os.open(pipe, os.O_WRONLY)
    [process] = pool.pool.process_ids
    assert pool.shard.store.reader_check() == 0
    os.kill(process, 9)
    assert code_of(pool.answer(held)) == "OwnershipLost"
    os.close(descriptor)
    assert pool.shard.store.reader_check() == 1
    assert code_of(pool.answer(pool.ask("die", shard=1))) == "OwnershipLost"
    assert pool.result(pool.ask("count", shard=1)) == records(pool.shard)


@pytest.mark.covers("STO-14")
def test_more_long_reads_than_run_or_wait_are_refused(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "MAX_PROCESSES", 2)
    monkeypatch.setattr(pools, "MAX_WAITING", 3)
    calls = [pool.ask("scan", seconds=0.5, shard=1) for _ in range(6)]
    assert pool.pool.running == 2
    assert code_of(pool.answers[calls[5]]) == "ResourceExhausted"
    assert [code_of(pool.answer(call)) for call in calls[:5]] == ["BudgetExceeded"] * 5
    assert len(pool.pool) == 0
    assert pool.result(pool.ask("count", shard=1)) == records(pool.shard)


@pytest.mark.covers("STO-14")
def test_a_cancelled_read_frees_its_process_for_the_next(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "MAX_PROCESSES", 1)
    monkeypatch.setattr(pools, "GRACE_SECONDS", 30.0)
    running, waiting = pool.ask("scan", shard=1), pool.ask("scan", shard=1)
    [process] = pool.pool.process_ids
    for call in (waiting, running):
        pool.pool.cancel(call, time.monotonic())
    assert code_of(pool.answer(waiting)) == "OwnershipLost"
    assert code_of(pool.answer(running)) == "BudgetExceeded"
    assert pool.result(pool.ask("count", shard=1)) == records(pool.shard)
    assert pool.pool.process_ids == [process]


@pytest.mark.covers("CLU-26")
def test_draining_a_shard_ends_its_reads_and_leaves_nobody_with_its_files(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "MAX_PROCESSES", 2)
    of_one, of_two = pool.ask("spin", shard=1), pool.ask("scan", shard=2)
    first, second = pool.pool.process_ids
    waiting = pool.ask("count", shard=1)
    other = pool.ask("count", shard=2)
    pool.pool.drain(1)
    for call in (of_one, waiting):
        assert code_of(pool.answers.pop(call)) == "OwnershipLost"
    assert ended(first)
    assert pool.pool.process_ids == [second]
    assert pool.result(other) == records(pool.shard)
    pool.pool.cancel(of_two, time.monotonic())
    assert code_of(pool.answer(of_two)) == "BudgetExceeded"


@pytest.mark.covers("SEC-41", "CLU-24")
def test_a_long_read_has_the_catalog_of_the_moment_it_was_handed_over(pool: Pool) -> None:
    assert pool.result(pool.ask("names", shard=1)) == [["orders"], ["ann"]]
    pool.shard.feed(resources=[collection("later")])
    assert pool.result(pool.ask("names", shard=1)) == [["later", "orders"], ["ann"]]
    assert code_of(pool.answer(pool.ask("names", by="nobody", shard=1))) == "Unauthenticated"
    pool.shard.feed(principals=[principal(revoked=True)])
    assert code_of(pool.answer(pool.ask("names", shard=1))) == "Unauthenticated"


@pytest.mark.covers("STO-14")
def test_processes_are_started_when_needed_and_ended_when_idle(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pool.pool.process_ids == []
    pool.result(pool.ask("count", shard=1))
    [process] = pool.pool.process_ids
    pool.pool.sweep(time.monotonic() + pools.IDLE_SECONDS - 5)
    assert pool.pool.process_ids == [process]
    pool.pool.sweep(time.monotonic() + pools.IDLE_SECONDS + 1)
    assert pool.pool.process_ids == []
    assert ended(process)


@pytest.mark.covers("CLU-9")
def test_a_reader_process_ends_with_its_worker(pool: Pool, tmp_path: Path) -> None:
    process = ReaderProcess(Setup(0, str(tmp_path), INCARNATION, 3), 0.0, COMMAND)
    process.socket.close()  # as the kernel does when the worker is killed
    assert process.wait(10) == 0


@pytest.mark.covers("STO-14")
def test_without_processes_long_reads_are_lost_and_others_go_on(tmp_path: Path) -> None:
    answers: list[Answer] = []
    pool = ReaderPool(
        Setup(0, str(tmp_path), INCARNATION, 3),
        lambda call, answer: answers.append(answer),
        ("/nothing/here",),
    )
    call = ReadCall(read_of(1, "count"), 0.0, 60.0)
    pool.submit(LongRead(call, read_of(1, "count"), Catalog().excerpt("ann", None), None, START), 0.0)
    assert [code_of(answer) for answer in answers] == ["OwnershipLost"]
    pool.close()


def test_frames_are_cut_wherever_the_stream_is_cut() -> None:
    results = [Result(number, bool(number % 2), b"x" * number * 100) for number in range(5)]
    stream = b"".join(framed(result) for result in results)
    for step in (1, 3, 7, 4096):
        frames = Frames[Result](Result)
        found = [
            result
            for start in range(0, len(stream), step)
            for result in frames.take(stream[start : start + step])
        ]
        assert found == results
    with pytest.raises(ValueError, match="too long"):
        list(Frames[Result](Result).take(b"\xff" * 5))


# -- through a whole worker


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[WorkerUnderTest]:
    """A worker whose point reads are long ones."""
    monkeypatch.setattr(readers, "ReaderPool", partial(ReaderPool, command=COMMAND))
    monkeypatch.setattr(readers, "runs_long", lambda operation: operation == "keyload_documents_get")
    worker = WorkerUnderTest(tmp_path / "node", f"ipc://{tmp_path}/front")
    worker.wait_ready()
    worker.configure_collection()
    yield worker
    if not worker.context.closed:
        worker.stop()


@pytest.mark.covers("STO-14", "CLU-24")
def test_commands_and_barriers_go_on_beside_a_long_read(worker: WorkerUnderTest, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    call = worker.send_read("key", f"twice:{pipe}")
    opened: list[int] = []
    opener = threading.Thread(target=lambda: opened.append(os.open(pipe, os.O_WRONLY)))
    opener.start()
    while opener.is_alive():
        worker.pump(20)
    assert isinstance(worker.commit(put("key", "one", "{}")), Reply)
    worker.confirm()
    assert not worker.has_answer(call)
    os.close(opened[0])
    before, again = document(worker.answer(call))
    assert before == again
    after = document(worker.answer(worker.send_read("key", "count")))
    assert after > before, "a read begun after an acknowledged write sees it"


@pytest.mark.covers("STO-14", "ADM-25")
def test_the_front_can_cancel_and_time_ends_what_nobody_cancels(
    worker: WorkerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = worker.send_read("key", "scan")
    worker.confirm()
    worker.send(Cancel(call))
    assert problem(worker.answer(call)).error_code in ("BudgetExceeded", "OwnershipLost")
    monkeypatch.setattr(readers, "LONG_SECONDS", 0.2)
    assert problem(worker.answer(worker.send_read("key", "scan"))).error_code == "BudgetExceeded"


@pytest.mark.covers("STO-14")
def test_a_worker_frees_the_places_of_dead_readers_by_itself(worker: WorkerUnderTest, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    call = worker.send_read("key", f"twice:{pipe}")
    opened: list[int] = []
    opener = threading.Thread(target=lambda: opened.append(os.open(pipe, os.O_WRONLY)))
    opener.start()
    while opener.is_alive():
        worker.pump(20)
    [process] = worker.worker.reads.pool.process_ids
    shard = data_shard(atomic_partition_id(*partition("key")), SHARDS)
    directory = tmp_path / "node" / "worker-0" / f"shard-{shard}"
    program = "import lmdb, sys; print(lmdb.open(sys.argv[1], readonly=True, lib_version=0).readers())"

    def readers_of_the_state() -> str:
        command = [sys.executable, "-c", program, str(directory)]
        return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()

    assert f"{process} " in readers_of_the_state()
    os.kill(process, 9)
    assert problem(worker.answer(call)).error_code == "OwnershipLost"
    os.close(opened[0])
    deadline = time.monotonic() + 30
    while f"{process} " in readers_of_the_state():
        assert time.monotonic() < deadline
        worker.pump(50)


@pytest.mark.covers("CLU-30", "ADM-18")
def test_when_the_worker_stops_its_long_reads_are_refused_and_their_processes_gone(
    worker: WorkerUnderTest,
) -> None:
    call = worker.send_read("key", "spin")
    while not worker.worker.reads.pool.process_ids:
        worker.pump(10)
    [process] = worker.worker.reads.pool.process_ids
    last = worker.stop()
    [refusal] = [message for message in last if isinstance(message, Refusal)]
    assert (refusal.call, problem(refusal).error_code) == (call, "OwnershipLost")
    assert ended(process)
