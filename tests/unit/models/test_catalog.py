"""Resource definitions, their replacement, the administrator's list, the dispatch switch (documents.md)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from keyload.contract import tables
from keyload.contract.blobs import BlobPolicy
from keyload.contract.catalog import (
    AdminResourcesRequest,
    ConfigureResourceRequest,
    DocumentAuthority,
    IndexDefinition,
    QueuePolicy,
    RelationalColumn,
    RelationalColumnType,
    RelationalSchema,
    ResourceDefinition,
    ResourceKind,
    SensitiveFieldPolicy,
)
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.link.catalog import Catalog
from keyload.link.messages import CatalogDelta
from keyload.models.catalog import CATALOG_RANGE, parse_row_key, rows
from tests.unit.shards import ROOT, Shard, collection, principal

from .conftest import OpenShard

CONFIGURE = "keyload_resources_configure"
LIST = "keyload_admin_resources_list"


@pytest.fixture
def system(open_shard: OpenShard) -> Shard:
    shard = open_shard(shard=0)
    principals = [
        ROOT,
        principal("maker", "SchemaManage", database="shop", resource="orders"),
        principal("writer", "DocumentsWrite"),
    ]
    shard.apply({rows.row_key(rows.PRINCIPALS, (p.id,)): msgspec.msgpack.encode(p) for p in principals})
    return shard


def configure(
    shard: Shard, definition: ResourceDefinition, expected: Any = msgspec.UNSET, **more: Any
) -> Any:
    request = ConfigureResourceRequest(
        tenant_id="acme", database_id="shop", definition=definition, expected_schema_version=expected
    )
    return shard.call(CONFIGURE, request, **({"by": "root"} | more))


def refused(shard: Shard, definition: ResourceDefinition, expected: Any = msgspec.UNSET, **more: Any) -> str:
    with pytest.raises(KeyLoadError) as caught:
        configure(shard, definition, expected, **more)
    return str(caught.value.code)


POLICY = SensitiveFieldPolicy(path="/ssn", classification="secret")


@pytest.mark.covers("DOC-25", "DOC-28", "CON-103")
def test_creating_and_repeating(system: Shard) -> None:
    wanted = collection(indexes=(IndexDefinition(name="i", fields=("/a",)),), field_policies=(POLICY,))
    assert configure(system, wanted) == wanted
    assert configure(system, wanted) == wanted
    assert refused(system, replace(wanted, paused=True)) == ErrorCode.UNSUPPORTED_CAPABILITY
    assert refused(system, replace(wanted, kind=ResourceKind.GRAPH, indexes=())) == (
        ErrorCode.UNSUPPORTED_CAPABILITY
    )
    assert refused(system, collection("new", schema_version=2)) == ErrorCode.VALIDATION
    for kind in ResourceKind:
        configure(system, collection(f"a-{kind}", kind=kind))


@pytest.mark.covers("SEC-12", "SEC-18")
def test_who_may_configure(system: Shard) -> None:
    assert refused(system, collection(), by="writer") == ErrorCode.PERMISSION_DENIED
    assert refused(system, collection("items"), by="maker") == ErrorCode.PERMISSION_DENIED
    assert configure(system, collection(), by="maker").name == "orders"


@pytest.mark.covers("SEC-36", "SEC-37", "DOC-28", "CON-103", "CON-79")
def test_replacing_policies(system: Shard) -> None:
    first = configure(system, collection())
    second = replace(
        first, schema_version=2, field_policies=(POLICY,), header_policies=(POLICY,), paused=True
    )
    assert refused(system, collection("none", schema_version=2), 1) == ErrorCode.REVISION_CONFLICT
    assert refused(system, second, 2) == ErrorCode.REVISION_CONFLICT
    assert refused(system, replace(second, schema_version=1), 1) == ErrorCode.VALIDATION
    assert refused(system, replace(second, schema_version=3), 1) == ErrorCode.VALIDATION
    assert refused(system, replace(first, schema_version=2), 1) == ErrorCode.VALIDATION
    for other in (
        replace(second, transaction_domain_id="stock"),
        replace(second, kind=ResourceKind.TOPIC),
        replace(second, queue_policy=QueuePolicy(max_attempts=9)),
        replace(second, authority=DocumentAuthority.EVENT_STREAM),
        replace(first, schema_version=2, indexes=(IndexDefinition(name="i", fields=("/a",)),)),
    ):
        assert refused(system, other, 1) == ErrorCode.UNSUPPORTED_CAPABILITY
    assert configure(system, second, 1) == second
    assert configure(system, second) == second
    assert configure(system, replace(first, schema_version=3), 2).field_policies == ()


@pytest.mark.covers("SEC-37")
def test_the_schema_version_does_not_overflow(system: Shard) -> None:
    last = collection(schema_version=2**63 - 1)
    key = rows.row_key(tables.RESOURCES, ("acme", "shop", "orders"))
    system.apply({key: msgspec.msgpack.encode(last)})
    assert refused(system, replace(last, paused=True), 2**63 - 1) == ErrorCode.RESOURCE_EXHAUSTED


@pytest.mark.covers("SEC-39")
def test_a_retry_returns_the_stored_definition(system: Shard) -> None:
    configure(system, collection())
    request = ConfigureResourceRequest(
        tenant_id="acme",
        database_id="shop",
        definition=collection(schema_version=2, paused=True),
        expected_schema_version=1,
    )
    command = system.command(CONFIGURE, request, by="root")
    first = system.run(command)
    configure(system, collection(schema_version=3), 2)
    assert system.run(command) == first


SCHEMA = RelationalSchema(
    primary_key="id",
    columns=(
        RelationalColumn(name="id", type=RelationalColumnType.TEXT),
        RelationalColumn(name="n", type=RelationalColumnType.WHOLE_NUMBER, nullable=True),
    ),
)


def columns(*more: RelationalColumn, primary_key: str = "id") -> RelationalSchema:
    return RelationalSchema(primary_key=primary_key, columns=(*SCHEMA.columns, *more))


def text(name: str, *, nullable: bool = False) -> RelationalColumn:
    return RelationalColumn(name=name, type=RelationalColumnType.TEXT, nullable=nullable)


INDEX = IndexDefinition(name="i", fields=("/a",))


@pytest.mark.covers("DOC-20", "DOC-26", "DOC-27", "REL-1", "REL-2", "REL-3", "REL-4", "REL-18")
@pytest.mark.parametrize(
    "wrong",
    [
        collection(kind=ResourceKind.GRAPH, indexes=(INDEX,)),
        collection(kind=ResourceKind.TOPIC, authority=DocumentAuthority.EVENT_STREAM),
        collection(kind=ResourceKind.TOPIC, relational_schema=SCHEMA),
        collection(blob_policy=BlobPolicy()),
        collection(kind=ResourceKind.BLOB_STORE, field_policies=(POLICY,)),
        collection(kind=ResourceKind.BLOB_STORE, header_policies=(POLICY,)),
        collection(
            kind=ResourceKind.BLOB_STORE, blob_policy=BlobPolicy(max_blob_bytes=2, max_reserved_bytes=1)
        ),
        collection(indexes=(INDEX, INDEX)),
        collection(queue_policy=QueuePolicy(retry_base_milliseconds=2, retry_max_milliseconds=1)),
        collection(authority=DocumentAuthority.EVENT_STREAM, relational_schema=SCHEMA),
        collection(relational_schema=columns(text("n"))),
        *(collection(relational_schema=columns(text(name))) for name in ("revision", "*", "@x")),
        collection(relational_schema=columns(text("key"), primary_key="key")),
        collection(relational_schema=columns(primary_key="none")),
        collection(relational_schema=columns(primary_key="n")),
        collection(
            relational_schema=RelationalSchema(primary_key="key", columns=(text("key", nullable=True),))
        ),
        collection(relational_schema=SCHEMA, indexes=(INDEX,)),
        collection(relational_schema=SCHEMA, indexes=(IndexDefinition(name="i", fields=("/n/x",)),)),
    ],
)
def test_definitions_that_contradict_themselves(system: Shard, wrong: ResourceDefinition) -> None:
    assert refused(system, wrong) == ErrorCode.VALIDATION


@pytest.mark.covers("REL-1", "REL-3", "REL-5", "DOC-26")
def test_definitions_that_fit(system: Shard) -> None:
    typed = collection(relational_schema=SCHEMA, indexes=(IndexDefinition(name="i", fields=("/n",)),))
    assert configure(system, typed) == typed
    other = replace(typed, schema_version=2, relational_schema=columns(text("more")))
    assert refused(system, other, 1) == ErrorCode.UNSUPPORTED_CAPABILITY
    gone = replace(typed, schema_version=2, relational_schema=msgspec.UNSET)
    assert refused(system, gone, 1) == ErrorCode.UNSUPPORTED_CAPABILITY
    by_key = RelationalSchema(primary_key="key", columns=(text("key"), text("Key")))
    configure(system, collection("by-key", relational_schema=by_key))
    kept = QueuePolicy(retry_base_milliseconds=5, retry_max_milliseconds=5)
    configure(system, collection("kept", queue_policy=kept))
    store = collection("blobs", kind=ResourceKind.BLOB_STORE, blob_policy=BlobPolicy())
    assert configure(system, store) == store


@pytest.mark.covers("CON-81", "CON-91", "SEC-22")
def test_the_administrators_list(system: Shard) -> None:
    names = sorted(["b", "a", "ab", "é", "Z", *(f"n{number:03d}" for number in range(60))])
    for name in names:
        configure(system, collection(name))
    elsewhere = ConfigureResourceRequest(tenant_id="acme", database_id="shop2", definition=collection("x"))
    system.call(CONFIGURE, elsewhere, by="root")
    found: list[str] = []
    after = None
    for _ in range(9):
        request = AdminResourcesRequest(tenant_id="acme", database_id="shop", after_name=after, limit=10)
        page = system.read(LIST, request, by="root")
        assert page.cut_position == len(names) + 1
        found += [item.name for item in page.items]
        after = page.next_after_name
        if after is None:
            break
    assert found == sorted(names, key=lambda name: name.encode())
    whole = system.read(LIST, AdminResourcesRequest(tenant_id="acme", database_id="shop"), by="root")
    assert len(whole.items) == 50
    exact = AdminResourcesRequest(tenant_id="acme", database_id="shop2", limit=1)
    assert system.read(LIST, exact, by="root").next_after_name is None
    with pytest.raises(KeyLoadError) as caught:
        system.read(LIST, exact, by="maker")
    assert caught.value.code == ErrorCode.PERMISSION_DENIED


@pytest.mark.covers("SEC-22")
def test_dispatch(system: Shard) -> None:
    for paused in (True, True, False):
        assert system.call("keyload_admin_dispatch", paused, by="root") is paused
        assert fed(system).dispatch_paused is paused
    with pytest.raises(KeyLoadError) as caught:
        system.call("keyload_admin_dispatch", True, by="maker")
    assert caught.value.code == ErrorCode.PERMISSION_DENIED


def fed(system: Shard) -> Catalog:
    """The catalog as worker 0 feeds it: rows of shard 0 as they are stored."""
    catalog = Catalog()
    delta: list[Any] = []
    with system.store.reader() as reader:
        for key, value in reader.scan(*CATALOG_RANGE):
            parsed = parse_row_key(key)
            assert parsed is not None
            delta.append((*parsed, value))
    catalog.apply(CatalogDelta(version=1, whole=True, rows=delta))
    return catalog


def test_rows_are_what_the_feed_carries(system: Shard) -> None:
    wanted = configure(system, collection())
    assert fed(system).resource("acme", "shop", "orders") == wanted
    assert fed(system).principal("root") == ROOT
    assert system.last is not None
    written = [parse_row_key(key) for key in system.last.writes]
    assert [parsed for parsed in written if parsed] == [(tables.RESOURCES, ("acme", "shop", "orders"))]
