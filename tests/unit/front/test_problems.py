"""What HTTP says of a wrong request: place, expectation, a request that would do, and whether to repeat."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from keyload.codec import decoding
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.operation import Operation
from keyload.contract.operations import OPERATIONS
from keyload.link.messages import Command, Read, Refusal
from tests.unit.declared import MARKER, whole

from .hubs import run
from .nodes import ID, Node, RawResponse, ask, node_of

HEADER = "x-keyload-command-id"
WITH_BODY = [operation for operation in OPERATIONS.values() if operation.http_body == "request"]


def problem(response: RawResponse, operation: Operation, path: str, status: int = 400) -> Any:
    """The Problem of an answer, checked for what every problem of a request has."""
    found = response.json
    assert (response.status, found["path"]) == (status, path)
    assert found["expected"]
    assert found["retry"] == "never"
    assert MARKER not in response.body.decode()
    if operation.request is None:
        assert "example" not in found
    else:
        decoding.decode_request(operation, found["example"])
    return found


async def send(
    node: Node, operation: Operation, body: Any = None, query: str = "", identity: str | None = ID
) -> RawResponse:
    headers = [] if identity is None or not operation.outer_command_id else [(HEADER, identity)]
    if body is None and operation.http_body == "request":
        body = decoding.skeleton(operation.request)
    if not query and operation.http_query is not None:
        query = f"?{operation.http_query}=true"
    return await ask(node, operation.http_method, operation.http_route + query, body, headers=headers)


@pytest.mark.covers("HTTP-2", "HTTP-3", "HTTP-7", "HTTP-16", "CON-28", "CON-29", "CON-30")
def test_header_query_and_body_are_refused_with_their_place() -> None:
    async def main() -> None:
        async with node_of() as node:
            for operation in OPERATIONS.values():
                if operation in WITH_BODY:
                    assert (await send(node, operation)).status == 200
                if operation.outer_command_id:
                    for identity in (None, "", MARKER, "00000000-0000-0000-0000-000000000000"):
                        answer = await send(node, operation, identity=identity)
                        problem(answer, operation, "/headers/X-KeyLoad-Command-Id")
                if operation.http_query is not None:
                    for query in (f"?{MARKER}=1", f"?{operation.http_query}={MARKER}"):
                        answer = await send(node, operation, query=query)
                        problem(answer, operation, f"/query/{operation.http_query}")
                else:
                    problem(await send(node, operation, query=f"?{MARKER}=1"), operation, "/query")
                if operation.http_body == "none":
                    problem(await send(node, operation, MARKER.encode()), operation, "")
                else:
                    problem(await send(node, operation, b'{"a":{"b":tru}}'), operation, "/a/b")
                    problem(await send(node, operation, [MARKER]), operation, "")

    run(main())


@pytest.mark.covers("HTTP-1")
def test_an_unknown_route_is_told_the_known_one() -> None:
    async def main() -> None:
        async with node_of() as node:
            for operation in OPERATIONS.values():
                method = "POST" if operation.http_method == "GET" else "GET"
                answer = await ask(node, method, operation.http_route)
                assert answer.json["errorCode"] == "NotFound"
                assert answer.json["expected"] == f"{operation.http_method} {operation.http_route}"
            assert "/openapi.json" in (await ask(node, "GET", "/v1/nothing")).json["expected"]

    run(main())


@pytest.mark.covers("HTTP-16", "CON-34")
@pytest.mark.parametrize("code", [ErrorCode.VALIDATION, ErrorCode.CONFLICT])
def test_a_refusal_of_the_execution_gets_its_example_at_the_door(code: ErrorCode) -> None:
    error = KeyLoadError(code, "Said so.", path="/some/place", expected="another value")

    async def main() -> None:
        async with node_of() as node:
            answer = node.peers[0].answer
            for peer in node.peers:
                peer.behaviour = lambda message: (
                    [Refusal(message.call, msgspec.msgpack.encode(error.problem))]
                    if isinstance(message, Command | Read)
                    else answer(message)
                )
            for operation in WITH_BODY:
                response = await send(node, operation, whole(operation.request))
                assert (response.json["path"], response.json["expected"]) == ("/some/place", "another value")
                assert response.json["retry"] == "never"
                if code is ErrorCode.VALIDATION:
                    problem(response, operation, "/some/place")
                else:
                    assert "example" not in response.json

    run(main())
