"""MCP requests through the edge: their lane, their bounds, and that nothing is held afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from keyload.front.admission import DEFAULT_LIMITS, McpLimits
from keyload.front.app import FrontSettings
from keyload.front.hosts import Hosts
from keyload.link.messages import Command
from tests.unit.front_mcp.support import HANDSHAKE, MODERN, headers_for, message

from .hubs import READER, VERSION, run, until
from .nodes import PARTITION, Node, RawResponse, ask, bearer, connect, get_document, node_of
from .test_exchange import CHUNKED, hold_reads, send_chunks

ID = "0b1d3f5a-7c9e-4b2d-8f60-112233445566"


def invoke(operation: str, arguments: dict[str, Any]) -> bytes:
    tool = {"name": "gateway_tool_invoke", "arguments": {"toolId": operation, "arguments": arguments}}
    return message("tools/call", tool)


async def call(node: Node, body: bytes, key_text: str = READER) -> RawResponse:
    headers = list(headers_for(body).items())
    return await ask(node, "POST", "/mcp", body, headers=headers, key_text=key_text)


def error_of(response: RawResponse) -> tuple[int, Any, str]:
    tree = response.json
    return response.status, tree["id"], tree["error"]["data"]["errorCode"]


@pytest.mark.covers("MCP-5", "MCP-26", "CON-47")
def test_an_invocation_takes_the_path_of_http() -> None:
    async def main() -> None:
        async with node_of() as node:
            response = await call(node, invoke("keyload_documents_get", {"request": get_document()}))
            assert response.status == 200
            structured = response.json["result"]["structuredContent"]
            assert structured["result"]["operation"] == "keyload_documents_get"
            mutation = {"kind": "deleteDocument", "collection": "c", "id": "1", "expectedRevision": None}
            commit = {"commandId": ID, "partition": PARTITION, "mutations": [mutation]}
            await call(node, invoke("keyload_documents_commit", {"request": commit}))
            assert (await ask(node, "POST", "/v1/commands", commit, key_text=READER)).status == 200
            over_mcp, over_http = [m for p in node.peers for m in p.received if isinstance(m, Command)]
            assert msgspec.structs.replace(over_mcp, call=over_http.call) == over_http
            assert (over_mcp.principal, over_mcp.catalog_version) == ("reader", VERSION)
            await node.idle()

    run(main())


@pytest.mark.covers("ADM-4", "ADM-29", "MCP-24")
def test_a_frame_uses_the_lane_of_its_target() -> None:
    limits = msgspec.structs.replace(DEFAULT_LIMITS, max_requests=1)

    async def main() -> None:
        async with node_of(settings=FrontSettings(shards=6, http=limits), call_ms=1000) as node:
            held = hold_reads(node)
            read = invoke("keyload_documents_get", {"request": get_document()})
            first = asyncio.create_task(call(node, read))
            await until(lambda: bool(held))
            usage = node.front.gate.status().node
            assert (usage.commands, usage.control_commands) == (1, 0)
            assert usage.retained_bytes == 4 * len(read) + 1_048_576 + 4_096
            refused = await call(node, read)
            assert error_of(refused) == (429, None, "ResourceExhausted")
            assert refused.headers["retry-after"] == "1"
            assert (await call(node, message("tools/list"))).status == 200
            switch = invoke("keyload_admin_dispatch", {"commandId": ID, "request": True})
            assert (await call(node, switch)).status == 200
            await first
            await node.idle()

    run(main())


@pytest.mark.covers("MCP-8", "ADM-10", "ADM-29")
def test_white_space_counts_toward_the_cap_of_the_lane() -> None:
    async def main() -> None:
        async with node_of() as node:
            small = message("tools/list")
            fits = small + b" " * (65_536 - len(small))
            assert (await call(node, fits)).status == 200
            headers = list(headers_for(small).items())
            over = await ask(node, "POST", "/mcp", fits + b" ", headers=headers)
            assert error_of(over) == (429, None, "ResourceExhausted")
            read = invoke("keyload_documents_get", {"request": get_document()})
            headers = list(headers_for(read).items())
            assert (await ask(node, "POST", "/mcp", read + b" " * 70_000, headers=headers)).status == 200
            await node.idle()

    run(main())


@pytest.mark.covers("MCP-12", "ADM-26")
@pytest.mark.parametrize("protocol", [HANDSHAKE, MODERN])
def test_the_id_of_a_message_is_short_so_that_lists_fit_their_bound(protocol: str) -> None:
    async def main() -> None:
        async with node_of() as node:
            for length, status in ((1024, 200), (1025, 400), (60_000, 400)):
                modern = protocol == MODERN
                body = message("tools/list", modern=modern, number="\u0001" * length)
                headers = list(headers_for(body, modern=modern).items())
                response = await ask(node, "POST", "/mcp", body, headers=headers)
                assert response.status == status
                assert len(response.body) <= 65_536
            await node.idle()

    run(main())


@pytest.mark.covers("MCP-6", "MCP-7")
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"a":1,"a":2}', b"\xff", b"[" * 73 + b"]" * 73, b'{"jsonrpc":NaN}']
)
def test_a_malformed_frame_is_an_early_error(body: bytes) -> None:
    async def main() -> None:
        async with node_of() as node:
            response = await ask(node, "POST", "/mcp", body)
            assert error_of(response) == (400, None, "Validation")
            await node.idle()

    run(main())


@pytest.mark.covers("ADM-28")
def test_ingress_is_bounded_before_the_credential_and_while_bytes_arrive() -> None:
    settings = FrontSettings(shards=6, mcp=McpLimits(max_ingress_bytes=20_000))

    async def main() -> None:
        async with node_of(settings=settings) as node:
            declared = await ask(node, "POST", "/mcp", b" " * 5_001, key_text=None)
            assert error_of(declared) == (429, None, "ResourceExhausted")
            async with connect(node) as connection:
                await connection.send("POST", "/mcp", [bearer(), CHUNKED])
                await send_chunks(connection, 20)
                streamed = await connection.response()
            assert error_of(streamed) == (429, None, "ResourceExhausted")
            await node.idle()

    run(main())


@pytest.mark.covers("MCP-1")
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_other_methods_are_not_allowed_and_need_a_key(method: str) -> None:
    async def main() -> None:
        async with node_of() as node:
            response = await ask(node, method, "/mcp")
            assert (response.status, response.headers["allow"]) == (405, "POST")
            assert error_of(await ask(node, method, "/mcp", key_text=None))[0] == 401
            await node.idle()

    run(main())


@pytest.mark.covers("ADM-7", "MCP-41")
def test_a_peer_that_leaves_during_an_invocation_leaves_nothing() -> None:
    async def main() -> None:
        async with node_of(call_ms=300) as node:
            held = hold_reads(node)
            body = invoke("keyload_documents_get", {"request": get_document()})
            async with connect(node) as connection:
                headers = [*headers_for(body).items(), bearer()]
                await connection.send("POST", "/mcp", headers, body)
                await until(lambda: bool(held))
            assert not node.front.gate.idle
            await node.idle()

    run(main())


@pytest.mark.covers("CLU-30")
def test_a_call_that_runs_at_shutdown_is_finished() -> None:
    async def main() -> None:
        async with node_of(call_ms=500) as node:
            held = hold_reads(node)
            running = asyncio.create_task(ask(node, "POST", "/v1/documents/get", get_document()))
            await until(lambda: bool(held))
        assert (await running).json["errorCode"] == "OwnershipLost"
        assert not node.front.readiness.ready()

    run(main())


@pytest.mark.covers("MCP-1", "MCP-6")
def test_only_pages_of_the_node_and_of_this_machine_may_send() -> None:
    settings = FrontSettings(shards=6, hosts=Hosts("https://db.example.org"))
    known = ["https://db.example.org", "https://db.example.org:443", "http://localhost:6274", "http://[::1]"]
    foreign = ["https://db.example.org.evil.example", "http://db.example.org", "https://evil.example", "null"]
    nonsense = ["", "file://", "http://localhost/path", "http://localhost:99999", "localhost", "é" * 2]

    async def main() -> None:
        async with node_of(settings=settings) as node:
            body = message("tools/list")

            async def asked(*origins: str, key_text: str = READER) -> RawResponse:
                headers = [*headers_for(body).items(), *(("Origin", origin) for origin in origins)]
                return await ask(node, "POST", "/mcp", body, headers=headers, key_text=key_text)

            assert (await asked()).status == 200
            for origin in known:
                assert (await asked(origin)).status == 200, origin
            for origin in [*foreign, *nonsense]:
                assert error_of(await asked(origin)) == (403, None, "PermissionDenied"), origin
            assert (await asked(known[0], foreign[0])).status == 403
            assert (await asked(known[0], key_text="other.key")).status == 401
            await node.idle()

    run(main())
