"""Budgets of one call against room of the node: what each is called, and that neither leaves a trace."""

from __future__ import annotations

import msgspec
import pytest

from keyload.contract.catalog import AdminResourcesRequest
from keyload.contract.documents import GetDocumentRequest, PutDocument
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.limits import LIMITS
from keyload.contract.shared import EntityRef
from keyload.models import budget
from keyload.models.budget import Budget
from keyload.models.catalog import rows
from keyload.worker import readers, reads
from tests.unit.shards import PARTITION, ROOT, Shard, collection, partition_ref, principal

from .conftest import OpenShard

LIST = "keyload_admin_resources_list"
NAMES = ("a", "b", "c")


@pytest.fixture
def system(open_shard: OpenShard) -> Shard:
    shard = open_shard(shard=0)
    found = {rows.row_key(rows.PRINCIPALS, (ROOT.id,)): msgspec.msgpack.encode(ROOT)}
    for name in NAMES:
        key = rows.row_key(rows.RESOURCES, ("acme", "shop", name))
        found[key] = msgspec.msgpack.encode(collection(name))
    shard.apply(found)
    return shard


def listed(shard: Shard, budget: Budget, limit: int = 100) -> list[str]:
    request = AdminResourcesRequest(tenant_id="acme", database_id="shop", limit=limit)
    page = shard.read(LIST, request, by="root", budget=budget)
    return [item.name for item in page.items]


@pytest.mark.covers("ADM-23", "ADM-24", "CON-48", "CON-53")
def test_a_list_charges_records_and_bytes_and_gives_all_or_nothing(system: Shard) -> None:
    size = sum(len(msgspec.msgpack.encode(collection(name))) for name in NAMES)
    assert listed(system, Budget(records=3, stored_bytes=size)) == list(NAMES)
    for short in (Budget(records=2), Budget(stored_bytes=size - 1), Budget(late=lambda: True)):
        with pytest.raises(KeyLoadError) as caught:
            listed(system, short)
        assert caught.value.code is ErrorCode.BUDGET_EXCEEDED
        assert listed(system, Budget()) == list(NAMES), "the next call works"
    assert listed(system, Budget(records=2), limit=1) == ["a"], "one beyond the page is looked at"


@pytest.mark.covers("ADM-23")
def test_missing_and_hidden_records_are_charged_too(open_shard: OpenShard) -> None:
    shard = open_shard(resources=[collection()], principals=[principal(), ROOT])
    shard.commit(PutDocument(collection="orders", id="a", json="{}"))

    def get(document_id: str, records: int) -> object:
        reference = EntityRef(partition=partition_ref(), collection="orders", id=document_id)
        request = GetDocumentRequest(reference=reference)
        return shard.read(
            "keyload_documents_get", request, partition=PARTITION, budget=Budget(records=records)
        )

    for document_id in ("a", "missing"):
        get(document_id, 1)
        with pytest.raises(KeyLoadError) as caught:
            get(document_id, 0)
        assert caught.value.code is ErrorCode.BUDGET_EXCEEDED


@pytest.mark.covers("ADM-20")
def test_the_bounds_of_every_read_are_the_fixed_ones_of_the_contract() -> None:
    fixed = {
        "read.maxExaminedRecords": budget.MAX_RECORDS,
        "read.maxReadBytes": budget.MAX_BYTES,
        "read.maxResultBytes": reads.MAX_RESULT_BYTES,
        "read.deadlineSeconds": readers.LONG_SECONDS,
    }
    for key, value in fixed.items():
        assert (LIMITS[key].value, LIMITS[key].configurable) == (value, False)
