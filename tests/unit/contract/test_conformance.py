"""Walks docs/contract and compares every word of it that is implemented with the declarations."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from pathlib import Path
from typing import Any

import pytest

import keyload.contract
from keyload.codec import schema
from keyload.codec.declarations import Declared, members, scalar_name, tag
from keyload.contract.base import Choice, Record
from keyload.contract.capabilities import ALL, CAPABILITIES, NONE
from keyload.contract.errors import ERRORS
from keyload.contract.features import FEATURES
from keyload.contract.formats import FORMATS, SCALARS
from keyload.contract.limits import LIMITS
from keyload.contract.mutation import MutationRecord
from keyload.contract.mutations import MUTATIONS
from keyload.contract.operation import RequiredGrant
from keyload.contract.operations import OPERATIONS

CONTRACT = Path(__file__).parents[3] / "docs" / "contract"
TYPES_FILE: dict[str, Any] = json.loads((CONTRACT / "types.json").read_text("utf-8"))
OPERATIONS_FILE: dict[str, Any] = json.loads((CONTRACT / "operations.json").read_text("utf-8"))
TYPES = {entry["name"]: entry for entry in TYPES_FILE["types"]}
ENUMS: dict[str, Any] = TYPES_FILE["enums"]
KINDS = {entry["kind"]: entry for entry in TYPES_FILE["mutations"]}
CALLS = {entry["name"]: entry for entry in OPERATIONS_FILE["operations"]}
MODULE_FEATURE = {"commands": "documents", "errors": "shared"}


def _declared_types() -> dict[str, type]:
    """Every record and enum declared in the contract room, by name."""
    found: dict[str, type] = {}
    for module in pkgutil.iter_modules(keyload.contract.__path__):
        for value in vars(importlib.import_module(f"keyload.contract.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Record | Choice) and value.__doc__:
                found[value.__name__] = value
    for base in (Record, Choice, MutationRecord):
        del found[base.__name__]
    return found


DECLARED = _declared_types()
RECORDS = {name: kind for name, kind in DECLARED.items() if issubclass(kind, Record) and tag(kind) is None}
CHOICES = {name: kind for name, kind in DECLARED.items() if issubclass(kind, Choice)}


# --- members ----------------------------------------------------------------------------------------


def _type_name(member: Declared) -> str:
    kind = member.kind
    if isinstance(kind, tuple):
        return "Mutation"
    if isinstance(kind, type) and issubclass(kind, Record | Choice):
        return kind.__name__
    name = scalar_name(member)
    return "Capability" if name == "flags" else name


def _default(member: Declared) -> Any:
    value = member.default
    if member.required or member.omitted or (member.attribute == "resource" and value == ""):
        return None
    if isinstance(value, Record):
        assert value == type(value)()
        return {}
    return list(value) if isinstance(value, tuple) else value


CONSTRAINTS = {
    "min": "min",
    "max": "max",
    "minDuration": "min_duration",
    "maxDuration": "max_duration",
    "const": "const",
    "oneOf": "one_of",
    "format": "format",
    "minItems": "min_items",
    "maxItems": "max_items",
    "itemFormat": "item_format",
    "keyFormat": "key_format",
    "errorBelow": "error_below",
    "errorAbove": "error_above",
    "errorOther": "error_other",
}


def _constraints(member: Declared) -> dict[str, Any]:
    mark = member.mark
    found = {name: getattr(mark, attribute) for name, attribute in CONSTRAINTS.items()}
    found |= {"notEmpty": mark.not_empty or None, "uniqueItems": mark.unique_items or None}
    plain = {name: value for name, value in found.items() if value is not None}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


def _described(member: Declared) -> dict[str, Any]:
    """A member in the words of types.json."""
    return {
        "name": member.name,
        "type": _type_name(member),
        "container": member.container,
        "nullable": member.nullable,
        "required": member.required,
        "default": _default(member),
        "direction": member.mark.direction,
        "omitWhenNull": member.omitted,
        "constraints": _constraints(member),
        "meaning": member.mark.meaning,
    }


@pytest.mark.covers("CON-1", "CON-6", "CON-17")
@pytest.mark.parametrize("name", RECORDS)
def test_a_record_says_what_the_contract_says(name: str) -> None:
    record, entry = RECORDS[name], TYPES[name]
    assert inspect.getdoc(record) == entry["description"]
    assert [_described(member) for member in members(record)] == entry["members"]
    module = record.__module__.rpartition(".")[2]
    assert MODULE_FEATURE.get(module, module) == entry["feature"]


@pytest.mark.covers("CON-9")
@pytest.mark.parametrize("name", CHOICES)
def test_an_enum_says_what_the_contract_says(name: str) -> None:
    choice = CHOICES[name]
    assert {
        "description": choice.__doc__,
        "members": [{"name": member.value, "meaning": member.meaning} for member in choice],
    } == ENUMS[name]


# --- operations ---------------------------------------------------------------------------------------


def _grants(grants: tuple[RequiredGrant, ...]) -> list[dict[str, Any]]:
    return [{"anyOf": list(grant.any_of), "on": grant.on, "when": grant.when} for grant in grants]


def _kind_name(kind: Any) -> str | None:
    if kind is None:
        return None
    return "boolean" if kind is bool else kind.__name__


@pytest.mark.covers("CON-28", "CON-39")
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_says_what_the_contract_says(name: str) -> None:
    operation = OPERATIONS[name]
    assert {
        "name": operation.name,
        "title": operation.title,
        "description": operation.description,
        "feature": operation.feature,
        "aliases": list(operation.aliases),
        "stage": operation.stage,
        "kind": operation.kind,
        "capability": operation.capability,
        "requestType": _kind_name(operation.request),
        "resultType": _kind_name(operation.result),
        "resultNullable": operation.result_nullable,
        "resultIsArray": operation.result_is_array,
        "outerCommandId": operation.outer_command_id,
        "writeIdentity": operation.write_identity,
        "arguments": list(operation.arguments),
        "httpMethod": operation.http_method,
        "httpRoute": operation.http_route,
        "httpBody": operation.http_body,
        "httpQuery": operation.http_query,
        "lane": operation.lane,
        "admissionClass": operation.admission_class,
        "readOnly": operation.read_only,
        "destructive": operation.destructive,
        "idempotent": operation.idempotent,
        "requiredGrants": _grants(operation.required_grants),
        "notableErrors": [str(code) for code in operation.notable_errors],
    } == CALLS[name]


@pytest.mark.covers("CON-15", "CON-16")
@pytest.mark.parametrize("kind", MUTATIONS)
def test_a_mutation_says_what_the_contract_says(kind: str) -> None:
    rule = MUTATIONS[kind]
    assert rule.record.resource_attribute == rule.resource_from
    assert tag(rule.record) == ("kind", kind)
    assert inspect.getdoc(rule.record) == rule.description
    assert {
        "kind": rule.kind,
        "feature": rule.feature,
        "description": rule.description,
        "aliases": list(rule.aliases),
        "requiredGrants": _grants(rule.required_grants),
        "resourceFrom": rule.resource_from,
        "receipt": {"id": rule.receipt.id, "revision": rule.receipt.revision},
        "filterable": rule.filterable,
        "allowedInEffects": rule.allowed_in_effects,
        "expands": rule.expands,
        "members": [_described(member) for member in members(rule.record)],
    } == KINDS[kind]


def test_operations_and_mutations_stand_in_catalog_order_and_the_rest_is_missing(
    record_property: pytest.FixtureRequest,
) -> None:
    missing = [name for name in CALLS if name not in OPERATIONS]
    record_property("missing operations", missing)
    assert [name for name in CALLS if name not in missing] == list(OPERATIONS)
    assert len(missing) == len(CALLS) - len(OPERATIONS)
    assert [kind for kind in KINDS if kind in MUTATIONS] == list(MUTATIONS)


def _reachable(name: str, found: set[str]) -> set[str]:
    if name in found:
        return found
    if name == "Mutation":
        parts = [part for kind in MUTATIONS for part in KINDS[kind]["members"]]
    elif name in TYPES:
        found.add(name)
        parts = TYPES[name]["members"]
    else:
        if name in ENUMS:
            found.add(name)
        parts = []
    for part in parts:
        _reachable(part["type"], found)
    return found


def test_every_reachable_type_is_declared_and_no_other() -> None:
    found: set[str] = set()
    for name in OPERATIONS:
        for kind in (CALLS[name]["requestType"], CALLS[name]["resultType"]):
            _reachable(kind or "boolean", found)
    for entry in TYPES_FILE["types"]:
        if entry["feature"] == "gateway" or entry["name"] == "Problem":
            _reachable(entry["name"], found)
    assert found == set(RECORDS) | set(CHOICES)


# --- tables -------------------------------------------------------------------------------------------


def test_features_formats_and_scalars_are_those_of_the_contract() -> None:
    assert TYPES_FILE["contractVersion"] == 1
    assert list(FEATURES) == TYPES_FILE["features"]
    assert {
        name: {"meaning": scalar.meaning, "schema": scalar.schema} for name, scalar in SCALARS.items()
    } == TYPES_FILE["scalars"]
    assert {
        name: {
            "meaning": form.meaning,
            "schema": form.schema,
            "maxBytes": form.max_bytes,
            "error": form.error,
            "errorAbove": form.error_above,
        }
        for name, form in FORMATS.items()
    } == TYPES_FILE["formats"]


@pytest.mark.covers("CON-48", "HTTP-16")
def test_errors_are_those_of_the_contract() -> None:
    found = [
        {
            "code": str(rule.code),
            "httpStatus": rule.http_status,
            "retry": rule.retry,
            "meaning": rule.meaning,
        }
        for rule in ERRORS.values()
    ]
    assert found == TYPES_FILE["errors"]


@pytest.mark.covers("CON-53")
def test_limits_are_those_of_the_contract() -> None:
    found = [
        {
            "key": limit.key,
            "value": limit.value,
            "unit": limit.unit,
            "configurable": limit.configurable,
            "error": limit.error,
            "meaning": limit.meaning,
        }
        for limit in LIMITS.values()
    ]
    assert found == TYPES_FILE["limits"]


@pytest.mark.covers("CON-10")
def test_capabilities_are_those_of_the_contract() -> None:
    entry = TYPES_FILE["flags"]["Capability"]
    assert (entry["all"], entry["none"]) == (ALL, NONE)
    assert [
        {"name": flag.name, "bit": flag.bit, "reserved": flag.reserved, "meaning": flag.meaning}
        for flag in CAPABILITIES
    ] == entry["members"]


# --- schemas ------------------------------------------------------------------------------------------


def _resolved(document: dict[str, Any], fragment: Any) -> dict[str, Any]:
    """The fragment with its references replaced and its annotations dropped, down to the named types."""
    if "$ref" in fragment:
        name = fragment["$ref"].removeprefix("#/$defs/")
        return _resolved(document, document["$defs"][name])
    kept: dict[str, Any] = {}
    for key, value in fragment.items():
        if key in ("$schema", "$defs", "description", "default"):
            continue
        if key in ("oneOf", "anyOf"):
            kept[key] = [_resolved(document, part) for part in value]
        elif key == "properties":
            kept[key] = {name: _resolved(document, part) for name, part in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            kept[key] = _resolved(document, value)
        else:
            kept[key] = value
    return kept


def _expected_value(part: dict[str, Any], form: str | None, output: bool) -> dict[str, Any]:
    name, bounds = part["type"], part["constraints"]
    if name == "Mutation":
        return {"oneOf": [_expected_object(KINDS[kind], output, kind) for kind in MUTATIONS]}
    if name in TYPES:
        return _expected_object(TYPES[name], output)
    if name in ENUMS:
        return {"type": "string", "enum": [member["name"] for member in ENUMS[name]["members"]]}
    if name == "Capability":
        return {"type": "string", "pattern": schema._FLAGS}
    if "oneOf" in bounds:
        return {"enum": bounds["oneOf"]}
    if "const" in bounds:
        return {"const": bounds["const"]}
    if form is not None:
        return TYPES_FILE["formats"][form]["schema"]
    fragment = TYPES_FILE["scalars"][name]["schema"]
    limits = {word: bounds[key] for key, word in (("min", "minimum"), ("max", "maximum")) if key in bounds}
    if name in ("int32", "int64"):
        number = fragment["anyOf"][0] | limits
        return number if output else {"anyOf": [number, fragment["anyOf"][1]]}
    return fragment | limits


def _expected_member(part: dict[str, Any], output: bool) -> dict[str, Any]:
    bounds = part["constraints"]
    if part["direction"] == "output" and not output:
        return {"type": ["string", "null"]}
    if part["container"] is None:
        fragment = _expected_value(part, bounds.get("format"), output)
    else:
        item = _expected_value(part, bounds.get("itemFormat"), output)
        array = part["container"] == "array"
        fragment = {"type": "array", "items": item} if array else {"type": "object"}
        fragment |= {} if array else {"additionalProperties": item}
        words = ("minItems", "maxItems") if array else ("minProperties", "maxProperties")
        pairs = zip(("minItems", "maxItems"), words, strict=True)
        fragment |= {word: bounds[key] for key, word in pairs if key in bounds}
    nullable = part["nullable"] and not (output and part["omitWhenNull"])
    return {"anyOf": [fragment, {"type": "null"}]} if nullable and fragment else fragment


def _expected_object(entry: dict[str, Any], output: bool, kind: str | None = None) -> dict[str, Any]:
    parts: list[dict[str, Any]] = entry["members"]
    required = [part["name"] for part in parts if (not part["omitWhenNull"] if output else part["required"])]
    properties = {part["name"]: _expected_member(part, output) for part in parts}
    if kind is not None:
        required, properties = ["kind", *required], {"kind": {"const": kind}, **properties}
    fragment = {"type": "object", "properties": properties, "additionalProperties": False}
    return fragment | ({"required": required} if required else {})


@pytest.mark.covers("CON-39")
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_input_schema_holds_the_members_the_contract_reaches(name: str) -> None:
    entry, document = CALLS[name], schema.input_schema(OPERATIONS[name])
    found = _resolved(document, document)
    assert list(found["properties"]) == entry["arguments"] == found.get("required", [])
    assert found["additionalProperties"] is False
    if entry["requestType"] is not None:
        request = {"type": entry["requestType"], "constraints": {}}
        assert found["properties"]["request"] == _expected_value(request, None, output=False)


@pytest.mark.covers("CON-41", "CON-42")
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_output_schema_holds_the_members_the_contract_reaches(name: str) -> None:
    entry, document = CALLS[name], schema.output_schema(OPERATIONS[name])
    success, failure = _resolved(document, document)["oneOf"]
    result = _expected_value({"type": entry["resultType"], "constraints": {}}, None, output=True)
    if entry["resultNullable"]:
        result = {"anyOf": [result, {"type": "null"}]}
    expected = _expected_object(TYPES["ToolSuccess"], output=True)
    expected["properties"]["result"] = result
    assert success == expected
    assert failure == _expected_object(TYPES["ToolFailure"], output=True)
