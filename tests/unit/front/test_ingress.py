"""What comes in from outside, at its limits and one beyond: bytes, numbers, tokens, time, methods."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from keyload.front.app import FrontSettings
from keyload.front.exchange import Timeouts
from keyload.link.messages import Read
from tests.unit.front_mcp.support import headers_for, message

from .hubs import READER, ROOT, run
from .nodes import Node, RawResponse, ask, bearer, connect, get_document, node_of
from .test_mcp_edge import call, error_of, invoke

HASTY = FrontSettings(shards=6, timeouts=Timeouts(body=0.3, linger=0.1))
TOO_DEEP = "nested too deep"
TOO_MANY = "too many values"


def frame(value: bytes) -> bytes:
    """An invocation whose request is any bytes at all."""
    whole = invoke("keyload_documents_get", {"request": "@"})
    return whole.replace(b'"@"', value)


async def refusals(node: Node, value: bytes) -> list[dict[str, Any]]:
    """The problem of a value as the request over HTTP, and inside an invocation over MCP."""
    over_http = await ask(node, "POST", "/v1/documents/get", value)
    headers = list(headers_for(frame(b"0")).items())
    reply = (await ask(node, "POST", "/mcp", frame(value), headers=headers)).json
    over_mcp = reply["error"]["data"] if "error" in reply else reply["result"]["structuredContent"]["error"]
    return [over_http.json, over_mcp]


@pytest.mark.covers("HTTP-7", "CON-3", "CON-4", "MCP-7")
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b'{"reference":"\xff"}', "not UTF-8"),
        (b'{"reference":"\xed\xa0\x80"}', "not UTF-8"),
        (b'{"reference":"\\ud800"}', "surrogate"),
        (b'{"reference":"\\ude00\\ud83d"}', "surrogate"),
        (b'{"reference":NaN}', "NaN"),
        (b'{"reference":-Infinity}', "Infinity"),
        (b'{"reference":"\x00"}', "not JSON"),
        (b'\x00{"reference":1}', "not JSON"),
        (b'{"reference":01}', "not JSON"),
        (b'{"reference":1,"reference":1}', "twice"),
        (b'{"reference":1,"\\u0072eference":1}', "twice"),
        (b'{"reference":{"a":[{"b":1,"b":2}]}}', "twice"),
    ],
)
def test_bytes_that_are_no_strict_json_are_refused_at_both_doors(value: bytes, words: str) -> None:
    async def main() -> None:
        async with node_of() as node:
            for problem in await refusals(node, value):
                assert problem["errorCode"] == "Validation"
                assert words in problem["detail"]
            assert not any(isinstance(m, Read) for peer in node.peers for m in peer.received)

    run(main())


@pytest.mark.covers("HTTP-7", "CON-4", "MCP-7")
def test_a_byte_order_mark_is_refused_before_a_text_and_is_a_character_within() -> None:
    async def main() -> None:
        async with node_of() as node:
            mark = b"\xef\xbb\xbf"
            body = msgspec.json.encode(get_document())
            assert (await ask(node, "POST", "/v1/documents/get", mark + body)).json[
                "errorCode"
            ] == "Validation"
            headers = list(headers_for(frame(body)).items())
            refused = await ask(node, "POST", "/mcp", mark + frame(body), headers=headers)
            assert error_of(refused) == (400, None, "Validation")
            within = msgspec.json.encode(get_document("\ufeff"))
            assert (await ask(node, "POST", "/v1/documents/get", within)).status == 200
            assert (await ask(node, "POST", "/mcp", frame(within), headers=headers)).status == 200

    run(main())


@pytest.mark.covers("CON-5", "MCP-7")
@pytest.mark.parametrize(("door", "most"), [(0, 64), (1, 72 - 4)])
def test_exactly_the_depth_of_a_door_is_read_and_one_level_more_is_not(door: int, most: int) -> None:
    async def main() -> None:
        async with node_of() as node:
            inside = (await refusals(node, b"[" * most + b"]" * most))[door]
            beyond = (await refusals(node, b"[" * (most + 1) + b"]" * (most + 1)))[door]
            assert TOO_DEEP not in inside["detail"]
            assert TOO_DEEP in beyond["detail"]
            assert inside["errorCode"] == beyond["errorCode"] == "Validation"

    run(main())


@pytest.mark.covers("MCP-7")
@pytest.mark.parametrize("element", [b"0", b'"a"', b'"\\",["', b'"\\\\"'])
def test_two_million_tokens_are_read_and_one_more_is_not(element: bytes) -> None:
    around = _tokens(msgspec.json.decode(frame(b"[]")))
    room = 2_000_000 - around  # each element is one token and, but for the first, a comma

    async def main() -> None:
        async with node_of() as node:
            most = (room + 1) // 2
            within = (await refusals(node, b"[" + element + (b"," + element) * (most - 1) + b"]"))[1]
            beyond = (await refusals(node, b"[" + element + (b"," + element) * most + b"]"))[1]
            assert TOO_MANY not in within["detail"]
            assert TOO_MANY in beyond["detail"]

    run(main(), 60)


def _tokens(tree: Any) -> int:
    match tree:
        case dict():
            return 2 + max(0, len(tree) - 1) + sum(2 + _tokens(value) for value in tree.values())
        case list():
            return 2 + max(0, len(tree) - 1) + sum(map(_tokens, tree))
        case _:
            return 1


@pytest.mark.covers("CON-7", "MCP-6", "MCP-18")
@pytest.mark.parametrize("digits", [19, 4_300, 4_301, 5_000])
def test_a_long_number_is_refused_at_its_place_and_the_rest_of_the_message_is_read(digits: int) -> None:
    async def main() -> None:
        async with node_of() as node:
            value = b'{"reference":' + b"9" * digits + b"}"
            for problem in await refusals(node, value):
                assert (problem["errorCode"], problem["path"].endswith("/reference")) == ("Validation", True)
            headers = list(headers_for(frame(b"0")).items())
            reply = await ask(node, "POST", "/mcp", frame(value), headers=headers)
            assert (reply.status, reply.json["id"]) == (200, 1)

    run(main())


@pytest.mark.covers("ADM-7", "ADM-11", "HTTP-17")
@pytest.mark.parametrize("path", ["/v1/documents/get", "/v1/admin/dispatch?paused=true", "/mcp"])
@pytest.mark.parametrize("framing", [("content-length", "60000"), ("transfer-encoding", "chunked")])
def test_a_sender_of_single_bytes_holds_nothing_longer_than_its_deadline(
    path: str, framing: tuple[str, str]
) -> None:
    async def trickle(connection: Any) -> None:
        chunked = framing[0] == "transfer-encoding"
        while True:
            connection.writer.write(b"1\r\n \r\n" if chunked else b" ")
            await asyncio.sleep(0.02)

    async def main() -> None:
        async with node_of(settings=HASTY) as node, connect(node) as connection:
            await connection.send("POST", path, [bearer(), framing])
            slow = asyncio.create_task(trickle(connection))
            try:
                response = await connection.response()
                assert b"Cancelled" in response.body
                assert not slow.done()
                await node.idle()  # the sender goes on, and nothing is held for it
                with suppress(ConnectionError):  # what comes after the end is answered with a reset
                    assert await connection.reader.read() == b""
            finally:
                slow.cancel()

    run(main())


@pytest.mark.covers("ADM-7")
def test_a_body_that_comes_in_single_bytes_within_its_time_is_served() -> None:
    async def main() -> None:
        async with node_of() as node, connect(node) as connection:
            body = msgspec.json.encode(get_document())
            await connection.send("POST", "/v1/documents/get", [bearer(), ("content-length", str(len(body)))])
            for byte in body:
                connection.writer.write(bytes([byte]))
                await connection.writer.drain()
            assert (await connection.response()).status == 200

    run(main())


@pytest.mark.covers("SEC-1", "CON-31", "MCP-3")
@pytest.mark.parametrize(
    ("values", "status"),
    [
        ([f"Bearer {READER}"], 200),
        ([f"bEaReR {READER}"], 200),
        ([f"Bearer {READER}", f"Bearer {READER}"], 401),
        ([f"Bearer {READER}", f"Bearer {ROOT}"], 401),
        ([f"Digest {READER}"], 401),
        ([f"Bearer  {READER}"], 401),
    ],
)
def test_one_authorization_with_its_scheme_in_any_case(values: list[str], status: int) -> None:
    async def main() -> None:
        async with node_of() as node:
            headers = [("authorization", value) for value in values]
            body = msgspec.json.encode(get_document())
            answer = await ask(node, "POST", "/v1/documents/get", body, headers=headers, key_text=None)
            assert answer.status == status
            headers += headers_for(frame(body)).items()
            answer = await ask(node, "POST", "/mcp", frame(body), headers=headers, key_text=None)
            assert answer.status == status

    run(main())


@pytest.mark.covers("MCP-1", "MCP-3")
@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PATCH", "TRACE", "BREW"])
def test_any_method_but_post_is_not_allowed_at_mcp(method: str) -> None:
    async def main() -> None:
        async with node_of() as node, connect(node) as connection:
            await connection.send(method, "/mcp", [bearer()])
            head = (await connection.reader.readuntil(b"\r\n\r\n")).lower()
            if method == "BREW":  # no method of HTTP at all
                assert head.startswith(b"http/1.1 400 ")
            else:
                assert head.startswith(b"http/1.1 405 ")
                assert b"\r\nallow: post\r\n" in head
            await node.idle()

    run(main())


async def listed(node: Node, fields: dict[str, str]) -> RawResponse:
    body = message("tools/list")
    return await ask(node, "POST", "/mcp", body, headers=list((headers_for(body) | fields).items()))


@pytest.mark.covers("MCP-2", "MCP-6")
def test_headers_that_differ_from_the_body_are_refused_with_a_problem() -> None:
    async def main() -> None:
        async with node_of() as node:
            assert (await listed(node, {})).status == 200
            for fields in (
                {"mcp-method": "tools/call"},
                {"mcp-protocol-version": "2025-06-18"},
                {"mcp-protocol-version": "1999-01-01"},
            ):
                reply = await listed(node, fields)
                if fields == {"mcp-protocol-version": "2025-06-18"}:
                    assert reply.status == 200  # the handshake era knows no such headers
                    continue
                error = reply.json["error"]
                assert (reply.status, error["code"]) == (400, -32020)
                assert error["data"]["errorCode"] == "Validation"
            body = invoke("keyload_documents_get", {"request": get_document()})
            headers = list((headers_for(body) | {"mcp-name": "gateway_tools_search"}).items())
            reply = await ask(node, "POST", "/mcp", body, headers=headers)
            assert (reply.status, reply.json["error"]["data"]["errorCode"]) == (400, "Validation")
            assert not any(isinstance(m, Read) for peer in node.peers for m in peer.received)
            assert (await call(node, body)).status == 200

    run(main())
