"""Refusals that the SDK words itself: every one carries a problem, none shows what was sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from keyload.front.mcp.refusals import with_problem
from tests.unit.front_mcp.support import MODERN, Driver, headers_for, message, with_driver

ERAS = pytest.mark.parametrize("modern", [True, False], ids=["modern", "handshake"])
SEARCH = "gateway_tools_search"
SECRET = "s3cr3t-value"


def refused(reply: Any, status: int, rpc_code: int, code: str) -> None:
    assert reply.status == status, reply.body
    assert reply.headers["content-type"] == "application/json"
    assert int(reply.headers["content-length"]) == len(reply.body)
    assert reply.error["code"] == rpc_code
    assert reply.error["data"]["errorCode"] == code
    assert reply.error["data"]["type"] == f"urn:keyload:error:{code}"
    assert SECRET.encode() not in reply.body


@ERAS
@pytest.mark.covers("MCP-6")
@pytest.mark.parametrize(
    ("name", "value"),
    [("accept", None), ("accept", "text/html"), ("content-type", None), ("content-type", "text/plain")],
)
def test_media_types_that_do_not_fit_are_validation(name: str, value: str | None, modern: bool) -> None:
    async def test(driver: Driver) -> None:
        body = message("tools/list", modern=modern)
        headers = headers_for(body, modern=modern)
        del headers[name]
        reply = await driver.send(body, headers if value is None else {**headers, name: value})
        refused(reply, 400, -32600, "Validation")
        assert reply.json["id"] is None

    with_driver(test)


@ERAS
@pytest.mark.covers("MCP-2", "MCP-6")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("accept", "*/*"),
        ("accept", "application/json"),
        ("accept", "text/html, application/json;q=0.5"),
        ("content-type", "application/json; charset=utf-8"),
    ],
)
def test_media_types_that_fit_are_taken(name: str, value: str, modern: bool) -> None:
    async def test(driver: Driver) -> None:
        body = message("tools/list", modern=modern)
        reply = await driver.send(body, {**headers_for(body, modern=modern), name: value})
        assert len(reply.result["tools"]) == 3

    with_driver(test)


@ERAS
@pytest.mark.covers("MCP-6", "MCP-11", "MCP-17")
@pytest.mark.parametrize(
    ("method", "params", "rpc_code", "code"),
    [
        ("tools/call", {"name": SEARCH, "arguments": [SECRET]}, -32602, "Validation"),
        ("tools/call", {"name": SEARCH, "arguments": SECRET}, -32602, "Validation"),
        ("tools/call", {"name": SEARCH, "arguments": 5}, -32602, "Validation"),
        ("tools/call", {"arguments": {"query": SECRET}}, -32602, "Validation"),
        ("tools/list", {"cursor": 5}, -32602, "Validation"),
        ("tools/list", {"cursor": SECRET}, -32602, "Validation"),
        ("resources/read", {"text": SECRET}, -32602, "Validation"),
        ("nothing", {"text": SECRET}, -32601, "NotFound"),
    ],
)
def test_an_error_of_the_protocol_carries_a_problem(
    method: str, params: dict[str, Any], rpc_code: int, code: str, modern: bool
) -> None:
    async def test(driver: Driver) -> None:
        reply = await driver.request(method, params, modern=modern)
        status = 200 if not modern else 404 if code == "NotFound" else 400
        refused(reply, status, rpc_code, code)
        assert reply.json["id"] == 1

    with_driver(test)


@pytest.mark.covers("MCP-2", "MCP-6")
def test_an_unknown_revision_is_told_which_ones_there_are() -> None:
    async def test(driver: Driver) -> None:
        body = message("tools/list").replace(MODERN.encode(), b"2099-01-01")
        reply = await driver.send(body, {**headers_for(body), "mcp-protocol-version": "2099-01-01"})
        refused(reply, 400, -32022, "Validation")
        assert MODERN in reply.error["data"]["supported"]

    with_driver(test)


@pytest.mark.covers("MCP-6", "CON-55")
@pytest.mark.parametrize("code", [0, -32603])
def test_a_failure_inside_the_node_is_not_blamed_on_the_caller(code: int) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": "a", "error": {"code": code, "message": f"No.\n{SECRET}"}})
    status, told = with_problem(200, body.encode())
    answer = json.loads(told)
    assert (status, answer["id"], answer["error"]["code"]) == (200, "a", code)
    assert answer["error"]["data"]["errorCode"] == "OwnershipLost"
    assert SECRET not in told.decode()


def test_what_carries_a_result_or_nothing_stays_as_it_is() -> None:
    for status, body in ((202, b""), (200, b'{"jsonrpc":"2.0","id":1,"result":{"error":{"code":1}}}')):
        assert with_problem(status, body) == (status, body)
