"""JSON travels as text in one member, and what is null is written (HTTP-14, HTTP-15)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from keyload.codec.declarations import Declared, members, tag
from keyload.codec.decoding import decode
from keyload.codec.schema import request_schema, result_schema
from keyload.contract.base import Choice, Record
from keyload.contract.documents import DocumentResult
from keyload.contract.mutations import MUTATIONS
from keyload.contract.operations import OPERATIONS
from keyload.contract.shared import EntityRef
from keyload.worker import answers
from tests.unit.codec.support import refusal
from tests.unit.declared import whole

from .test_conformance import DECLARED, KINDS, TYPES

TEXTS = ("jsonObject", "jsonText")
RECORDS: list[type[Record]] = [kind for kind in DECLARED.values() if issubclass(kind, Record)]


def entries(kind: type[Record]) -> dict[str, Any]:
    """The members that the contract file lists for a type."""
    variant = tag(kind)
    entry = TYPES.get(kind.__name__) or KINDS[variant[1] if variant else kind.__name__]
    return {member["name"]: member for member in entry["members"]}


def json_members(kind: type[Record]) -> list[Declared]:
    return [member for member in members(kind) if member.mark.format in TEXTS]


@pytest.mark.covers("HTTP-14")
def test_json_is_one_text_wherever_the_contract_has_it() -> None:
    seen = 0
    for kind in RECORDS:
        listed = {
            name for name, entry in entries(kind).items() if entry["constraints"].get("format") in TEXTS
        }
        assert listed == {member.name for member in json_members(kind)}
        for member in json_members(kind):
            seen += 1
            assert (member.kind, member.container) == (str, None)
            for schema in (request_schema(kind), result_schema(kind)):
                described = schema["properties"][member.name]
                assert "string" in {
                    described.get("type"),
                    *(each["type"] for each in described.get("anyOf", [])),
                }
    assert seen >= 3


@pytest.mark.covers("HTTP-14", "CON-24")
def test_nested_json_in_place_of_the_text_is_refused_and_the_text_comes_back_as_it_was() -> None:
    for rule in MUTATIONS.values():
        for member in json_members(rule.record):
            for nested in ({"a": 1}, [1], 1, True):
                error = refusal(
                    lambda rule=rule, member=member, nested=nested: decode(
                        rule.record, whole(rule.record) | {member.name: nested}
                    )
                )
                assert error.path == f"/{member.name}"
    text = '{ "b":1.50,\t"a":{"n":null} }'
    reference = decode(EntityRef, whole(EntityRef))
    result = DocumentResult(reference=reference, revision=1, json=text, redacted=False, redacted_fields=())
    assert json.loads(answers.success(result).payload)["json"] == text


def results() -> list[type[Record]]:
    """Every record type that an answer can hold."""
    found: dict[type[Record], None] = {}
    wanted = [operation.result for operation in OPERATIONS.values()]
    while wanted:
        kind = wanted.pop()
        kinds = kind if isinstance(kind, tuple) else (kind,)
        for each in kinds:
            if isinstance(each, type) and issubclass(each, Record) and each not in found:
                found[each] = None
                wanted += [member.kind for member in members(each)]
    return list(found)


def emptiest(kind: type[Record]) -> Any:
    """A value whose optional members have nothing in them."""
    values: dict[str, Any] = {}
    for member in members(kind):
        if member.omitted:
            continue
        values[member.attribute] = None if member.nullable else _least(member)
    return kind(**values)


def _least(member: Declared) -> Any:
    if member.container is not None:
        return () if member.container == "array" else {}
    kind = member.kind[0] if isinstance(member.kind, tuple) else member.kind
    if not isinstance(kind, type) or kind in (str, int, float, bool, bytes):
        return kind() if isinstance(kind, type) else {}
    return (
        emptiest(kind)
        if issubclass(kind, Record)
        else next(iter(kind))
        if issubclass(kind, Choice)
        else kind()
    )


@pytest.mark.covers("HTTP-15", "CON-17")
@pytest.mark.parametrize("kind", results(), ids=lambda kind: kind.__name__)
def test_what_is_null_is_written_except_where_the_contract_leaves_it_out(kind: type[Record]) -> None:
    written = json.loads(answers.success(emptiest(kind)).payload)
    listed = entries(kind)
    left_out = {name for name, entry in listed.items() if entry["omitWhenNull"]}
    variant = tag(kind)
    assert written.keys() == (listed.keys() - left_out) | ({variant[0]} if variant else set())
    nullable = {name for name, entry in listed.items() if entry["nullable"]} - left_out
    assert {name for name, value in written.items() if value is None} == nullable
    assert msgspec.json.decode(answers.success(None).payload) is None
