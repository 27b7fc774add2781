"""Schemas are valid draft 2020-12 and agree with decoding on shape."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import msgspec
import pytest

from keyload.codec import decoding, schema
from keyload.contract.capabilities import CAPABILITIES
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.gateway import GatewayRouteArguments, GatewaySearchArguments, GatewaySearchResult
from keyload.contract.operations import OPERATIONS

Validator = jsonschema.Draft202012Validator


def accepts(document: dict[str, Any], tree: Any) -> bool:
    return Validator(document).is_valid(tree)


@pytest.mark.parametrize("name", OPERATIONS)
def test_schemas_are_schemas_and_accept_the_example(name: str) -> None:
    operation = OPERATIONS[name]
    for document in (schema.input_schema(operation), schema.output_schema(operation)):
        Validator.check_schema(document)
        assert json.loads(json.dumps(document)) == document
        assert document["type"] == "object"
    assert accepts(schema.input_schema(operation), decoding.example_arguments(operation))
    assert schema.input_schema(operation) is schema.input_schema(operation)


@pytest.mark.covers("CON-7", "CON-15")
@pytest.mark.parametrize(
    ("change", "accepted"),
    [
        ({"ownershipEpoch": "7"}, True),
        ({"ownershipEpoch": 0}, False),
        ({"ownershipEpoch": 1.5}, False),
        ({"mutations": []}, False),
        ({"mutations": [{"kind": "deleteDocument", "collection": "c", "id": "i", "resource": "c"}]}, True),
        ({"mutations": [{"kind": "deleteDocument", "collection": "c", "id": "i", "json": "{}"}]}, False),
        ({"mutations": [{"kind": "eraseDocument", "collection": "c", "id": "i"}]}, False),
        ({"surprise": 1}, False),
    ],
)
def test_a_command_schema_and_decoding_agree(change: dict[str, Any], accepted: bool) -> None:
    operation = OPERATIONS["keyload_documents_commit"]
    arguments = copy.deepcopy(decoding.example_arguments(operation))
    arguments["request"] |= change
    assert accepts(schema.input_schema(operation), arguments) is accepted
    try:
        decoding.decode_arguments(operation, arguments)
    except KeyLoadError:
        assert not accepted
    else:
        assert accepted


@pytest.mark.covers("CON-10")
def test_the_schema_of_capabilities_accepts_what_decoding_does() -> None:
    operation = OPERATIONS["keyload_principals_configure"]
    document = schema.input_schema(operation)
    for text, accepted in (
        ("All", True),
        (" Query ,DocumentsRead", True),
        (", ".join(flag.name for flag in CAPABILITIES), True),
        ("", False),
        ("query", False),
        ("Query,", False),
    ):
        grant = {"database": "*", "resource": "*", "capabilities": text}
        arguments = copy.deepcopy(decoding.example_arguments(operation))
        arguments["request"]["principal"]["grants"] = [grant]
        assert accepts(document, arguments) is accepted


@pytest.mark.covers("CON-41", "CON-42", "CON-17")
def test_an_output_schema_tells_success_from_failure() -> None:
    document = schema.output_schema(OPERATIONS["keyload_documents_get"])
    problem = msgspec.to_builtins(KeyLoadError(ErrorCode.NOT_FOUND, "Nothing.").problem)
    assert accepts(document, {"result": None, "requestId": None})
    assert accepts(document, {"error": problem, "requestId": None})
    assert not accepts(document, {"result": None})
    assert not accepts(document, {"result": None, "error": problem, "requestId": None})
    assert not accepts(
        schema.output_schema(OPERATIONS["keyload_admin_dispatch"]), {"result": None, "requestId": None}
    )


@pytest.mark.covers("CON-7")
def test_gateway_tools_have_strict_schemas() -> None:
    strict = schema.request_schema(GatewaySearchArguments, strict_integers=True)
    assert accepts(strict, {"query": "q", "maxResults": 4})
    assert not accepts(strict, {"query": "q", "maxResults": "4"})
    assert not accepts(strict, {"query": "q", "maxResults": 5})
    assert accepts(schema.request_schema(GatewaySearchArguments), {"query": "q", "maxResults": "4"})
    route = schema.request_schema(GatewayRouteArguments, strict_integers=True)
    assert route["properties"]["preferReadOnly"]["default"] is False
    found = schema.tool_output_schema(GatewaySearchResult)
    assert accepts(found, {"result": {"matches": []}, "requestId": None})
    Validator.check_schema(schema.result_schema(GatewaySearchResult))


@pytest.mark.covers("MCP-29")
def test_a_request_without_members_says_what_its_value_means() -> None:
    for operation in OPERATIONS.values():
        if operation.request is bool:
            described = schema.input_schema(operation)["properties"]["request"]["description"]
            assert described == operation.request_meaning
    dispatch = schema.input_schema(OPERATIONS["keyload_admin_dispatch"])["properties"]["request"]
    assert dispatch["description"] == "True pauses delivery, false resumes it."
