"""The official client against a served host, with its own negotiation."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from keyload.contract.operations import OPERATIONS
from keyload.front.mcp import McpHost
from keyload.front.mcp.guide import PROMPT, URI
from tests.unit.front_mcp.support import Functions, headers_for, message, served

STATUS, DISPATCH = "keyload_admin_status", "keyload_admin_dispatch"
COMMAND = "0f8fad5b-d9cb-469f-a165-70867728950e"


async def who_am_i(who: Any, command_id: Any, request: Any) -> bytes:
    return json.dumps({"principal": who.principal.id}).encode()


async def switch(who: Any, command_id: Any, request: Any) -> bytes:
    return json.dumps(request).encode()


def functions() -> Functions:
    return Functions({STATUS: who_am_i, DISPATCH: switch})


def run(test: Any, invoke: Any = None) -> None:
    async def main() -> None:
        async with served(McpHost(invoke or functions(), OPERATIONS)) as url:
            await test(url)

    asyncio.run(main())


def keyed(key: str = "alice.secret") -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=20)


@pytest.mark.covers("MCP-1", "MCP-2", "MCP-9", "MCP-29", "MCP-36", "CON-37")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_searches_reads_and_invokes(mode: Any) -> None:
    async def test(url: str) -> None:
        async with (
            keyed() as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            tools = await client.list_tools()
            assert len(tools.tools) == 3
            found = await client.call_tool("gateway_tools_search", {"query": "is the node healthy"})
            match = found.structured_content["result"]["matches"][0]
            done = await client.call_tool("gateway_tool_invoke", {"toolId": match["toolId"]})
            assert done.structured_content["result"] == {"principal": "alice"}
            arguments = {"toolId": DISPATCH, "arguments": {"commandId": COMMAND, "request": False}}
            paused = await client.call_tool("gateway_tool_invoke", arguments)
            assert (paused.is_error, paused.structured_content["result"]) == (False, False)
            refused = await client.call_tool("gateway_tools_search", {"query": "x", "maxResults": 9})
            assert refused.is_error
            assert refused.structured_content["error"]["errorCode"] == "Validation"

    run(test)


@pytest.mark.covers("MCP-13", "MCP-37", "MCP-38", "MCP-39", "CON-46")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_guide_through_the_client(mode: Any) -> None:
    async def test(url: str) -> None:
        async with (
            keyed() as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            resource = await client.read_resource(URI)
            prompt = await client.get_prompt(PROMPT)
            text = resource.contents[0].text
            assert prompt.messages[0].content.text == text
            for refused in (
                client.call_tool(STATUS, {}),
                client.read_resource("keyload://guides/none"),
                client.get_prompt("none"),
            ):
                with pytest.raises(MCPError) as error:
                    await refused
                assert error.value.code == -32602

    run(test)


@pytest.mark.covers("MCP-3", "MCP-4", "CON-38")
def test_each_request_is_its_keys_own() -> None:
    async def test(url: str) -> None:
        async with keyed() as alice, keyed("bob.secret") as bob:
            answers = []
            for http in (alice, bob, alice):
                async with Client(streamable_http_client(url, http_client=http)) as client:
                    done = await client.call_tool("gateway_tool_invoke", {"toolId": STATUS})
                    answers.append(done.structured_content["result"]["principal"])
            assert answers == ["alice", "bob", "alice"]

    run(test)


@pytest.mark.covers("MCP-6", "MCP-7")
@pytest.mark.parametrize(
    ("body", "key", "status", "code"),
    [
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}', "alice.secret", 400, "Validation"),
        (b"[]", "alice.secret", 400, "Validation"),
        (b"{}", "nobody", 401, "Unauthenticated"),
    ],
)
def test_early_failures_over_the_wire(body: bytes, key: str, status: int, code: str) -> None:
    async def test(url: str) -> None:
        async with keyed(key) as http:
            reply = await http.post(url, content=body, headers=headers_for(message("tools/list")))
            assert reply.status_code == status
            answer = reply.json()
            assert answer["id"] is None
            assert answer["error"]["data"]["errorCode"] == code

    run(test)


@pytest.mark.covers("MCP-27")
def test_a_large_result_reaches_the_client_unchanged() -> None:
    text = json.dumps(["y" * 1000] * 8000).encode()

    async def large(who: Any, command_id: Any, request: Any) -> bytes:
        return text

    async def test(url: str) -> None:
        body = message("tools/call", {"name": "gateway_tool_invoke", "arguments": {"toolId": STATUS}})
        async with keyed() as http:
            reply = await http.post(url, content=body, headers=headers_for(body))
            assert text in reply.content
            assert reply.json()["result"]["structuredContent"]["result"] == ["y" * 1000] * 8000

    run(test, Functions({STATUS: large}))
