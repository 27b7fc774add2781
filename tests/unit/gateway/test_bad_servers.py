"""Servers that hang, end, talk nonsense, or list what cannot be used: the rest keeps working (GTW-8)."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.server.lowlevel import Server

from keyload.gateway import GatewayOptions, SourceFailed, ToolNotFound, create_gateway
from tests.unit.gateway.support import SECRET, SILENT, add_stdio, codes, names, plant_tree, run


@pytest.mark.covers("GTW-8", "GTW-38")
def test_sources_that_hang_or_end_are_named_and_the_others_work() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway()
        registry.add_tool("local", plant_tree)
        add_stdio(registry, "hanging", module=SILENT, load_seconds=0.5)
        add_stdio(registry, "nonsense", "noise", module=SILENT, load_seconds=0.5)
        add_stdio(registry, "ending", "ends", module=SILENT)
        registry.add_stdio_server("missing", "/nowhere/at-all", ("--token", SECRET))
        registry.add_http_server("refusing", f"http://127.0.0.1:9/{SECRET}", {"Authorization": SECRET})
        add_stdio(registry, "farm", "good")
        async with gateway:
            built = await gateway.initialize()
            assert codes(built) == [
                ("source_load_failed", source)
                for source in ("hanging", "nonsense", "ending", "missing", "refusing")
            ]
            assert "in time" in built.diagnostics[0].message
            assert "ended" in built.diagnostics[2].message
            assert "command was not found" in built.diagnostics[3].message
            assert "HTTP" in built.diagnostics[4].message
            for diagnostic in built.diagnostics:
                assert diagnostic.source_id in diagnostic.message
                assert SECRET not in diagnostic.message
                assert "nowhere" not in diagnostic.message
            assert built.tool_count == 9
            assert (await gateway.invoke("farm:add_numbers", {"a": 1, "b": 2})).output == {"total": 3}
            assert (await gateway.invoke("local:plant_tree", {"kind": "ash"})).succeeded

    run(main())


@pytest.mark.covers("GTW-6", "GTW-38")
def test_a_tool_sent_twice_is_skipped() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway()
        add_stdio(registry, "farm", "duplicates")
        async with gateway:
            built = await gateway.initialize()
            assert codes(built) == [("duplicate_tool", "farm")]
            assert "show_meta" in built.diagnostics[0].message
            assert built.tool_count == 8
            (first,) = [tool for tool in await gateway.list_tools() if tool.name == "show_meta"]
            assert first.description == "Shows the meta data of the call."

    run(main())


@pytest.mark.covers("GTW-8", "GTW-39")
def test_tools_that_cannot_be_used_are_left_out_alone() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway()
        add_stdio(registry, "farm", "malformed")
        async with gateway:
            built = await gateway.initialize()
            assert codes(built) == [("source_load_failed", "farm")]
            assert "cannot be used: 3" in built.diagnostics[0].message
            assert built.tool_count == 8

    run(main())


@pytest.mark.covers("GTW-8", "GTW-39")
def test_lists_without_end_fail_alone() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway(GatewayOptions(max_tools=40))
        add_stdio(registry, "farm", "paged")
        add_stdio(registry, "endless", "endless")
        add_stdio(registry, "circular", "circular")
        async with gateway:
            built = await gateway.initialize()
            assert codes(built) == [("source_load_failed", "endless"), ("source_load_failed", "circular")]
            assert "more than 40" in built.diagnostics[0].message
            assert "repeat" in built.diagnostics[1].message
            assert built.tool_count == 8

    run(main())


@pytest.mark.covers("GTW-39")
def test_a_list_above_the_bytes_of_the_gateway_fails_alone() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway(GatewayOptions(max_metadata_bytes=600))
        registry.add_tool("local", plant_tree)
        add_stdio(registry, "farm", "good")
        async with gateway:
            built = await gateway.initialize()
            assert codes(built) == [("source_load_failed", "farm")]
            assert "600 bytes" in built.diagnostics[0].message
            assert built.tool_count == 1

    run(main())


@pytest.mark.covers("GTW-39")
def test_a_source_that_does_not_fit_beside_the_others_is_left_out_whole() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway(GatewayOptions(max_tools=10))
        add_stdio(registry, "farm", "good")
        add_stdio(registry, "barn", "good")
        registry.add_tool("local", plant_tree)
        async with gateway:
            built = await gateway.initialize()
            assert codes(built) == [("source_load_failed", "barn")]
            assert "bounds" in built.diagnostics[0].message
            assert {name.partition(":")[0] for name in await names(gateway)} == {"farm", "local"}

    run(main())


@pytest.mark.covers("GTW-8", "GTW-12")
def test_a_strict_gateway_refuses_to_start_and_keeps_a_former_generation() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway(GatewayOptions(strict_sources=True))
        registry.add_tool("local", plant_tree)
        async with gateway:
            assert await names(gateway) == ["local:plant_tree"]
            registry.add_stdio_server("missing", "/nowhere/at-all")
            found = await gateway.search("plant a tree")
            assert found.matches[0].tool_id == "local:plant_tree"
            assert ("source_load_failed", "missing") in codes(found)
            with pytest.raises(SourceFailed, match="missing"):
                await gateway.initialize()
        other, registry, _ = create_gateway(GatewayOptions(strict_sources=True))
        registry.add_tool("local", plant_tree)
        registry.add_stdio_server("missing", "/nowhere/at-all")
        async with other:
            for _ in range(2):
                with pytest.raises(SourceFailed, match="missing"):
                    await other.search("plant a tree")

    run(main())


@pytest.mark.covers("GTW-8")
def test_a_failed_source_is_tried_again_and_the_good_one_left_alone() -> None:
    attempts = 0

    async def factory() -> object:
        nonlocal attempts
        attempts += 1
        raise RuntimeError(SECRET)

    async def main() -> None:
        gateway, registry, _ = create_gateway()
        registry.add_client_factory("broken", factory)
        add_stdio(registry, "farm", "good")
        async with gateway:
            number = (await gateway.invoke("farm:process_number")).output
            await gateway.search("numbers")
            assert attempts == 1
            built = await gateway.initialize()
            assert attempts == 2
            assert SECRET not in str(built)
            registry.add_tool("local", plant_tree)
            assert (await gateway.invoke("farm:process_number")).output == number
            assert attempts == 3  # by the build that the new tool made necessary
            await gateway.invoke("broken:anything")

    with pytest.raises(ToolNotFound, match=r"the id broken:anything\. The source broken could not"):
        run(main())
    assert attempts == 3


@pytest.mark.covers("GTW-8", "GTW-39")
def test_a_refused_source_is_not_listed_again_at_each_call() -> None:
    moody = Moody()

    async def main() -> None:
        gateway, registry, _ = create_gateway(GatewayOptions(max_tools=1, retry_seconds=3600))
        registry.add_tool("local", plant_tree)
        registry.add_client_factory("moody", moody.factory)
        async with gateway:
            for _ in range(5):
                assert len((await gateway.search("plant a tree")).matches) == 1
        assert moody.listings == 1

    run(main())


@pytest.mark.covers("GTW-8", "GTW-11")
def test_initialize_tells_a_failed_build_at_once_although_a_former_generation_serves() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway(GatewayOptions(strict_sources=True))
        registry.add_tool("local", plant_tree)
        async with gateway:
            await gateway.initialize()
            registry.add_stdio_server("missing", "/nowhere/at-all")
            with pytest.raises(SourceFailed) as raised:
                await gateway.initialize()
            assert raised.value.source_id == "missing"
            with pytest.raises(ToolNotFound, match="The source missing could not be loaded"):
                await gateway.invoke("missing:tool")

    run(main())


@pytest.mark.covers("GTW-10", "GTW-12")
def test_a_tool_registered_during_a_build_that_fails_is_not_lost() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway(GatewayOptions(strict_sources=True))
        moody = Moody()

        async def factory() -> Client:
            if moody.opened == 0:
                moody.opened = 1
                registry.add_tool("local", plant_tree, name="late")
                raise OSError
            return await moody.factory()

        registry.add_tool("local", plant_tree)
        async with gateway:
            await gateway.initialize()
            registry.add_client_factory("moody", factory)
            assert [tool.name for tool in await gateway.list_tools()] == ["plant_tree", "late", "hum"]

    run(main())


@pytest.mark.covers("GTW-8")
def test_a_failed_source_comes_back_by_itself_and_nobody_waits_for_it() -> None:
    back = asyncio.Event()
    moody = Moody()

    async def factory() -> Client:
        if not back.is_set():
            raise OSError
        return await moody.factory()

    async def main() -> None:
        gateway, registry, _ = create_gateway(GatewayOptions(retry_seconds=0.01))
        registry.add_tool("local", plant_tree)
        registry.add_client_factory("moody", factory)
        async with gateway:
            assert [tool.id for tool in await gateway.list_tools()] == ["local:plant_tree"]
            back.set()
            while len(await gateway.list_tools()) < 2:
                await asyncio.sleep(0)
            assert not (await gateway.initialize()).diagnostics

    run(main())


class Moody:
    """A server in this process whose list answers, waits or fails as its mood is."""

    def __init__(self) -> None:
        self.mood = "good"
        self.opened = 0
        self.listings = 0
        self.server: Server[Any] = Server(
            "moody", version="1", on_list_tools=self.listed, on_call_tool=self.called
        )

    async def factory(self) -> Client:
        self.opened += 1
        return Client(self.server)

    async def listed(self, ctx: Any, params: Any) -> types.ListToolsResult:
        self.listings += 1
        match self.mood:
            case "hanging":
                await asyncio.Event().wait()
            case "failing":
                raise MCPError(-32000, SECRET)
            case "malformed":
                schema = {"type": "string", "description": SECRET}
                return types.ListToolsResult(tools=[types.Tool(name="x", input_schema=schema)])
        return types.ListToolsResult(tools=[types.Tool(name="hum", input_schema={"type": "object"})])

    async def called(self, ctx: Any, params: Any) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text="hmm")])


@pytest.mark.covers("GTW-8", "GTW-38", "GTW-10")
@pytest.mark.parametrize(
    ("mood", "why"), [("hanging", "in time"), ("failing", "error -32000"), ("malformed", "")]
)
def test_a_source_that_turns_bad_in_use_is_left_out_until_it_is_good_again(mood: str, why: str) -> None:
    async def main() -> None:
        moody, steady = Moody(), Moody()
        gateway, registry, _ = create_gateway()
        registry.add_client_factory("moody", moody.factory, load_seconds=0.5)
        registry.add_client_factory("steady", steady.factory)
        async with gateway:
            assert await names(gateway) == ["moody:hum", "steady:hum"]
            moody.mood = mood
            registry.reload("moody")
            assert await names(gateway) == ["steady:hum"]
            (told,) = (await gateway.search("hum")).diagnostics[1:]
            assert (told.code, told.source_id) == ("source_load_failed", "moody")
            assert why in told.message
            assert SECRET not in told.message
            assert (await gateway.invoke("steady:hum")).output == "hmm"
            moody.mood = "good"
            assert (await gateway.initialize()).diagnostics == ()
            assert (await gateway.invoke("moody:hum")).output == "hmm"
        assert steady.opened == 1

    run(main())


class Stubborn(Client):
    """A client that does not end by itself."""

    async def __aexit__(self, *failure: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await super().__aexit__(*failure)


@pytest.mark.covers("GTW-9")
def test_a_connection_that_does_not_end_is_ended() -> None:
    async def main() -> None:
        moody = Moody()

        async def factory() -> Client:
            return Stubborn(moody.server)

        gateway, registry, _ = create_gateway(GatewayOptions(close_seconds=0.1))
        registry.add_client_factory("moody", factory)
        async with gateway:
            assert (await gateway.invoke("moody:hum")).output == "hmm"

    run(main())


class Abandoned(Client):
    """A client whose own work has been cancelled."""

    async def list_tools(self, **options: Any) -> Any:
        raise asyncio.CancelledError


@pytest.mark.covers("GTW-8")
def test_a_client_that_is_cancelled_by_itself_has_failed() -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway()
        registry.add_client_factory("gone", abandoned)
        registry.add_tool("local", plant_tree)
        async with gateway:
            built = await gateway.initialize()
            assert codes(built) == [("source_load_failed", "gone")]
            assert built.tool_count == 1

    async def abandoned() -> Client:
        return Abandoned(Moody().server)

    run(main())
