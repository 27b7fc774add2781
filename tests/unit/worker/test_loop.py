"""A whole worker of one node: commands, reads, confirmations, restarts and refusals over its real sockets."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from keyload.codec.identity import atomic_partition_id, data_shard
from keyload.contract.errors import KeyLoadError
from keyload.contract.shared import CommitReceipt
from keyload.front.scrape import WorkerState
from keyload.link import framing
from keyload.link.launch import CommandLimits
from keyload.link.messages import Cancel, Confirmed, Read, Refusal, Reply, Usage
from keyload.models.partitions import load_meta
from keyload.storage.pages import PAGE_BYTES
from keyload.worker import loop, space
from keyload.worker.__main__ import build
from tests.unit.shards import SECOND, START
from tests.unit.worker.support import SHARDS, WorkerUnderTest, partition, problem, put

Start = Callable[..., WorkerUnderTest]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[WorkerUnderTest] = []

    def make(**settings: Any) -> WorkerUnderTest:
        endpoint = f"ipc://{tmp_path}/front-{len(running)}"
        worker = WorkerUnderTest(tmp_path / "node", endpoint, **settings)
        running.append(worker)
        return worker

    yield make
    for worker in running:
        if not worker.context.closed:
            worker.stop()


def revision_of(answer: Reply | Refusal | Confirmed) -> int:
    assert isinstance(answer, Reply), problem(answer)
    return msgspec.json.decode(answer.payload, type=CommitReceipt).mutations[0].revision


def document(answer: Reply | Refusal | Confirmed) -> Any:
    assert isinstance(answer, Reply), problem(answer)
    return msgspec.json.decode(answer.payload)


def usage_of(worker: WorkerUnderTest) -> Any:
    usage = Usage(worker.number())
    worker.send(usage)
    return document(worker.answer(usage.call))


@pytest.mark.covers("CMD-12", "CMD-30", "CLU-24")
def test_a_document_is_committed_and_read_back_in_every_shard(start: Start) -> None:
    worker = start()
    worker.wait_ready()
    worker.configure_collection()
    for number in range(12):
        assert revision_of(worker.commit(put(f"key{number}", "doc", f'{{"n": {number}}}'))) == 1
        read = document(worker.read_document(f"key{number}", "doc"))
        assert (read["json"], read["revision"]) == (f'{{"n": {number}}}', 1)


@pytest.mark.covers("CMD-18", "STO-6")
def test_after_a_restart_data_receipts_and_catalog_are_the_same(start: Start) -> None:
    first = start()
    first.wait_ready()
    first.configure_collection()
    tree = put("key", "doc", '{"a":1}')
    before = first.commit(tree)
    first.stop()
    second = start()
    second.wait_ready()
    assert isinstance(before, Reply)
    again = second.commit(tree)
    assert isinstance(again, Reply)
    assert again.payload == before.payload
    assert document(second.read_document("key", "doc"))["revision"] == 1


@pytest.mark.covers("STO-5")
def test_after_the_machine_stopped_the_state_is_put_back(start: Start, tmp_path: Path) -> None:
    first = start()
    first.wait_ready()
    first.configure_collection()
    tree = put("key", "doc", '{"a":1}')
    before = first.commit(tree)
    shard = data_shard(atomic_partition_id(*partition("key")), SHARDS)
    first.stop()
    state = tmp_path / "node" / "worker-0" / f"shard-{shard}" / "data.mdb"
    state.write_bytes(bytes(2 * PAGE_BYTES) + state.read_bytes()[2 * PAGE_BYTES :])
    (tmp_path / "node" / "worker-0" / "boot").write_text('{"boot_id":"another","clean":false}')
    second = start()
    second.wait_ready()
    again = second.commit(tree)
    assert isinstance(before, Reply)
    assert isinstance(again, Reply)
    assert again.payload == before.payload
    assert document(second.read_document("key", "doc"))["json"] == '{"a":1}'


@pytest.mark.covers("CMD-18", "CMD-28")
def test_the_same_command_many_times_in_one_frame_takes_effect_once(start: Start) -> None:
    worker = start()
    worker.wait_ready()
    worker.configure_collection()
    tree = put("key", "doc", "{}")
    identity = uuid.UUID(tree["commandId"])
    commands = [worker.command("keyload_documents_commit", tree, "key", identity) for _ in range(50)]
    worker.send(*commands)
    answers = [worker.answer(command.call) for command in commands]
    assert len({answer.payload for answer in answers if isinstance(answer, Reply)}) == 1
    assert len(answers) == 50
    assert document(worker.read_document("key", "doc"))["revision"] == 1


@pytest.mark.covers("CLU-24", "SEC-3")
def test_a_confirmation_follows_every_catalog_change_acknowledged_before_it(start: Start) -> None:
    worker = start()
    worker.wait_ready()
    for number in range(5):
        worker.configure_collection(name=f"c{number}")
        confirmed = worker.confirm()
        assert isinstance(confirmed, Confirmed)
        assert confirmed.catalog_version == worker.catalog.version
        assert worker.catalog.resource("acme", "app", f"c{number}") is not None


@pytest.mark.covers("CLU-11", "CLU-25", "CLU-28")
def test_a_minority_answers_neither_reads_nor_writes(start: Start) -> None:
    worker = start(absent_peers=True, call_ms=300)
    read = Read(worker.number(), 1, "keyload_admin_status", "root", 0, None, b"")
    command = worker.command("keyload_admin_dispatch", True, None, uuid.uuid4())
    worker.send(read, command)
    began = time.monotonic()
    assert problem(worker.answer(read.call)).error_code == "OwnershipLost"
    assert problem(worker.answer(command.call)).error_code == "OwnershipLost"
    assert time.monotonic() - began < 5.0


@pytest.mark.covers("ADM-12", "ADM-15")
def test_more_commands_than_the_gate_holds_are_refused_and_leave_no_trace(start: Start) -> None:
    worker = start(absent_peers=True, call_ms=1500, commands=CommandLimits(max_commands=3))
    commands = [worker.command("keyload_admin_dispatch", True, None, uuid.uuid4()) for _ in range(5)]
    worker.send(*commands)
    codes = [problem(worker.answer(command.call)).error_code for command in commands]
    assert sorted(codes) == ["OwnershipLost"] * 3 + ["ResourceExhausted"] * 2
    counts = usage_of(worker)
    assert (counts["commands"], counts["retainedBytes"], counts["tenants"]) == (0, 0, [])


@pytest.mark.covers("ADM-12", "ADM-21", "CON-177")
def test_a_full_queue_of_a_shard_takes_control_commands_and_no_others(start: Start) -> None:
    worker = start(absent_peers=True, call_ms=1500, commands=CommandLimits(writer_queue=2))
    data = [worker.command("keyload_admin_dispatch", True, None, uuid.uuid4()) for _ in range(3)]
    control = msgspec.structs.replace(data[0], call=worker.number(), control=True)
    worker.send(*data, control)
    assert problem(worker.answer(data[2].call)).error_code == "ResourceExhausted"
    counts = usage_of(worker)
    assert (counts["commands"], counts["controlCommands"]) == (2, 1)
    assert problem(worker.answer(control.call)).error_code == "OwnershipLost"


@pytest.mark.covers("ADM-16")
def test_a_command_that_was_admitted_keeps_its_slot_whatever_the_front_takes_back(start: Start) -> None:
    worker = start(absent_peers=True, call_ms=3000, commands=CommandLimits(max_commands=1))
    admitted = worker.command("keyload_admin_dispatch", True, None, uuid.uuid4())
    worker.send(admitted, Cancel(admitted.call))
    counts = usage_of(worker)
    assert counts["commands"] == 1
    refused = worker.command("keyload_admin_dispatch", True, None, uuid.uuid4())
    worker.send(refused)
    assert problem(worker.answer(refused.call)).error_code == "ResourceExhausted"
    assert not worker.has_answer(admitted.call)
    assert problem(worker.answer(admitted.call)).error_code == "OwnershipLost"
    assert usage_of(worker)["commands"] == 0


@pytest.mark.covers("ADM-15", "ADM-24", "CON-179")
def test_a_refused_command_has_used_no_identity_and_runs_when_it_comes_again(start: Start) -> None:
    worker = start(commands=CommandLimits(max_commands=1))
    worker.wait_ready()
    worker.configure_collection()
    trees = [put("key", name, "{}") for name in ("a", "b")]
    commands = [
        worker.command("keyload_documents_commit", tree, "key", uuid.UUID(tree["commandId"]))
        for tree in trees
    ]
    worker.send(*commands)
    assert revision_of(worker.answer(commands[0].call)) == 1
    assert problem(worker.answer(commands[1].call)).error_code == "ResourceExhausted"
    assert document(worker.read_document("key", "b")) is None
    assert revision_of(worker.commit(trees[1])) == 1


@pytest.mark.covers("STO-12", "STO-19", "ADM-24")
@pytest.mark.parametrize("bound", [{"minimum_free_bytes": 1 << 62}, {"maximum_bytes": 1 << 12}])
def test_without_room_new_writes_are_refused_and_reads_go_on(start: Start, bound: dict[str, int]) -> None:
    first = start()
    first.wait_ready()
    first.configure_collection()
    tree = put("key", "doc", "{}")
    assert revision_of(first.commit(tree)) == 1
    first.stop()
    full = start(**bound)
    full.wait_ready()
    later = put("key", "other", "{}")
    assert problem(full.commit(later)).error_code == "ResourceExhausted"
    assert document(full.read_document("key", "doc"))["revision"] == 1
    full.stop()
    again = start()
    again.wait_ready()
    assert revision_of(again.commit(later)) == 1, "the refusal used no identity"


@pytest.mark.covers("STO-4")
def test_a_log_that_lacks_what_the_state_holds_is_corruption(start: Start) -> None:
    worker = start()
    worker.wait_ready()
    segment = next(Path(worker.launch.directory).glob("worker-0/wal/*.log"))
    before = segment.read_bytes()
    worker.configure_collection()
    worker.stop()
    segment.write_bytes(before)
    with zmq.Context() as context, pytest.raises(KeyLoadError) as refused:
        build(worker.launch, context=context, step=lambda _: None, lifeline=0)
    assert refused.value.code == "Corruption"


@pytest.mark.covers("ADM-18", "CLU-9")
def test_when_the_lifeline_ends_what_waits_is_answered_and_the_worker_returns(start: Start) -> None:
    worker = start(absent_peers=True, call_ms=60_000)
    command = worker.command("keyload_admin_dispatch", True, None, uuid.uuid4())
    worker.send(command)
    while not usage_of(worker)["commands"]:
        pass
    last = worker.stop()
    codes = [problem(message).error_code for message in last if isinstance(message, Refusal)]
    assert codes == ["OwnershipLost"]


def test_a_malformed_frame_is_dropped_and_the_next_one_works(start: Start) -> None:
    worker = start()
    worker.wait_ready()
    worker.front.send(b"\xc1 not a frame")
    worker.front.send(framing.pack([["?", 1]]))
    assert isinstance(worker.confirm(), Confirmed)


@pytest.mark.covers("CMD-29", "STO-10")
def test_commands_of_one_frame_share_turns_and_each_takes_its_own_position(start: Start) -> None:
    worker = start()
    worker.wait_ready()
    worker.configure_collection()
    trees = [put("one", f"doc{number}", "{}") for number in range(256)]
    commands = [
        worker.command("keyload_documents_commit", tree, "one", uuid.UUID(tree["commandId"]))
        for tree in trees
    ]
    worker.send(*commands)
    receipts = []
    for command in commands:
        answer = worker.answer(command.call)
        assert isinstance(answer, Reply)
        receipts.append(msgspec.json.decode(answer.payload, type=CommitReceipt))
    positions = [receipt.token.position for receipt in receipts]
    assert positions == list(range(positions[0], positions[0] + 256))
    states = usage_of(worker)["shards"]
    assert max(state["applied"] for state in states if state["shard"] > 0) <= 4, "256 commands, few entries"


@pytest.mark.covers("CLU-29")
def test_a_worker_tells_role_term_position_and_log_size_of_every_shard(start: Start) -> None:
    worker = start()
    worker.wait_ready()
    worker.configure_collection()
    before = {state["shard"]: state for state in usage_of(worker)["shards"]}
    assert isinstance(worker.commit(put("key", "doc", "{}")), Reply)
    state = msgspec.convert(usage_of(worker), WorkerState)
    assert [shard.shard for shard in state.shards] == list(range(SHARDS + 1))
    for shard in state.shards:
        assert (shard.role, shard.term, shard.leader) == ("leader", 1, 1)
        assert shard.applied == shard.commit >= 1
    changed = data_shard(atomic_partition_id(*partition("key")), SHARDS)
    assert state.shards[changed].log_bytes > before[changed]["logBytes"]


@pytest.mark.covers("STO-12")
def test_with_room_again_writes_go_on_without_an_operator(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [1 << 40]
    monkeypatch.setattr(space, "free_bytes", lambda directory: free[0])
    worker = start()
    worker.wait_ready()
    worker.configure_collection()
    assert revision_of(worker.commit(put("key", "doc", "{}"))) == 1
    free[0] = worker.launch.minimum_free_bytes - 1
    deadline = time.monotonic() + 20
    while isinstance(refused := worker.commit(later := put("key", "later", "{}")), Reply):
        assert time.monotonic() < deadline, "the worker looks at its disk once a second"
    assert problem(refused).error_code == "ResourceExhausted"
    assert document(worker.read_document("key", "doc"))["revision"] == 1
    before = document(worker.read_document("key", "later"))
    free[0] += 1
    while isinstance(answer := worker.commit(later), Refusal):
        assert time.monotonic() < deadline
    assert revision_of(answer) == 1 + (before["revision"] if before else 0), "the refusal used no identity"


@pytest.mark.covers("SCH-2")
def test_a_clock_that_jumps_never_takes_the_instants_back(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [START]
    monkeypatch.setattr(loop, "wall_ticks", lambda: clock[0])
    worker = start()
    worker.wait_ready()
    worker.configure_collection()
    instants: list[int] = []

    def commit(ticks: int) -> Reply | Refusal | Confirmed:
        clock[0] = ticks
        return worker.commit(put("key", str(uuid.uuid4()), "{}"))

    for jump in (0, 3600 * SECOND, 3600 * SECOND - SECOND // 5):
        answer = commit(START + jump)
        assert isinstance(answer, Reply), problem(answer)
        instants.append(last_instant(worker, "key"))
    assert instants == [START, START + 3600 * SECOND, START + 3600 * SECOND]
    assert problem(commit(START + 3600 * SECOND - SECOND)).error_code == "ClockUncertain"
    assert isinstance(worker.confirm(), Confirmed), "reads go on"
    assert isinstance(commit(START + 3601 * SECOND), Reply)
    assert last_instant(worker, "key") == START + 3601 * SECOND


def last_instant(worker: WorkerUnderTest, key: str) -> int:
    """The instant of the last command in the shard of a partition."""
    shard = data_shard(atomic_partition_id(*partition(key)), SHARDS)
    with worker.worker._shards[shard].store.reader() as reader:
        return load_meta(reader).instant
