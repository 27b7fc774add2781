"""The OpenAPI document: who gets it, on which lane, and that it says what the declarations say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from keyload.codec import decoding
from keyload.contract.errors import ERRORS, ErrorCode
from keyload.contract.operation import Operation
from keyload.contract.operations import OPERATIONS
from keyload.front import openapi
from keyload.front.admission import DEFAULT_LIMITS
from keyload.front.app import FrontSettings
from tests.unit.declared import faults, whole

from .hubs import READER, ROOT, run
from .nodes import Node, ask, node_of

DOCUMENT: dict[str, Any] = msgspec.json.decode(openapi.response().body)
OPEN = [operation for operation in OPERATIONS.values() if operation.http_body == "request"]


def described(operation: Operation) -> dict[str, Any]:
    return DOCUMENT["paths"][operation.http_route][operation.http_method.lower()]


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": DOCUMENT["components"]})


async def status(node: Node, key_text: str | None, path: str = openapi.PATH, method: str = "GET") -> int:
    return (await ask(node, method, path, key_text=key_text)).status


@pytest.mark.covers("SEC-1", "SEC-8", "MCP-30", "ADM-3")
def test_any_current_principal_reads_it_and_nobody_else() -> None:
    async def main() -> None:
        async with node_of() as node:
            for key_text in (ROOT, READER):  # the reader has no grant at all
                response = await ask(node, "GET", openapi.PATH, key_text=key_text)
                assert (response.status, response.body) == (200, openapi.response().body)
                assert response.headers["content-type"] == "application/json"
            assert await status(node, READER, "/OpenAPI.json/") == 200
            for key_text in (None, "", "reader.wrong", "nobody.secret"):
                response = await ask(node, "GET", openapi.PATH, key_text=key_text)
                assert (response.status, response.json["errorCode"]) == (401, "Unauthenticated")
                assert b"paths" not in response.body
            for method in ("POST", "PUT", "DELETE"):
                assert await status(node, ROOT, method=method) == 404
            await node.idle()

    run(main())


@pytest.mark.covers("ADM-1", "ADM-5", "ADM-7", "ADM-9")
def test_it_draws_on_the_data_lane() -> None:
    limits = msgspec.structs.replace(DEFAULT_LIMITS, max_requests=1)

    async def main() -> None:
        async with node_of(settings=FrontSettings(shards=6, http=limits)) as node:
            lease = node.front.gate.reserve("data-other", 0)
            response = await ask(node, "GET", openapi.PATH, key_text=None)
            assert (response.status, response.headers["retry-after"]) == (429, "1")
            node.front.gate.release(lease)
            control = node.front.gate.reserve("control", 0)
            assert await status(node, READER) == 200
            node.front.gate.release(control)
            await node.idle()

    run(main())


@pytest.mark.covers("HTTP-1", "CON-28", "CON-29", "CON-30")
def test_it_is_valid_and_has_every_operation_and_nothing_else() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()
    assert DOCUMENT["openapi"].startswith("3.1.")
    routes = {
        (path, method): each["operationId"]
        for path, methods in DOCUMENT["paths"].items()
        for method, each in methods.items()
    }
    assert routes == {
        (operation.http_route, operation.http_method.lower()): name for name, operation in OPERATIONS.items()
    }
    assert DOCUMENT["security"] == [{"key": []}]
    for operation in OPERATIONS.values():
        each = described(operation)
        assert (each["summary"], each["description"]) == (operation.title, operation.description)
        parameters = {(found["in"], found["name"], found["required"]) for found in each.get("parameters", [])}
        expected: set[Any] = set()
        if operation.write_identity is not None:
            expected.add(("header", "X-KeyLoad-Command-Id", operation.outer_command_id))
        if operation.http_query is not None:
            expected.add(("query", operation.http_query, True))
        assert parameters == expected
        assert ("requestBody" in each) is (operation.http_body == "request")


@pytest.mark.covers("HTTP-16", "HTTP-17", "CON-34", "CON-48", "CON-49")
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_has_its_problems(name: str) -> None:
    operation = OPERATIONS[name]
    responses = described(operation)["responses"]
    told = Counter[str]()
    for status_text, response in responses.items():
        if status_text == "200":
            assert response["headers"].keys() == {"X-KeyLoad-Request-Id"}
            continue
        (content,) = response["content"].values()
        assert list(response["content"]) == ["application/problem+json"]
        for code, example in content["examples"].items():
            told[code] += 1
            assert ERRORS[ErrorCode(code)].http_status == int(status_text) == example["value"]["status"]
            validator(content["schema"]).validate(example["value"])
            wrong = example["value"] | {"errorCode": "Nonsense"}
            assert not validator(content["schema"]).is_valid(wrong)
    assert told == Counter(str(code) for code in operation.errors)
    assert "Retry-After" in responses["429"]["headers"]
    assert "WWW-Authenticate" in responses["401"]["headers"]


@pytest.mark.covers("CON-1", "CON-2", "HTTP-8", "HTTP-14")
@pytest.mark.parametrize("operation", OPEN, ids=lambda operation: operation.name)
def test_a_request_is_described_as_it_is_decoded(operation: Operation) -> None:
    content = described(operation)["requestBody"]["content"]["application/json"]
    decoding.decode_request(operation, content["example"])
    request = validator(content["schema"])
    request.validate(content["example"])
    request.validate(whole(operation.request))
    shapes = ("unknown", "missing", "null", "wrong type", "kind", "misspelt", "enum", "count")
    tried = 0
    for fault in faults(operation.request):
        if fault.what.startswith(shapes):
            tried += 1
            assert not request.is_valid(fault.tree), fault
    assert tried > 5
