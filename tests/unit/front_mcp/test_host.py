"""The host through its ASGI interface: lists, guide, protocol errors, both eras, lifecycle."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyload.contract.operations import OPERATIONS
from keyload.front.mcp import McpHost
from keyload.front.mcp.guide import URI
from keyload.link import log
from tests.unit.front_mcp.support import (
    HANDSHAKE,
    Driver,
    Functions,
    caller,
    drive,
    headers_for,
    message,
    with_driver,
)

TOOLS = ["gateway_tools_search", "gateway_tools_route", "gateway_tool_invoke"]
PROMPT = "keyload_agent_quickstart"
LISTS = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"]
ERAS = pytest.mark.parametrize("modern", [True, False], ids=["2026-07-28", HANDSHAKE])


@ERAS
@pytest.mark.covers("MCP-1", "MCP-5", "MCP-9", "CON-37")
def test_the_tools_are_exactly_three(modern: bool) -> None:
    async def test(driver: Driver) -> None:
        reply = await driver.request("tools/list", modern=modern)
        assert reply.status == 200
        assert reply.headers["content-type"].startswith("application/json")
        assert "mcp-session-id" not in reply.headers
        assert [tool["name"] for tool in reply.result["tools"]] == TOOLS
        assert reply.result.get("nextCursor") is None
        assert len(reply.body) <= 65_536
        for tool in reply.result["tools"]:
            assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
            assert tool["inputSchema"]["additionalProperties"] is False

    with_driver(test)


@pytest.mark.covers("MCP-10", "CON-45")
def test_hints_say_what_each_tool_may_do() -> None:
    async def test(driver: Driver) -> None:
        tools = (await driver.request("tools/list")).result["tools"]
        hints = {tool["name"]: tool["annotations"] for tool in tools}
        names = ("readOnlyHint", "idempotentHint", "destructiveHint", "openWorldHint")
        values = {tool: tuple(given[name] for name in names) for tool, given in hints.items()}
        assert values == {
            "gateway_tools_search": (True, True, False, False),
            "gateway_tools_route": (True, True, False, False),
            "gateway_tool_invoke": (False, False, True, False),
        }

    with_driver(test)


@pytest.mark.covers("MCP-12", "MCP-39")
@pytest.mark.parametrize("method", [*LISTS, "resources/read"])
def test_lists_are_fresh_private_and_not_cacheable(method: str) -> None:
    async def test(driver: Driver) -> None:
        params = {"uri": URI} if method == "resources/read" else {}
        first = await driver.request(method, params)
        second = await driver.request(method, params)
        assert first.body == second.body
        assert (first.result["ttlMs"], first.result["cacheScope"]) == (0, "private")
        assert "nextCursor" not in first.result

    with_driver(test)


@pytest.mark.covers("MCP-12")
def test_changing_one_list_changes_no_other() -> None:
    async def test(driver: Driver) -> None:
        context: Any = None
        first = await driver.host._list_tools(context, None)  # pyright: ignore[reportPrivateUsage]
        first["tools"][0]["inputSchema"]["properties"].clear()
        second = await driver.host._list_tools(context, None)  # pyright: ignore[reportPrivateUsage]
        assert "query" in second["tools"][0]["inputSchema"]["properties"]

    with_driver(test)


@ERAS
@pytest.mark.covers("MCP-11", "MCP-39")
@pytest.mark.parametrize("method", LISTS)
def test_a_cursor_is_refused_unless_it_is_empty(method: str, modern: bool) -> None:
    async def test(driver: Driver) -> None:
        for cursor in ("2", " "):
            refused = await driver.request(method, {"cursor": cursor}, modern=modern)
            assert refused.status == (400 if modern else 200)
            assert refused.error["code"] == -32602
            assert refused.error["data"]["errorCode"] == "Validation"
        assert (await driver.request(method, {"cursor": ""}, modern=modern)).status == 200
        wrong_type = await driver.request(method, {"cursor": 2}, modern=modern)
        assert wrong_type.error["code"] == -32602

    with_driver(test)


@ERAS
@pytest.mark.covers("MCP-13", "CON-37")
@pytest.mark.parametrize("name", [*OPERATIONS, "gateway_tools_list", "GATEWAY_TOOLS_SEARCH", ""])
def test_any_other_tool_is_a_protocol_error_without_effect(name: str, modern: bool) -> None:
    invoke = Functions({})

    async def test(driver: Driver) -> None:
        reply = await driver.call(name, {"toolId": name, "query": "x"}, modern=modern)
        assert reply.error["code"] == -32602
        if name:
            assert reply.error["data"]["errorCode"] == "NotFound"

    with_driver(test, invoke)
    assert invoke.calls == []


@ERAS
@pytest.mark.covers("MCP-37", "MCP-39", "CON-46")
def test_resource_and_prompt_give_the_same_guide(modern: bool) -> None:
    async def test(driver: Driver) -> None:
        (resource,) = (await driver.request("resources/list", modern=modern)).result["resources"]
        assert (resource["uri"], resource["mimeType"]) == (URI, "text/markdown")
        (prompt,) = (await driver.request("prompts/list", modern=modern)).result["prompts"]
        assert (prompt["name"], prompt.get("arguments")) == (PROMPT, None)
        read = await driver.request("resources/read", {"uri": URI}, modern=modern)
        (contents,) = read.result["contents"]
        got = await driver.request("prompts/get", {"name": PROMPT}, modern=modern)
        (said,) = got.result["messages"]
        assert contents["text"] == said["content"]["text"]
        assert 0 < len(contents["text"].encode()) <= 8192
        templates = await driver.request("resources/templates/list", modern=modern)
        assert templates.result["resourceTemplates"] == []

    with_driver(test)


@ERAS
@pytest.mark.covers("MCP-39")
@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("resources/read", {"uri": "keyload://guides/other"}, "NotFound"),
        ("resources/read", {"uri": "keyload://blobs/x"}, "NotFound"),
        ("prompts/get", {"name": "other"}, "NotFound"),
        ("prompts/get", {"name": PROMPT, "arguments": {"a": "b"}}, "Validation"),
    ],
)
def test_unknown_guides_and_arguments_are_invalid_params(
    method: str, params: dict[str, Any], code: str, modern: bool
) -> None:
    async def test(driver: Driver) -> None:
        reply = await driver.request(method, params, modern=modern)
        assert reply.error["code"] == -32602
        assert reply.error["data"]["errorCode"] == code

    with_driver(test)


@ERAS
@pytest.mark.covers("MCP-5", "MCP-39")
@pytest.mark.parametrize(
    "method", ["subscriptions/listen", "resources/subscribe", "completion/complete", "keyload/operations"]
)
def test_there_is_nothing_else_to_call(method: str, modern: bool) -> None:
    async def test(driver: Driver) -> None:
        params = {"uri": URI} if method == "resources/subscribe" else {}
        reply = await driver.request(method, params, modern=modern)
        assert reply.error["code"] in (-32601, -32602)

    with_driver(test)


@pytest.mark.covers("MCP-2")
def test_discovery_and_handshake_need_no_stored_state() -> None:
    async def test(driver: Driver) -> None:
        found = await driver.request("server/discover")
        assert "2026-07-28" in found.result["supportedVersions"]
        params = {
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        body = message("initialize", params, modern=False)
        headers = headers_for(body, modern=False)
        del headers["mcp-protocol-version"]
        started = await driver.send(body, headers)
        assert started.result["protocolVersion"] == "2024-11-05"
        assert started.result["capabilities"]["tools"] == {"listChanged": False}
        assert "mcp-session-id" not in started.headers
        ready = await driver.send(message("notifications/initialized", modern=False, number=None), headers)
        assert ready.status == 202
        assert (await driver.send(message("tools/list", modern=False), headers)).result["tools"]

    with_driver(test)


@pytest.mark.covers("MCP-1")
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD"])
def test_other_methods_are_not_allowed(method: str) -> None:
    async def test(driver: Driver) -> None:
        reply = await drive(driver.host, {"type": "http", "method": method, "path": "/mcp", "headers": []})
        assert (reply.status, reply.headers["allow"], reply.body) == (405, "POST", b"")

    with_driver(test)


@ERAS
@pytest.mark.covers("MCP-41")
def test_a_cancel_notification_reaches_nothing(modern: bool) -> None:
    waiting = asyncio.Event()
    go_on = asyncio.Event()

    async def status(who: Any, command_id: Any, request: Any) -> bytes:
        waiting.set()
        await go_on.wait()
        return b'"done"'

    async def test(driver: Driver) -> None:
        running = asyncio.create_task(driver.invoke("keyload_admin_status", modern=modern))
        await waiting.wait()
        body = message("notifications/cancelled", {"requestId": 1}, modern=modern, number=None)
        assert (await driver.send(body, headers_for(body, modern=modern))).status == 202
        assert not running.done()
        go_on.set()
        assert (await running).structured["result"] == "done"

    with_driver(test, Functions({"keyload_admin_status": status}))


@pytest.mark.covers("MCP-42")
def test_shutdown_waits_for_running_requests() -> None:
    order: list[str] = []

    async def main() -> None:
        waiting = asyncio.Event()
        go_on = asyncio.Event()

        async def status(who: Any, command_id: Any, request: Any) -> bytes:
            waiting.set()
            await go_on.wait()
            order.append("answered")
            return b"1"

        host = McpHost(Functions({"keyload_admin_status": status}), OPERATIONS)
        serving = asyncio.Event()
        leave = asyncio.Event()

        async def lifespan() -> None:
            async with host.run():
                serving.set()
                await leave.wait()
            order.append("closed")

        life = asyncio.create_task(lifespan())
        await serving.wait()
        running = asyncio.create_task(Driver(host).invoke("keyload_admin_status"))
        await waiting.wait()
        leave.set()
        await asyncio.sleep(0)
        go_on.set()
        assert (await running).structured["result"] == 1
        await life

    asyncio.run(main())
    assert order == ["answered", "closed"]


@ERAS
@pytest.mark.covers("MCP-4", "MCP-42")
def test_parallel_principals_see_their_own_results(modern: bool) -> None:
    async def status(who: Any, command_id: Any, request: Any) -> bytes:
        await asyncio.sleep(0)
        return json.dumps(who.principal.id).encode()

    async def test(driver: Driver) -> None:
        names = [f"principal-{number}" for number in range(40)]
        replies = await asyncio.gather(
            *(driver.invoke("keyload_admin_status", modern=modern, who=caller(name)) for name in names)
        )
        assert [reply.structured["result"] for reply in replies] == names
        ids = {reply.structured["requestId"] for reply in replies}
        assert len(ids) == len(names)

    with_driver(test, Functions({"keyload_admin_status": status}))


@pytest.mark.covers("MCP-35")
def test_an_empty_catalog_is_never_served() -> None:
    with pytest.raises(ValueError):
        McpHost(Functions({}), {})


@pytest.mark.covers("MCP-43")
def test_the_sdk_logs_nothing(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "PAUSE_SECONDS", 0.0)

    async def status(who: Any, command_id: Any, request: Any) -> bytes:
        raise ValueError("the secret of a document")

    async def test(driver: Driver) -> None:
        await driver.invoke("keyload_admin_status")
        await driver.request("prompts/get", {"name": "secret-name"}, modern=False)

    with caplog.at_level(logging.DEBUG):
        with_driver(test, Functions({"keyload_admin_status": status}))
    assert "secret" not in caplog.text
    assert not [record for record in caplog.records if record.name.startswith("mcp")]
    lines = capsys.readouterr().err
    assert "secret" not in lines
    assert "tool-failed" in lines


@pytest.mark.covers("MCP-2", "MCP-21")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_revision_of_the_handshake_gets_the_answer(version: str) -> None:
    async def status(who: Any, command_id: Any, request: Any) -> bytes:
        return b'{"node":1.50}'

    async def test(driver: Driver) -> None:
        params = {"name": "gateway_tool_invoke", "arguments": {"toolId": "keyload_admin_status"}}
        body = message("tools/call", params, modern=False)
        reply = await driver.send(body, {**headers_for(body, modern=False), "mcp-protocol-version": version})
        assert b'"structuredContent":{"result":{"node":1.50},"requestId":"' in reply.body

    with_driver(test, Functions({"keyload_admin_status": status}))


@ERAS
@pytest.mark.covers("MCP-1", "MCP-41")
def test_a_call_without_an_id_has_no_effect(modern: bool) -> None:
    invoke = Functions({})

    async def test(driver: Driver) -> None:
        params = {"name": "gateway_tool_invoke", "arguments": {"toolId": "keyload_admin_status"}}
        body = message("tools/call", params, modern=modern, number=None)
        assert (await driver.send(body, headers_for(body, modern=modern))).status == 202

    with_driver(test, invoke)
    assert invoke.calls == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("query", "maxResults", "maxCategories", "toolId", "arguments"), JSON)
)


@ERAS
@pytest.mark.covers("MCP-17", "MCP-27")
@settings(derandomize=True, deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.sampled_from([*TOOLS, "x"]), ARGUMENTS | JSON), min_size=1, max_size=8))
def test_hostile_calls_get_an_answer(modern: bool, calls: list[tuple[str, Any]]) -> None:
    async def test(driver: Driver) -> None:
        for tool, arguments in calls:
            params = {"name": tool, "arguments": arguments}
            reply = (await driver.request("tools/call", params, modern=modern)).json
            assert reply["id"] == 1
            if "error" in reply:
                assert reply["error"]["code"] == -32602
            else:
                assert set(reply["result"]["structuredContent"]) in (
                    {"result", "requestId"},
                    {"error", "requestId"},
                )

    with_driver(test)
