"""Commands through the executor: identity, replay, denial, clock, batches, evidence (commands.md)."""

from __future__ import annotations

import logging
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from keyload.consensus.config import MIB, Config
from keyload.contract.catalog import IndexDefinition
from keyload.contract.documents import DeleteDocument, FieldPatch, PatchDocument, PatchKind, PutDocument
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.limits import BATCH_MAX_BYTES
from keyload.link.framing import FLUSH_BYTES, MAX_FRAME_BYTES
from keyload.link.messages import INTERNAL
from keyload.models import MUTATIONS
from keyload.models.context import CommandContext, Evidence, MutationHandler, refuse
from keyload.models.partitions import load_head, load_meta, partition_number
from keyload.storage.segments import SEGMENT_BYTES
from keyload.storage.txn import Txn
from keyload.worker.batch import Answer, Pending
from keyload.worker.executor import (
    CLOCK_TOLERANCE,
    MAX_COMMAND_WRITE_BYTES,
    MAX_WRITE_BYTES,
    TICKS_PER_DAY,
)
from keyload.worker.outcomes import OUTCOME, outcome_prefix
from tests.unit.shards import (
    PARTITION,
    SECOND,
    START,
    Shard,
    code_of,
    collection,
    command_id,
    principal,
    result_of,
)

from .conftest import OpenShard

OTHER = ("acme", "shop", "sales", "us")


def put(document_id: str = "a", text: str = "{}", **more: Any) -> PutDocument:
    return PutDocument(collection="orders", id=document_id, json=text, **more)


@pytest.fixture
def shard(open_shard: OpenShard) -> Shard:
    return open_shard(resources=[collection()], principals=[principal(), principal("bob")])


def counters(shard: Shard) -> tuple[int, int, int]:
    """Commit position, outbox tail of the usual partition, and revision of document a."""
    with shard.store.reader() as reader:
        number = partition_number(reader, PARTITION)
        tail = 0 if number is None else load_head(reader, number).outbox_tail
        position = load_meta(reader).position
    found = shard.get("a")
    return position, tail, 0 if found is None else found.revision


@pytest.mark.covers("CMD-12", "CMD-13", "CMD-32", "CON-73")
def test_receipt(shard: Shard) -> None:
    receipt = shard.commit(put(), put("b"), identity=command_id(77))
    assert receipt.command_id == command_id(77)
    assert receipt.token.incarnation == shard.executor.incarnation
    assert receipt.token.position == 1
    assert receipt.token.ownership_epoch == 1
    assert len(receipt.token.atomic_partition_id) == 64
    assert [(r.kind, r.resource, r.id, r.revision) for r in receipt.mutations] == [
        ("putDocument", "orders", "a", 1),
        ("putDocument", "orders", "b", 1),
    ]
    assert receipt.durability == "LocalDurable"


@pytest.mark.covers("CMD-18", "CMD-26", "CMD-28", "CON-58")
def test_replays_are_byte_equal_and_without_effect(shard: Shard) -> None:
    command = shard.commit_command([put()], identity=command_id(1))
    first = shard.run(command)[0]
    revisions = counters(shard)[1:]
    for _ in range(100):
        assert shard.run(command) == [first]
    shard.new_executor()
    shard.now += SECOND
    assert shard.run(*[command] * 100) == [first] * 100
    assert counters(shard) == (201, *revisions)
    with shard.store.reader() as reader:
        assert load_meta(reader).instant == shard.now


@pytest.mark.covers("CMD-18")
def test_a_repeat_in_the_same_batch_is_a_replay(shard: Shard) -> None:
    command = shard.commit_command([put()])
    first, second = shard.run(command, command)
    assert first == second
    assert counters(shard) == (2, 1, 1)


@pytest.mark.covers("CMD-19", "CON-60")
def test_other_content_is_a_conflict_and_changes_nothing(shard: Shard) -> None:
    command = shard.commit_command([put()], identity=command_id(1))
    first = shard.run(command)
    other = shard.commit_command([put(text='{"x":1}')], identity=command_id(1))
    assert code_of(shard.run(other)[0]) == ErrorCode.CONFLICT
    assert shard.run(command) == first
    assert shard.get("a").json == "{}"


@pytest.mark.covers("CMD-20", "CON-61")
def test_definite_failures_are_stored(shard: Shard) -> None:
    stale = shard.commit_command([put(expected_revision=1)])
    first = shard.run(stale)
    assert code_of(first[0]) == ErrorCode.REVISION_CONFLICT
    shard.commit(put())
    assert shard.run(stale) == first
    assert counters(shard)[1:] == (1, 1)


@pytest.mark.covers("CMD-20", "CMD-22", "CMD-23", "CON-63", "SEC-35")
def test_denials_are_stored_and_epochs_end_replay(shard: Shard) -> None:
    shard.feed(principals=[principal("bob", "None")])
    denied = shard.commit_command([put()], by="bob")
    assert code_of(shard.run(denied)[0]) == ErrorCode.PERMISSION_DENIED
    shard.feed(principals=[principal("bob", "All", policy_epoch=1)])
    assert code_of(shard.run(denied)[0]) == ErrorCode.PERMISSION_DENIED
    allowed = shard.commit_command([put()], by="bob")
    first = shard.run(allowed)
    assert code_of(first[0]) == "ok"
    shard.feed(principals=[principal("bob", "None", policy_epoch=2)])
    assert code_of(shard.run(allowed)[0]) == ErrorCode.PERMISSION_DENIED
    shard.feed(principals=[principal("bob", "All", policy_epoch=3)])
    assert code_of(shard.run(allowed)[0]) == ErrorCode.PERMISSION_DENIED
    shard.feed(principals=[principal("bob", "All", policy_epoch=1)])
    assert shard.run(allowed) == first
    assert counters(shard)[1:] == (1, 1)


@pytest.mark.covers("CMD-15", "CMD-16", "CON-57")
def test_scopes_and_principals_do_not_share_identities(shard: Shard) -> None:
    same = command_id(5)
    commands = [
        shard.commit_command([put(who)], identity=same, by=who, partition=partition)
        for who in ("ann", "bob")
        for partition in (PARTITION, OTHER)
    ]
    assert [code_of(answer) for answer in shard.run(*commands)] == ["ok"] * 4


@pytest.mark.covers("CMD-10", "CMD-21", "CON-62")
def test_another_ownership_epoch_is_refused_without_outcome(shard: Shard) -> None:
    wrong = shard.commit_command([put()], identity=command_id(3), epoch=2)
    before = shard.content()
    assert code_of(shard.run(wrong)[0]) == ErrorCode.OWNERSHIP_LOST
    assert shard.content() == before
    assert shard.last is not None
    assert (shard.last.count, shard.last.writes) == (0, {})
    shard.commit(put(), identity=command_id(3))


@pytest.mark.covers("SEC-3", "SEC-4", "CMD-21")
def test_invalid_principals_are_unauthenticated_and_unstored(shard: Shard) -> None:
    expiry = "2024-10-04T00:00:01+00:00"
    assert START == 20_000 * 86_400 * SECOND
    shard.feed(principals=[principal("gone", revoked=True), principal("old", expires_at=expiry)])
    same = command_id(9)
    for name in ("gone", "nobody"):
        assert code_of(shard.run(shard.commit_command([put()], by=name))[0]) == ErrorCode.UNAUTHENTICATED
    shard.now = START + SECOND - 1
    shard.commit(put(), by="old", identity=same)
    shard.now = START + SECOND
    before = shard.content()
    replay = shard.commit_command([put()], by="old", identity=same)
    assert code_of(shard.run(replay)[0]) == ErrorCode.UNAUTHENTICATED
    assert shard.content() == before


@pytest.mark.covers("CMD-24", "CON-65")
def test_outcomes_of_another_incarnation_are_void(shard: Shard) -> None:
    command = shard.commit_command([put()])
    shard.run(command)
    shard.new_executor(incarnation="11111111-2222-3333-4444-555555555555")
    assert code_of(shard.run(command)[0]) == ErrorCode.TOKEN_INVALIDATED
    assert counters(shard)[1:] == (1, 1)


@pytest.mark.covers("CMD-22", "CMD-25")
@pytest.mark.parametrize("damage", [b"\xc1", b"\x90", b"contradiction"])
def test_damaged_outcomes_are_corruption_but_not_to_the_revoked(shard: Shard, damage: bytes) -> None:
    command = shard.commit_command([put()], by="bob")
    shard.run(command)
    with shard.store.reader() as reader:
        number = partition_number(reader, PARTITION)
        assert number is not None
        key = outcome_prefix(number, "bob") + command.command_id
        stored = reader.get(key)
        assert stored is not None
    if damage == b"contradiction":
        damage = OUTCOME.encode(replace(OUTCOME.decode(stored), result=b"true"))
    shard.apply({key: damage})
    assert code_of(shard.run(command)[0]) == ErrorCode.CORRUPTION
    shard.feed(principals=[principal("bob", "None", policy_epoch=2)])
    assert code_of(shard.run(command)[0]) == ErrorCode.PERMISSION_DENIED
    with shard.store.reader() as reader:
        assert reader.get(key) == damage


@pytest.mark.covers("SCH-1", "SCH-2", "SCH-3", "CON-72")
def test_the_instant_never_falls(shard: Shard) -> None:
    stored = shard.commit_command([put()])
    first = shard.run(stored)
    shard.now = START - CLOCK_TOLERANCE
    shard.commit(put("b"))
    assert shard.last is not None
    assert (shard.last.instant, shard.last.clock_uncertain) == (START, False)
    shard.now = START - CLOCK_TOLERANCE - 1
    fresh = shard.commit_command([put("c")])
    answers = shard.run(fresh, stored)
    assert [code_of(answer) for answer in answers] == [ErrorCode.CLOCK_UNCERTAIN, "ok"]
    assert answers[1:] == first
    assert shard.last.clock_uncertain
    shard.now = START + 5
    assert code_of(shard.run(fresh)[0]) == "ok"
    assert shard.last.instant == START + 5


@pytest.mark.covers("CMD-29")
def test_positions_count_logged_commands(shard: Shard) -> None:
    done = shard.commit_command([put()])
    shard.run(done)
    fresh = shard.commit_command([put("c")])
    shard.run(shard.commit_command([put(expected_revision=9)]), done, fresh)
    assert result_of(shard.run(fresh)[0], "keyload_documents_commit").token.position == 4
    assert shard.last is not None
    assert (shard.last.count, shard.last.position) == (1, 5)


@pytest.mark.covers("STO-23")
def test_partition_numbers_are_given_once(shard: Shard) -> None:
    for key in ("x", "y", "x"):
        shard.commit(put(), partition=("acme", "shop", "sales", key))
    with shard.store.reader() as reader:
        numbers = [partition_number(reader, ("acme", "shop", "sales", key)) for key in ("x", "y", "z")]
        assert (numbers, load_meta(reader).next_number) == ([2, 3, None], 4)


def test_a_batch_closes_at_256_commands_and_4_mib(shard: Shard) -> None:
    commands = [shard.commit_command([put(str(n))]) for n in range(300)]
    assert len(shard.run(*commands)) == 256
    big = "x" * 1_000_000
    large = [shard.commit_command([put(f"big{n}", f'{{"a":"{big}"}}')]) for n in range(5)]
    answers = shard.run(*large)
    assert len(answers) == 3
    assert {code_of(answer) for answer in answers} == {"ok"}
    assert shard.last is not None
    assert shard.last.taken == 3


@pytest.mark.covers("CMD-7", "CON-53")
def test_mutations_of_8_mib_pass_and_one_byte_more_does_not(shard: Shard) -> None:
    def sized(size: int) -> list[PutDocument]:
        full = [put(str(number), f'{{"a":"{"x" * 1_000_000}"}}') for number in range(8)]
        spare = size - len(msgspec.msgpack.encode([*full, put("9", f'{{"a":"{"x" * 100_000}"}}')]))
        return [*full, put("9", f'{{"a":"{"x" * (100_000 + spare)}"}}')]

    assert len(msgspec.msgpack.encode(sized(BATCH_MAX_BYTES))) == BATCH_MAX_BYTES
    command = shard.commit_command(sized(BATCH_MAX_BYTES + 1))
    assert code_of(shard.run(command)[0]) == ErrorCode.RESOURCE_EXHAUSTED
    assert len(shard.commit(*sized(BATCH_MAX_BYTES)).mutations) == 9


@pytest.mark.covers("CMD-8")
def test_derived_effects_count_toward_the_256(open_shard: OpenShard) -> None:
    def twice(context: CommandContext, mutation: PutDocument) -> Any:
        apply = MUTATIONS["putDocument"].apply
        return (*apply(context, mutation), *apply(context, mutation))

    double = MutationHandler(authorize=MUTATIONS["putDocument"].authorize, apply=twice)
    shard = open_shard(
        resources=[collection()],
        principals=[principal()],
        mutations={**MUTATIONS, "putDocument": double},
    )
    many = [put(str(number)) for number in range(129)]
    assert code_of(shard.run(shard.commit_command(many))[0]) == ErrorCode.RESOURCE_EXHAUSTED
    assert len(shard.commit(*many[:128]).mutations) == 256


@pytest.mark.covers("CMD-8")
def test_a_small_request_cannot_write_more_than_an_entry_may_hold(shard: Shard) -> None:
    long = f'{{"a":"{"x" * 1_000_000}"}}'
    for start in range(0, 24, 8):
        shard.commit(*[put(str(number), long) for number in range(start, start + 8)])
    before = shard.content()
    step = FieldPatch(path="/b", kind=PatchKind.SET, value_json="1")
    patches = [
        PatchDocument(collection="orders", id="0", expected_revision=revision, patches=(step,))
        for revision in range(1, 257)
    ]
    replaced = [put(str(number)) for number in range(24)]
    deleted = [DeleteDocument(collection="orders", id=str(number)) for number in range(24)]
    for mutations in (patches, replaced, deleted):
        assert code_of(shard.run(shard.commit_command(mutations))[0]) == ErrorCode.RESOURCE_EXHAUSTED
    grown = {key: value for key, value in shard.content().items() if before.get(key) != value}
    assert sum(map(len, grown.values())) < 4096, "only the outcomes"
    assert len(shard.commit(*deleted[:12]).mutations) == 12


def test_the_longest_entry_fits_a_segment_and_a_frame_with_what_may_travel_before_it() -> None:
    entry = MAX_WRITE_BYTES + MAX_COMMAND_WRITE_BYTES
    before = FLUSH_BYTES + Config(id=1, rng=Random(0)).max_inflight_bytes
    assert entry + before + MIB <= min(SEGMENT_BYTES, MAX_FRAME_BYTES)


def test_index_keys_count_toward_what_a_command_may_write(open_shard: OpenShard) -> None:
    indexes = tuple(IndexDefinition(name=f"i{number}", fields=("/a",) * 8) for number in range(4))
    shard = open_shard(resources=[collection(indexes=indexes)], principals=[principal()])
    text = f'{{"a":"{"x" * 1_000_000}"}}'
    assert code_of(shard.run(shard.commit_command([put("a", text)]))[0]) == ErrorCode.RESOURCE_EXHAUSTED
    assert shard.commit(put("a", f'{{"a":"{"x" * 1_000}"}}')).mutations[0].revision == 1


def test_batches_in_flight_are_built_on(shard: Shard) -> None:
    with shard.store.reader() as reader:
        first = shard.executor.execute(reader, [Pending(shard.commit_command([put()]))], shard.catalog, START)
        above = Txn(reader)
        above.writes = first.writes
        again = shard.commit_command([put(expected_revision=1)])
        second = shard.executor.execute(above, [Pending(again)], shard.catalog, START)
    shard.apply(first.writes)
    shard.apply(second.writes)
    assert counters(shard) == (2, 2, 2)


@pytest.mark.covers("CMD-27", "SEC-40")
def test_an_internal_failure_does_not_poison_the_batch(
    open_shard: OpenShard, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(context: CommandContext, mutation: DeleteDocument) -> Any:
        context.txn.put(b"half", b"done")
        raise RuntimeError(mutation.id)

    broken = MutationHandler(authorize=MUTATIONS["deleteDocument"].authorize, apply=fail)
    shard = open_shard(
        resources=[collection()],
        principals=[principal()],
        mutations={**MUTATIONS, "deleteDocument": broken},
    )
    bad = shard.commit_command([DeleteDocument(collection="orders", id="marker-value")])
    with caplog.at_level(logging.ERROR):
        answers = shard.run(shard.commit_command([put()]), bad, shard.commit_command([put("b")]))
    assert [code_of(answer) for answer in answers] == ["ok", ErrorCode.UNKNOWN_WRITE_OUTCOME, "ok"]
    assert b"half" not in shard.content()
    assert "marker-value" not in caplog.text
    assert counters(shard) == (2, 2, 1)


def test_unknown_operations_and_unreadable_requests_are_refused_unstored(shard: Shard) -> None:
    good = shard.commit_command([put()])
    for command, code in (
        (replace(good, operation="internal.bootstrap"), ErrorCode.NOT_FOUND),
        (replace(good, operation="keyload_documents_get"), ErrorCode.NOT_FOUND),
        (replace(good, payload=b"\xc1"), ErrorCode.VALIDATION),
        (replace(good, payload=b"\x80"), ErrorCode.VALIDATION),
        (replace(good, partition=None), ErrorCode.OWNERSHIP_LOST),
    ):
        assert code_of(shard.run(command)[0]) == code
    assert code_of(shard.run(replace(good, principal=INTERNAL))[0]) == ErrorCode.NOT_FOUND
    before = shard.content()
    assert before == {}
    assert code_of(shard.run(replace(good, partition=OTHER))[0]) == ErrorCode.VALIDATION
    assert code_of(shard.run(good)[0]) == "ok"


# --- outcomes are removed in slices -----------------------------------------------------------------------


@pytest.mark.covers("CMD-25", "CON-64")
def test_old_outcomes_are_removed_and_their_ids_count_as_new(shard: Shard) -> None:
    old = shard.commit_command([put(text='{"v":1}')])
    shard.run(old, shard.commit_command([put(expected_revision=9)]))
    shard.now += SECOND
    young = shard.commit_command([put("young")])
    shard.run(young)

    def expire(now: int, limit: int = 1000) -> int:
        with shard.store.reader() as reader:
            writes = shard.executor.expire_outcomes(reader, now, limit)
        shard.apply(writes)
        return len(writes)

    week = 7 * TICKS_PER_DAY
    assert expire(START + week) == 0
    assert expire(START + week + 1) == 3
    assert expire(START + week + 1) == 0
    shard.run(young)
    assert counters(shard)[1:] == (2, 1)
    shard.run(old)
    assert counters(shard)[1:] == (3, 2)


@pytest.mark.covers("CMD-25")
def test_removal_goes_in_slices_and_never_when_outcomes_are_kept_for_ever(shard: Shard) -> None:
    for start in range(0, 30, 10):
        shard.run(*(shard.commit_command([put(str(start + n))]) for n in range(10)))
        shard.now += 1
    with shard.store.reader() as reader:
        far = START + 8 * TICKS_PER_DAY
        assert len(shard.executor.expire_outcomes(reader, far, 10)) == 11
        assert len(shard.executor.expire_outcomes(reader, far, 11)) == 22
        assert len(shard.executor.expire_outcomes(reader, far, 31)) == 33
        kept = shard.new_executor(outcomes_retention_days=0)
        assert kept.expire_outcomes(reader, far, 10) == {}


def test_outcome_records_are_small(shard: Shard) -> None:
    command = shard.commit_command([put("order-000000017")])
    shard.run(command)
    with shard.store.reader() as reader:
        number = partition_number(reader, PARTITION)
        assert number is not None
        stored = reader.get(outcome_prefix(number, "ann") + command.command_id)
    assert stored is not None
    assert len(stored) < 200


# --- evidence ---------------------------------------------------------------------------------------------


def _copy(context: CommandContext, mutation: DeleteDocument) -> Any:
    """Test mutation: puts what a read of another partition told, if that is not older than position 7."""
    found = context.evidence_of("read_foreign", OTHER, mutation.id.encode())
    if found.refused or int(found.answer) < 7:
        refuse(ErrorCode.REVISION_CONFLICT, "The evidence is too old.")
    return MUTATIONS["putDocument"].apply(
        context, put(mutation.id, found.answer.decode().join(('{"at":', "}")))
    )


COPYING = {
    **MUTATIONS,
    "deleteDocument": MutationHandler(authorize=MUTATIONS["deleteDocument"].authorize, apply=_copy),
}


def test_commands_wait_for_evidence_and_run_again(open_shard: OpenShard) -> None:
    shard = open_shard(resources=[collection()], principals=[principal()], mutations=COPYING)
    asking = shard.commit_command([put("z"), DeleteDocument(collection="orders", id="a")])
    answers = shard.run(shard.commit_command([put("b")]), asking, shard.commit_command([put("c")]))
    assert [code_of(answer) for answer in answers] == ["ok", "waits", "ok"]
    assert shard.last is not None
    assert shard.last.count == 2
    [(place, need)] = shard.last.evidence
    assert (place, need.read, need.partition, need.payload) == (1, "read_foreign", OTHER, b"a")
    assert shard.get("z") is None

    def with_answer(answer: bytes, refused: bool = False) -> Pending:
        evidence = Evidence(need.read, need.partition, need.payload, refused, answer)
        return Pending(asking, (evidence,))

    first = shard.run(with_answer(b"8"))
    assert code_of(first[0]) == "ok"
    assert shard.get("a").json == '{"at":8}'
    assert shard.run(asking) == first
    assert shard.run(with_answer(b"9")) == first


def test_evidence_that_is_too_old_is_refused_by_the_handler(open_shard: OpenShard) -> None:
    shard = open_shard(resources=[collection()], principals=[principal()], mutations=COPYING)
    asking = shard.commit_command([DeleteDocument(collection="orders", id="a")])
    old = Evidence("read_foreign", OTHER, b"a", False, b"6")
    assert code_of(shard.run(Pending(asking, (old,)))[0]) == ErrorCode.REVISION_CONFLICT


def test_a_command_reads_at_most_256_foreign_partitions(open_shard: OpenShard) -> None:
    shard = open_shard(resources=[collection()], principals=[principal()], mutations=COPYING)
    asking = shard.commit_command([DeleteDocument(collection="orders", id="a")])
    items = tuple(Evidence("other", OTHER, bytes([n]), False, b"") for n in range(256))
    assert code_of(shard.run(Pending(asking, items[:255]))[0]) == "waits"
    assert code_of(shard.run(Pending(asking, items))[0]) == ErrorCode.BUDGET_EXCEEDED


def test_answers_are_bytes(shard: Shard) -> None:
    answer = shard.run(shard.commit_command([put()]))[0]
    assert isinstance(answer, Answer)
    assert set(msgspec.json.decode(answer.payload)) == {"commandId", "token", "mutations", "durability"}


def test_a_new_partition_leaves_nothing_behind_when_nothing_was_logged(shard: Shard) -> None:
    with pytest.raises(KeyLoadError):
        shard.commit(put(), epoch=3)
    shard.commit(put(), partition=OTHER)
    with shard.store.reader() as reader:
        assert partition_number(reader, PARTITION) is None
        assert partition_number(reader, OTHER) == 2
