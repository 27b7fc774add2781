"""Reads through the answerer: identity first, bounds last, and no unexpected failure gets out."""

from __future__ import annotations

from typing import Any

import pytest

from keyload.contract.documents import GetDocumentRequest, PutDocument
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.shared import EntityRef
from keyload.models import READS
from keyload.models.budget import Budget
from keyload.models.context import NodeFacts, ReadContext, ReadHandler
from keyload.worker.reads import MAX_RESULT_BYTES, ReadAnswerer
from tests.unit.shards import (
    INCARNATION,
    PARTITION,
    ROOT,
    SECOND,
    START,
    Shard,
    collection,
    partition_ref,
    principal,
)

from .conftest import OpenShard


@pytest.fixture
def shard(open_shard: OpenShard) -> Shard:
    shard = open_shard(resources=[collection()], principals=[principal(), ROOT])
    shard.commit(PutDocument(collection="orders", id="a", json="{}"))
    return shard


def refused(shard: Shard, *arguments: Any, **options: Any) -> str:
    with pytest.raises(KeyLoadError) as caught:
        shard.read(*arguments, **options)
    return str(caught.value.code)


@pytest.mark.covers("SEC-3", "SEC-4")
def test_reads_need_a_valid_principal(shard: Shard) -> None:
    expiry = "2024-10-04T00:00:01+00:00"
    shard.feed(principals=[principal("old", expires_at=expiry), principal("gone", revoked=True)])
    shard.now = START + SECOND - 1
    assert shard.get("a", by="old").revision == 1
    shard.now += 1
    for name in ("old", "gone", "nobody"):
        with pytest.raises(KeyLoadError) as caught:
            shard.get("a", by=name)
        assert caught.value.code == ErrorCode.UNAUTHENTICATED


def answering(shard: Shard, execute: Any) -> None:
    handler = ReadHandler(authorize=lambda context, request: None, execute=execute)
    shard.answerer = ReadAnswerer(
        shard=1, incarnation=INCARNATION, data_shards=3, reads={**READS, "keyload_admin_status": handler}
    )


def test_results_are_bounded(shard: Shard) -> None:
    size = MAX_RESULT_BYTES - 2

    def execute(context: ReadContext, request: None) -> str:
        return "x" * size

    answering(shard, execute)
    with pytest.raises(Exception, match="Expected"):  # the answer passes, and is no NodeStatus
        shard.read("keyload_admin_status", None)
    size += 1
    assert refused(shard, "keyload_admin_status", None) == ErrorCode.BUDGET_EXCEEDED


@pytest.mark.covers("SEC-40")
def test_unexpected_failures_are_ownership_lost(shard: Shard, capsys: pytest.CaptureFixture[str]) -> None:
    def execute(context: ReadContext, request: None) -> None:
        raise RuntimeError("marker-value")

    answering(shard, execute)
    assert refused(shard, "keyload_admin_status", None) == ErrorCode.OWNERSHIP_LOST
    line = capsys.readouterr().err
    assert "RuntimeError" in line
    assert "marker-value" not in line


def test_a_command_is_no_read(shard: Shard) -> None:
    assert refused(shard, "keyload_documents_commit", None) == ErrorCode.NOT_FOUND


@pytest.mark.covers("SEC-22")
def test_status(shard: Shard) -> None:
    facts = NodeFacts(
        node_id="n1",
        leader="n2",
        voters=("n1", "n2", "n3"),
        durability="QuorumDurable",
        applied=7,
        read_generation=0,
    )
    found = shard.read("keyload_admin_status", None, by="root", node=facts)
    assert (found.node_id, found.leader, found.voters, found.applied) == ("n1", "n2", 3, 7)
    assert (found.durability, found.incarnation) == ("QuorumDurable", INCARNATION)
    assert refused(shard, "keyload_admin_status", None, node=facts) == ErrorCode.PERMISSION_DENIED
    assert refused(shard, "keyload_admin_status", None, by="root") == ErrorCode.OWNERSHIP_LOST


def test_budgets_end_when_they_are_passed_not_when_they_are_reached() -> None:
    budget = Budget(records=2, stored_bytes=100)
    budget.charge(2, 100)
    for records, stored_bytes in ((1, 0), (0, 1)):
        with pytest.raises(KeyLoadError) as caught:
            Budget(records=0, stored_bytes=0).charge(records, stored_bytes)
        assert caught.value.code == ErrorCode.BUDGET_EXCEEDED
    late = Budget(late=lambda: True)
    with pytest.raises(KeyLoadError) as caught:
        late.charge(1, 1)
    assert caught.value.code == ErrorCode.BUDGET_EXCEEDED


def test_the_budget_of_a_get(shard: Shard) -> None:
    request = GetDocumentRequest(reference=EntityRef(partition=partition_ref(), collection="orders", id="a"))
    options = {"partition": PARTITION}
    assert shard.read("keyload_documents_get", request, budget=Budget(records=1), **options)
    assert refused(shard, "keyload_documents_get", request, budget=Budget(records=0), **options) == (
        ErrorCode.BUDGET_EXCEEDED
    )
