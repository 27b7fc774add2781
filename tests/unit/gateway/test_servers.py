"""Real MCP servers over stdio and Streamable HTTP: loading, calling, changing, closing."""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import ContextVar
from typing import Any

import psutil
import pytest
from mcp import Client

from keyload.gateway import Gateway, GatewayOptions, GatewayRegistry, ToolHints, ToolNotFound, create_gateway
from tests.unit.gateway.support import (
    SECRET,
    add_stdio,
    codes,
    http_server,
    ids,
    names,
    plant_tree,
    run,
    stdio_parameters,
)


def add_farm(registry: GatewayRegistry, url: str | None) -> None:
    """The good server, over HTTP when there is an address of it, else over stdio."""
    if url is None:
        add_stdio(registry, "farm", "good")
    else:
        registry.add_http_server("farm", url)


async def number_of(gateway: Gateway, source: str) -> int:
    return int((await gateway.invoke(f"{source}:process_number")).output)


async def good_calls(gateway: Gateway) -> None:
    """What every good server shows."""
    done = await gateway.invoke("farm:add_numbers", {"a": 2, "b": 40})
    assert (done.succeeded, done.output, done.error) == (True, {"total": 42}, "")
    assert done.mcp_result.content[0].text == "42"
    meta = await gateway.invoke(
        "farm:show_meta", query="what grows", context_summary="in spring", context={"field": "north"}
    )
    assert meta.output == {
        "keyload.gateway/query": "what grows",
        "keyload.gateway/contextSummary": "in spring",
        "keyload.gateway/context": {"field": "north"},
    }
    failed = await gateway.invoke("farm:fail_always")
    assert (failed.succeeded, failed.error) == (False, "The field is flooded.")
    assert failed.mcp_result.is_error
    broken = await gateway.invoke("farm:break_always")
    assert not broken.succeeded
    assert broken.error
    calls = (gateway.invoke("farm:add_numbers", {"a": number, "b": 1}) for number in range(40))
    assert [done.output["total"] for done in await asyncio.gather(*calls)] == list(range(1, 41))
    match = (await gateway.search("add two numbers")).matches[0]
    assert match.tool_id == "farm:add_numbers"
    assert match.required == ("a", "b")
    assert (match.tool.title, match.tool.hints.read_only, match.tool.hints.destructive) == (
        "Add numbers",
        True,
        False,
    )


@pytest.mark.covers("GTW-2", "GTW-4", "GTW-34", "GTW-35", "GTW-9")
def test_a_stdio_server_is_started_when_needed_and_ended_with_the_gateway() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway()
        add_stdio(registry, "farm", "good")
        async with gateway:
            await good_calls(gateway)
            number = await number_of(gateway, "farm")
            assert psutil.pid_exists(number)
            assert await number_of(gateway, "farm") == number
        assert not psutil.pid_exists(number)

    run(main())


@pytest.mark.covers("GTW-4", "GTW-34", "GTW-35")
def test_an_http_server_is_called_with_the_headers_given() -> None:
    async def main() -> None:
        with http_server(environment={"TEST_TOKEN": SECRET}) as server:
            gateway, registry, _ = create_gateway()
            registry.add_http_server("farm", server.url, {"Authorization": f"Bearer {SECRET}"})
            registry.add_http_server("locked", server.url, {"Authorization": "Bearer wrong"})
            async with gateway:
                await good_calls(gateway)
                built = await gateway.initialize()
                assert codes(built) == [("source_load_failed", "locked")]
                assert "status 401" in built.diagnostics[0].message
                assert SECRET not in str(built)
                assert "wrong" not in str(built)
                assert "details" not in str(built)

    run(main())


@pytest.mark.covers("GTW-10", "GTW-8")
@pytest.mark.parametrize("over_http", [False, True], ids=["stdio", "http"])
def test_a_list_that_changes_while_in_use_is_loaded_again(over_http: bool) -> None:
    async def main() -> None:
        with http_server() as server:
            gateway, registry, _ = create_gateway()
            add_farm(registry, server.url if over_http else None)
            add_stdio(registry, "quiet", "good")
            async with gateway:
                await told_change(gateway)

    run(main())


async def told_change(gateway: Gateway) -> None:
    """The next call after the notification knows the new tool; nothing else is started anew."""
    before = await number_of(gateway, "quiet")
    assert "farm:harvest_apples" not in await names(gateway)
    assert (await gateway.invoke("farm:grow_list")).output == "grown"
    async with asyncio.timeout(60):
        while "farm:harvest_apples" not in await names(gateway):  # the notification may come a little later
            await asyncio.sleep(0)
    assert (await gateway.invoke("farm:harvest_apples")).output == "apples"
    assert await number_of(gateway, "quiet") == before


@pytest.mark.covers("GTW-5", "GTW-10")
@pytest.mark.parametrize("over_http", [False, True], ids=["stdio", "http"])
def test_a_server_of_the_handshake_era_tells_changes_too(over_http: bool) -> None:
    made: list[Client] = []

    async def main() -> None:
        with http_server() as server:

            async def factory() -> Client:
                made.append(Client(server.url if over_http else stdio_parameters("good"), mode="legacy"))
                return made[-1]

            gateway, registry, _ = create_gateway()
            registry.add_client_factory("farm", factory)
            add_stdio(registry, "quiet", "good")
            assert made == []
            async with gateway:
                await told_change(gateway)
                assert made[0].protocol_version < "2026"
            assert len(made) == 1

    run(main())


@pytest.mark.covers("GTW-5", "GTW-9")
@pytest.mark.parametrize("dispose", [False, True])
def test_a_given_client_is_closed_only_on_demand(dispose: bool) -> None:
    async def main() -> None:
        client = Client(stdio_parameters("good"))
        await client.__aenter__()
        gateway, registry, _ = create_gateway()
        registry.add_client("farm", client, dispose=dispose)
        await good_calls(gateway)
        number = await number_of(gateway, "farm")
        await gateway.close()
        assert psutil.pid_exists(number) is not dispose
        if not dispose:
            assert len((await client.list_tools()).tools) == 8
            await client.__aexit__(None, None, None)

    run(main())


@pytest.mark.covers("GTW-5", "GTW-9")
def test_several_given_clients_are_left_as_contexts_of_one_task_have_to_be() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway()
        for source in ("first", "second", "third"):
            client = Client(stdio_parameters("good"))
            await client.__aenter__()
            registry.add_client(source, client, dispose=True)
        numbers = [await number_of(gateway, source) for source in ("first", "second", "third")]
        await gateway.close()
        assert not any(map(psutil.pid_exists, numbers))

    run(main())


@pytest.mark.covers("GTW-5")
def test_a_client_that_is_not_connected_needs_dispose() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway()
        registry.add_client("farm", Client(stdio_parameters("good")), dispose=True)
        registry.add_client("idle", Client(stdio_parameters("good")))
        async with gateway:
            built = await gateway.initialize()
            assert codes(built) == [("source_load_failed", "idle")]
            assert "not connected" in built.diagnostics[0].message
            number = await number_of(gateway, "farm")
        assert not psutil.pid_exists(number)

    run(main())


@pytest.mark.covers("GTW-5")
def test_a_factory_may_connect_its_client_itself() -> None:
    calls = 0

    async def factory() -> Client:
        nonlocal calls
        calls += 1
        client = Client(stdio_parameters("good"))
        await client.__aenter__()
        return client

    async def main() -> None:
        gateway, registry, _ = create_gateway()
        registry.add_client_factory("farm", factory)
        async with gateway:
            await good_calls(gateway)
            number = await number_of(gateway, "farm")
            registry.reload("farm")
            assert await number_of(gateway, "farm") == number
        assert calls == 1
        assert not psutil.pid_exists(number)

    run(main())


@pytest.mark.covers("GTW-8", "GTW-35", "GTW-2")
def test_a_server_that_dies_ends_its_calls_and_is_started_anew() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway()
        add_stdio(registry, "farm", "good")
        registry.add_tool("local", plant_tree)
        async with gateway:
            number = await number_of(gateway, "farm")
            waiting = asyncio.create_task(gateway.invoke("farm:wait_forever"))
            died = await gateway.invoke("farm:end_process")
            assert not died.succeeded
            assert not (await waiting).succeeded
            assert (await gateway.invoke("local:plant_tree", {"kind": "oak"})).output == "oak planted"
            assert await number_of(gateway, "farm") != number
            assert (await gateway.initialize()).diagnostics == ()

    run(main())


@pytest.mark.covers("GTW-5", "GTW-8")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_whose_server_died_unnoticed_is_made_anew(mode: str) -> None:
    made: list[Client] = []

    async def factory() -> Client:
        made.append(Client(stdio_parameters("good"), mode=mode))
        return made[-1]

    async def main() -> None:
        gateway, registry, _ = create_gateway()
        registry.add_client_factory("farm", factory)
        async with gateway:
            number = await number_of(gateway, "farm")
            process = psutil.Process(number)
            process.kill()
            process.wait()
            registry.reload("farm")
            built = await gateway.initialize()
            assert (built.tool_count, built.diagnostics) == (8, ())
            assert await number_of(gateway, "farm") != number
        assert len(made) == 2

    run(main())


@pytest.mark.covers("GTW-2", "MCP-4")
def test_a_connection_does_not_keep_the_context_of_the_first_caller() -> None:
    caller: ContextVar[str] = ContextVar("caller", default="nobody")
    seen: list[str] = []

    async def factory() -> Client:
        seen.append(caller.get())
        return Client(stdio_parameters("good"))

    async def main() -> None:
        caller.set("first")
        gateway, registry, _ = create_gateway()
        registry.add_client_factory("farm", factory)
        async with gateway:
            await gateway.initialize()

    run(main())
    assert seen == ["nobody"]


@pytest.mark.covers("GTW-8", "GTW-35")
def test_an_http_server_that_is_gone_is_told_and_tried_again() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway()
        registry.add_tool("local", plant_tree)
        with http_server() as server:
            registry.add_http_server("farm", server.url)
            number = await number_of(gateway, "farm")
            assert number == server.process.pid
            server.kill()
        with contextlib.suppress(ToolNotFound):  # the end of the connection may be known already
            assert not (await gateway.invoke("farm:process_number")).succeeded
        assert await names(gateway) == ["local:plant_tree"]
        assert codes(await gateway.search("tree"))[-1] == ("source_load_failed", "farm")
        await gateway.close()

    run(main())


@pytest.mark.covers("GTW-35", "GTW-2")
@pytest.mark.parametrize("over_http", [False, True], ids=["stdio", "http"])
def test_a_cancelled_call_leaves_the_connection_usable(over_http: bool) -> None:
    async def main() -> None:
        with http_server() as server:
            gateway, registry, _ = create_gateway()
            add_farm(registry, server.url if over_http else None)
            async with gateway:
                number = await number_of(gateway, "farm")
                call = asyncio.create_task(gateway.invoke("farm:wait_forever"))
                await asyncio.sleep(0)
                assert await number_of(gateway, "farm") == number
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
                assert await number_of(gateway, "farm") == number

    run(main())


@pytest.mark.covers("GTW-9", "GTW-35")
def test_closing_ends_calls_that_do_not_end_themselves() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway(GatewayOptions(close_seconds=0.2))
        add_stdio(registry, "farm", "good")
        await gateway.initialize()
        call = asyncio.create_task(gateway.invoke("farm:wait_forever"))
        await asyncio.sleep(0)
        await asyncio.gather(gateway.close(), gateway.close())
        assert not (await call).succeeded
        await gateway.close()

    run(main())


@pytest.mark.covers("GTW-23", "GTW-7", "GTW-33")
def test_hints_of_the_host_complete_the_tools_of_a_server() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway()
        hints: dict[str, Any] = {
            "add_numbers": ToolHints(category="sums", aliases=("total up",), next_steps=("show_meta",))
        }
        add_stdio(registry, "farm", "paged", hints=hints)
        add_stdio(registry, "barn", "good")
        async with gateway:
            assert len(await names(gateway)) == 16
            assert ids(await gateway.search("total up"))[0] == "farm:add_numbers"
            graph = await gateway.graph()
            assert graph.next_steps("farm:add_numbers") == ("farm:show_meta",)
            named = await gateway.invoke(
                tool_name="add_numbers", source_id="barn", arguments={"a": 1, "b": 1}
            )
            assert named.output == {"total": 2}

    run(main())
