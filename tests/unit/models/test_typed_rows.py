"""Typed rows: a collection with a relational schema refuses every other form (relational.md)."""

from __future__ import annotations

import pytest

from keyload.contract.catalog import IndexDefinition, RelationalColumn, RelationalColumnType, RelationalSchema
from keyload.contract.documents import FieldPatch, PatchKind, PutDocument
from keyload.contract.errors import ErrorCode
from tests.unit.shards import Shard, collection, principal

from .conftest import OpenShard
from .test_documents import patch, put, refused, remove, revision, set_

TYPES = RelationalColumnType
SCHEMA = RelationalSchema(
    primary_key="id",
    columns=(
        RelationalColumn(name="id", type=TYPES.TEXT),
        RelationalColumn(name="whole", type=TYPES.WHOLE_NUMBER, nullable=True),
        RelationalColumn(name="fixed", type=TYPES.FIXED_POINT, nullable=True),
        RelationalColumn(name="flag", type=TYPES.BOOLEAN, nullable=True),
        RelationalColumn(name="at", type=TYPES.UTC_TIMESTAMP, nullable=True),
        RelationalColumn(name="name", type=TYPES.TEXT),
    ),
)


@pytest.fixture
def shard(open_shard: OpenShard) -> Shard:
    index = IndexDefinition(name="by-at", fields=("/at",), unique=True, include_null=False)
    definition = collection(relational_schema=SCHEMA, indexes=(index,))
    return open_shard(resources=[definition], principals=[principal()])


def row(members: str, document_id: str = "a") -> PutDocument:
    return put(document_id, f'{{"id":"{document_id}","name":"n"{members and "," + members}}}')


@pytest.mark.covers("REL-7", "REL-8", "REL-10", "REL-11", "CON-107")
@pytest.mark.parametrize(
    "members",
    [
        "",
        '"whole":null',
        '"whole":5.0',
        '"whole":5e0',
        '"whole":-9223372036854775808',
        '"whole":9223372036854775807',
        '"fixed":1.5e-7',
        '"flag":false',
        '"at":"2026-01-02T03:04:05Z"',
        '"at":"2026-01-02T03:04:05.1234567+00:00"',
    ],
)
def test_rows_that_fit(shard: Shard, members: str) -> None:
    assert revision(shard, row(members)) == 1


@pytest.mark.covers("REL-7", "REL-8", "REL-9", "REL-10", "REL-11", "REL-16", "CON-107")
@pytest.mark.parametrize(
    "text",
    [
        '{"id":"a"}',
        '{"id":"a","name":null}',
        '{"id":"a","name":1}',
        '{"name":"n"}',
        '{"id":"b","name":"n"}',
        '{"id":"a","name":"n","more":1}',
        *(
            f'{{"id":"a","name":"n",{wrong}}}'
            for wrong in (
                '"whole":"5"',
                '"whole":5.1',
                '"whole":9223372036854775808',
                '"whole":1e30',
                '"whole":true',
                '"fixed":"1"',
                '"fixed":[1]',
                '"flag":1',
                '"flag":{}',
                '"at":"2026-02-30T00:00:00Z"',
                '"at":"2026-01-02T03:04:05+02:00"',
                '"at":"2026-01-02T03:04:05.12345678Z"',
                '"at":"2026-01-02 03:04:05Z"',
                '"at":5',
            )
        ),
    ],
)
def test_rows_that_do_not_fit(shard: Shard, text: str) -> None:
    assert refused(shard, row("", "other"), put(text=text)) == ErrorCode.VALIDATION
    assert shard.get("other") is None


@pytest.mark.covers("REL-13", "REL-14", "REL-15")
def test_patches_of_rows(shard: Shard) -> None:
    shard.commit(row('"whole":1'))
    bad: list[tuple[FieldPatch, ...]] = [
        (set_("/whole", '"x"'), set_("/whole", "1")),
        (remove("/name"),),
        (set_("/name/deep", "1"),),
        (set_("/more", "1"),),
        (remove("/more"),),
        (set_("/id", '"b"'),),
        (FieldPatch(path="/name", kind=PatchKind.SET, value_json=None),),
    ]
    for steps in bad:
        assert refused(shard, patch(1, *steps)) == ErrorCode.VALIDATION
    assert revision(shard, patch(1, set_("/id", '"a"'), remove("/whole"), set_("/flag", "true"))) == 2
    assert revision(shard, patch(2, remove("/name"), set_("/name", '"m"'))) == 3


@pytest.mark.covers("REL-17", "REL-19", "DOC-23")
def test_timestamps_are_indexed_by_instant(shard: Shard) -> None:
    shard.commit(row('"at":"2026-01-02T00:00:00Z"'))
    same = row('"at":"2026-01-02T00:00:00.000+00:00"', "b")
    assert refused(shard, same) == ErrorCode.CONFLICT
    assert revision(shard, row('"at":"2026-01-02T00:00:00.1Z"', "b")) == 1
    assert shard.get("b").json == '{"id":"b","name":"n","at":"2026-01-02T00:00:00.1Z"}'
    assert revision(shard, row('"at":null', "c")) == 1
    assert revision(shard, row('"at":null', "d")) == 1
