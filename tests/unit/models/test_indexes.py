"""Indexes: who has an entry, equal numbers, uniqueness, change with the document (DOC-20..DOC-24)."""

from __future__ import annotations

from typing import Any

import pytest

from keyload.codec.tuples import MISSING, unpack
from keyload.contract.catalog import IndexDefinition
from keyload.contract.errors import ErrorCode
from keyload.models.documents.keys import index_prefix
from tests.unit.shards import PARTITION, Shard, collection, principal

from .conftest import OpenShard
from .test_documents import delete, patch, put, refused, revision, set_


def opened(open_shard: OpenShard, *indexes: IndexDefinition) -> Shard:
    return open_shard(resources=[collection(indexes=indexes)], principals=[principal()])


def entries(shard: Shard, index: str, number: int = 2) -> list[tuple[tuple[Any, ...], str]]:
    prefix = index_prefix(number, "orders", index)
    with shard.store.reader() as reader:
        rows = list(reader.scan(prefix, prefix + b"\xff"))
    return [(tuple(unpack(key[len(prefix) :])), value.decode()) for key, value in rows]


@pytest.mark.covers("DOC-21")
@pytest.mark.parametrize(
    ("include_null", "include_missing", "indexed"),
    [
        (True, False, ["null", "text"]),
        (False, False, ["text"]),
        (True, True, ["array", "missing", "null", "object", "text"]),
        (False, True, ["array", "missing", "object", "text"]),
    ],
)
def test_who_has_an_entry(
    open_shard: OpenShard, include_null: bool, include_missing: bool, indexed: list[str]
) -> None:
    index = IndexDefinition(
        name="i", fields=("/a/b", "/c"), include_null=include_null, include_missing=include_missing
    )
    shard = opened(open_shard, index)
    values = {"text": '"t"', "null": "null", "array": "[]", "object": "{}"}
    for name, value in values.items():
        shard.commit(put(name, f'{{"a":{{"b":{value}}},"c":true}}'))
    shard.commit(put("missing", '{"a":1,"c":true}'))
    found = entries(shard, "i")
    assert sorted(value for _, value in found) == indexed
    order = [parts[0] for parts, _ in found]
    assert order == sorted(order, key=lambda part: (part is not MISSING, part is not None))


@pytest.mark.covers("DOC-22", "DOC-23", "CON-106")
def test_numbers_equal_in_value_collide_in_a_unique_index(open_shard: OpenShard) -> None:
    shard = opened(open_shard, IndexDefinition(name="u", fields=("/n",), unique=True))
    for taken, others in (
        ("1", ("1.0", "1e0", "10e-1")),
        ("0", ("-0", "0.00", "0e99")),
        ("1e400", ("10e399",)),
        ("-12.5", ("-125e-1",)),
        ("123456789012345678901234567890123.4", ("1.234567890123456789012345678901234e32",)),
    ):
        shard.commit(put("first" + taken, f'{{"n":{taken}}}'))
        for other in others:
            assert refused(shard, put("second", f'{{"n":{other}}}')) == ErrorCode.CONFLICT
    for free in ("1.1", '"1"', "true", "null", "1e401"):
        assert revision(shard, put("free" + free, f'{{"n":{free}}}')) == 1
    assert refused(shard, put("other", '{"n":null}')) == ErrorCode.CONFLICT
    assert revision(shard, put("one", "{}"), put("two", '{"n":[1]}')) == 1


@pytest.mark.covers("DOC-13", "DOC-23", "DOC-24")
def test_entries_follow_the_document(open_shard: OpenShard) -> None:
    unique = IndexDefinition(name="u", fields=("/k",), unique=True)
    shard = opened(open_shard, unique, IndexDefinition(name="c", fields=("/k", "/n")))
    shard.commit(put("a", '{"k":"x","n":1}'), put("b", '{"k":"y","n":1}'))
    assert refused(shard, put("z"), put("b", '{"k":"x"}')) == ErrorCode.CONFLICT
    assert shard.get("z") is None
    assert refused(shard, patch(1, set_("/k", '"y"'))) == ErrorCode.CONFLICT
    shard.commit(patch(1, set_("/k", '"w"')))
    shard.commit(put("b", '{"k":"x","n":1.0}'))
    assert [(parts[0], name) for parts, name in entries(shard, "u")] == [("w", "a"), ("x", "b")]
    assert [(parts[0], parts[2]) for parts, _ in entries(shard, "c")] == [("w", "a"), ("x", "b")]
    shard.commit(put("a", '{"k":"w","n":2}'))
    shard.commit(delete("a"), put("c", '{"k":"w"}'))
    assert [name for _, name in entries(shard, "u")] == ["c", "b"]
    assert [name for _, name in entries(shard, "c")] == ["b"]
    shard.commit(delete("b"), delete("c"))
    assert entries(shard, "u") == entries(shard, "c") == []


@pytest.mark.covers("DOC-23")
def test_uniqueness_ends_at_the_partition(open_shard: OpenShard) -> None:
    shard = opened(open_shard, IndexDefinition(name="u", fields=("/k",), unique=True))
    for key in ("eu", "us"):
        assert revision(shard, put("a", '{"k":1}'), partition=(*PARTITION[:3], key)) == 1


@pytest.mark.covers("DOC-21")
def test_paths_go_through_array_positions_and_escapes(open_shard: OpenShard) -> None:
    shard = opened(open_shard, IndexDefinition(name="i", fields=("/l/1/x~1y~0",)))
    shard.commit(put("a", '{"l":[0,{"x/y~":7}]}'), put("b", '{"l":[{"x/y~":7}]}'), put("c", '{"l":{"1":7}}'))
    assert [name for _, name in entries(shard, "i")] == ["a"]


def test_long_values_have_entries(open_shard: OpenShard) -> None:
    shard = opened(open_shard, IndexDefinition(name="u", fields=("/k",), unique=True))
    long = "l" * 5000
    shard.commit(put("a", f'{{"k":"{long}"}}'))
    assert refused(shard, put("b", f'{{"k":"{long}"}}')) == ErrorCode.CONFLICT
    assert revision(shard, put("b", f'{{"k":"{long}1"}}')) == 1
