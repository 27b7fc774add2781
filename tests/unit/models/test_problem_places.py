"""Refusals of the models name the place inside the request, and nothing of what is stored."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import keyload
from keyload.contract.catalog import (
    DocumentAuthority,
    IndexDefinition,
    RelationalColumn,
    RelationalColumnType,
    RelationalSchema,
    ResourceKind,
    SensitiveFieldPolicy,
)
from keyload.contract.errors import KeyLoadError
from keyload.contract.security import ScopeGrant
from keyload.models.catalog.definitions import check_definition
from tests.unit.shards import Shard, collection, principal

from .conftest import OpenShard
from .test_documents import delete, patch, put, set_

GRANTED = ("orders", "other", "none")
PLACES = Path(keyload.__file__).parent
SCHEMA = RelationalSchema(
    primary_key="id",
    columns=(
        RelationalColumn(name="id", type=RelationalColumnType.TEXT),
        RelationalColumn(name="amount", type=RelationalColumnType.WHOLE_NUMBER, nullable=True),
        RelationalColumn(name="name", type=RelationalColumnType.TEXT),
    ),
)


def refusal(shard: Shard, *mutations: Any) -> KeyLoadError:
    with pytest.raises(KeyLoadError) as caught:
        shard.commit(*mutations)
    return caught.value


@pytest.mark.covers("REL-7", "REL-8", "CON-55", "HTTP-16")
@pytest.mark.parametrize(
    ("members", "path", "expected"),
    [
        ('"name":"n","amount":"secret"', "/json/amount", "null or a whole number"),
        ('"name":"n","ammount":1', "/json/ammount", "amount, or another"),
        ('"amount":1', "/json/name", "a text"),
    ],
)
def test_a_wrong_row_is_named_with_its_column(
    open_shard: OpenShard, members: str, path: str, expected: str
) -> None:
    shard = open_shard(resources=[collection(relational_schema=SCHEMA)], principals=[principal()])
    good = put("good", '{"id":"good","name":"n"}')
    error = refusal(shard, good, put("a", f'{{"id":"a",{members}}}'))
    assert error.path == f"/mutations/1{path}"
    assert str(error.expected).startswith(expected)
    assert "secret" not in f"{error.detail}{error.expected}"
    error = refusal(shard, good, put("b", '{"id":"x","name":"n"}'))
    assert (error.path, error.expected) == ("/mutations/1/json/id", "the id of the document")
    shard.commit(good)
    error = refusal(shard, patch(1, set_("/name", '"m"'), set_("/nmae", '"m"'), document_id="good"))
    assert error.path == "/mutations/0/patches/1/path"
    assert str(error.expected).startswith("one column: /name, or another")
    error = refusal(shard, patch(1, set_("/name", "7"), document_id="good"))
    assert (error.path, error.expected) == ("/mutations/0/patches/0/valueJson", "null or a text")


@pytest.mark.covers("CON-55", "CON-70", "HTTP-16")
@pytest.mark.parametrize(
    ("mutation", "path"),
    [
        (put("a", expected_revision=7), "/mutations/1/expectedRevision"),
        (put(name="none"), "/mutations/1/collection"),
        (put(name="other"), "/mutations/1/collection"),
        (put(name="forbidden"), "/mutations/1"),
        (delete("missing"), "/mutations/1"),
        (patch(1, set_("/a", "1"), set_("", "1")), "/mutations/1/patches/1/path"),
        (patch(1, set_("/secret/x", "1")), "/mutations/1/patches/0/path"),
    ],
)
def test_a_refusal_says_which_mutation_it_is_about(open_shard: OpenShard, mutation: Any, path: str) -> None:
    other = collection(name="other", transaction_domain_id="elsewhere")
    grants = tuple(ScopeGrant(database="*", resource=name, capabilities="All") for name in GRANTED)
    shard = open_shard(resources=[collection(), other], principals=[principal(grants=grants)])
    shard.commit(put("a", '{"secret":1}'))
    assert refusal(shard, put("b"), mutation).path == path


@pytest.mark.covers("CON-55", "CON-96", "SEC-40")
def test_the_place_in_a_patched_text_tells_nothing_of_what_is_hidden(open_shard: OpenShard) -> None:
    hidden = SensitiveFieldPolicy(
        path="/hidden", classification="p", raw_read_grant="r", raw_use_grant="u", write_grant="w"
    )
    shard = open_shard(resources=[collection(field_policies=(hidden,))], principals=[principal()])
    deep = "[" * 31 + "]" * 31
    shard.commit(put("a", '{"open":{"b":{"c":1}}}'))
    error = refusal(shard, patch(1, set_("/open/b/c", deep)))
    assert (error.path, bool(error.expected)) == ("/mutations/0/patches", True)


@pytest.mark.covers("DOC-26", "DOC-27", "REL-1", "REL-2", "REL-3", "REL-18", "HTTP-16")
@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"kind": ResourceKind.TOPIC, "authority": DocumentAuthority.EVENT_STREAM}, "/kind"),
        (
            {"indexes": tuple(IndexDefinition(name=name, fields=("/a",)) for name in ("x", "y", "x"))},
            "/indexes/2/name",
        ),
        ({"relational_schema": SCHEMA, "authority": DocumentAuthority.EVENT_STREAM}, "/authority"),
        (
            {"relational_schema": RelationalSchema(primary_key="none", columns=SCHEMA.columns[1:])},
            "/relationalSchema/primaryKey",
        ),
        (
            {"relational_schema": RelationalSchema(primary_key="id", columns=SCHEMA.columns * 2)},
            "/relationalSchema/columns/3/name",
        ),
        (
            {"relational_schema": SCHEMA, "indexes": (IndexDefinition(name="x", fields=("/name", "/nam")),)},
            "/indexes/0/fields/1",
        ),
    ],
)
def test_a_contradiction_in_a_definition_is_named_with_its_place(members: Any, path: str) -> None:
    with pytest.raises(KeyLoadError) as caught:
        check_definition(collection(**members))
    assert caught.value.path == f"/definition{path}"
    assert caught.value.expected


@pytest.mark.covers("HTTP-16", "CON-54")
@pytest.mark.parametrize("room", ["models", "front", "worker", "codec"])
def test_no_validation_is_without_place_and_expectation(room: str) -> None:
    """Calls that say `ErrorCode.VALIDATION` say both too; what reads a single text gets them from above."""
    bare: list[str] = []
    for file in sorted((PLACES / room).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            first = node.args[0]
            if isinstance(first, ast.Attribute) and first.attr == "VALIDATION":
                said = len(node.args) + sum(word.arg in ("path", "expected") for word in node.keywords)
                bare += [f"{file.name}:{node.lineno}"] * (said < 4)
    names = {place.split(":")[0] for place in bare}
    assert names <= ({"instants.py", "packing.py", "tuples.py"} if room == "codec" else set()), bare
