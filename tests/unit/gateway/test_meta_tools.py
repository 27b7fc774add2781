"""The gateway as three ordinary tools (GTW-36, GTW-37)."""

from __future__ import annotations

import functools
import json
from typing import Any

import mcp_types as types
import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.server.lowlevel import Server

from keyload.gateway import GatewayError, GatewayToolSet, MetaTool, RegistrationError, create_gateway
from tests.unit.gateway.support import names, plant_tree, run


def served(tools: list[MetaTool]) -> Server[Any]:
    """A server that offers meta tools as a host would."""
    by_name = {tool.name: tool for tool in tools}

    async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=tool.input_schema,
                    _meta=tool.meta,
                )
                for tool in tools
            ]
        )

    async def called(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        answer = await by_name[params.name].call(params.arguments)
        return types.CallToolResult(content=[], structured_content=answer)

    return Server("host", version="1", on_list_tools=listed, on_call_tool=called)


@pytest.mark.covers("GTW-36", "GTW-1")
def test_the_tools_search_route_and_invoke() -> None:
    async def main() -> None:
        _, registry, tool_set = create_gateway()
        registry.add_tool("local", plant_tree)
        search, route, invoke = tool_set.create_tools()
        assert [tool.name for tool in (search, route, invoke)] == [
            "gateway_tools_search",
            "gateway_tools_route",
            "gateway_tool_invoke",
        ]
        for tool in (search, route, invoke):
            Draft202012Validator.check_schema(tool.input_schema)
            assert tool.input_schema["additionalProperties"] is False
            assert all(member["description"] for member in tool.input_schema["properties"].values())
        found = await search.call({"query": "plant a tree", "maxResults": 1})
        assert json.loads(json.dumps(found)) == found
        (match,) = found["matches"]
        assert (match["toolId"], match["requiredArguments"]) == ("local:plant_tree", ["kind"])
        assert found["rankingMode"] == "lexical"
        assert found["diagnostics"][0]["code"] == "lexical_fallback"
        routed = await route(query="plant a tree")
        assert routed["categories"][0]["category"] == "local"
        done = await invoke.call({"toolId": "local:plant_tree", "arguments": {"kind": "fir"}})
        assert done == {"succeeded": True, "output": "fir planted", "error": ""}
        named = await invoke(toolName="plant_tree", source="local", arguments={"kind": "fir"})
        assert named["succeeded"]
        unknown = await invoke(toolId="local:nobody")
        assert (unknown["succeeded"], unknown["error"]) == (
            False,
            "There is no tool with the id local:nobody.",
        )
        registry.add_tool("local", lambda: {1: object}, name="odd")
        assert (await invoke(toolId="local:odd"))["output"] == {"1": "<class 'object'>"}
        for wrong in ({"nope": 1}, {"query": 3}, {"maxResults": "many"}):
            with pytest.raises(GatewayError, match="gateway_tools_search"):
                await search.call(wrong)

    run(main())


@pytest.mark.covers("GTW-36", "GTW-1")
def test_names_can_be_chosen_and_several_sets_coexist() -> None:
    gateway, _, tool_set = create_gateway()
    other = GatewayToolSet(gateway, "find", "sort", "run")
    assert [tool.name for tool in other.create_tools()] == ["find", "sort", "run"]
    assert [tool.name for tool in gateway.create_meta_tools("a", "b", "c")] == ["a", "b", "c"]
    assert "run" in other.create_tools()[0].description
    tool_set.create_tools().clear()
    assert len(tool_set.create_tools()) == 3
    for wrong in (("a", "a", "b"), ("a", "", "b"), ("a", "b", " ")):
        with pytest.raises(ValueError, match="names"):
            gateway.create_meta_tools(*wrong)
        with pytest.raises(ValueError, match="names"):
            GatewayToolSet(gateway, *wrong)


@pytest.mark.covers("GTW-37")
def test_a_gateway_does_not_index_its_own_meta_tools() -> None:
    async def main() -> None:
        gateway, registry, tool_set = create_gateway()
        tools = tool_set.create_tools()
        for function in (tools[0], tools[0].call, functools.partial(tools[0].call, {})):
            with pytest.raises(RegistrationError, match="own meta tools"):
                registry.add_tool("local", function, name="x", input_schema={})
        registry.add_tool("local", plant_tree)
        registry.add_client("host", Client(served(tools)), dispose=True)
        other, other_registry, _ = create_gateway()
        other_registry.add_tool("inner", tools[0], name="search", input_schema=tools[0].input_schema)
        other_registry.add_client("host", Client(served(tools)), dispose=True)
        async with gateway, other:
            assert await names(gateway) == ["local:plant_tree"]
            assert len(await names(other)) == 4
            found = await other.invoke("host:gateway_tools_search", {"query": "plant a tree"})
            assert found.output["matches"][0]["toolId"] == "local:plant_tree"
            inner = await other.invoke("inner:search", {"query": "plant a tree"})
            assert inner.output["matches"][0]["toolId"] == "local:plant_tree"

    run(main())
