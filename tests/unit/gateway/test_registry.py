"""Registration, its bounds, the generations of the index, and invocation."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from keyload.gateway import (
    GatewayOptions,
    RegistrationError,
    ToolHints,
    ToolNotFound,
    create_gateway,
)
from keyload.gateway.schema_text import schema_arguments
from tests.unit.gateway.catalog import OPERATIONS, contract_gateway, echo

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Town."}},
}


def add(registry: Any, name: str, **more: Any) -> Any:
    values = {"description": f"Does {name}.", "input_schema": SCHEMA, **more}
    return registry.add_tool("local", echo, name=name, **values)


@pytest.mark.covers("GTW-6", "GTW-7", "MCP-32")
def test_ids_are_stable_and_unique() -> None:
    _, registry = create_gateway()
    tool = add(registry, "forecast")
    assert (tool.id, tool.title) == ("local:forecast", "forecast")
    with pytest.raises(RegistrationError):
        add(registry, "forecast")
    with pytest.raises(RegistrationError):
        add(registry, "")
    assert [tool.id for tool in registry.tools] == ["local:forecast"]


@pytest.mark.covers("MCP-34", "GTW-39")
@pytest.mark.parametrize(
    ("options", "more"),
    [
        (GatewayOptions(max_tools=1), {}),
        (GatewayOptions(max_metadata_bytes=400), {}),
        (GatewayOptions(descriptor_text_limit=100), {"description": "d" * 97}),
        (GatewayOptions(descriptor_text_limit=100), {"hints": ToolHints(aliases=("a" * 50, "b" * 50))}),
    ],
)
def test_a_bound_is_checked_before_anything_is_registered(options: GatewayOptions, more: Any) -> None:
    _, registry = create_gateway(options)
    add(registry, "one", output_schema={"description": "o" * 200})
    version = registry.version
    with pytest.raises(RegistrationError):
        add(registry, "second", output_schema={"description": "o" * 200}, **more)
    assert registry.version == version
    assert len(registry.tools) == 1


@pytest.mark.covers("GTW-10", "GTW-11")
def test_a_later_registration_makes_a_new_generation() -> None:
    gateway, registry = create_gateway()
    assert asyncio.run(gateway.initialize()) == 0
    add(registry, "forecast")
    assert asyncio.run(gateway.initialize()) == 1
    assert [match.tool.name for match in asyncio.run(gateway.search("forecast", 4))] == ["forecast"]


@pytest.mark.covers("GTW-33", "GTW-35")
def test_an_invocation_returns_what_the_tool_returned_or_raised() -> None:
    gateway, registry = create_gateway()

    async def fail(arguments: Mapping[str, Any]) -> Any:
        raise ValueError(arguments["why"])

    registry.add_tool("local", fail, name="fail", description="Fails.", input_schema={})
    add(registry, "echo")
    done = asyncio.run(gateway.invoke("local:echo", {"city": "Bern"}))
    assert done.succeeded
    assert done.output == {"arguments": {"city": "Bern"}}
    failed = asyncio.run(gateway.invoke("local:fail", {"why": "no"}))
    assert not failed.succeeded
    assert isinstance(failed.error, ValueError)
    with pytest.raises(ToolNotFound):
        asyncio.run(gateway.invoke("local:ECHO", {}))


@pytest.mark.covers("GTW-35", "MCP-33", "MCP-40")
def test_cancelling_the_caller_reaches_the_tool() -> None:
    gateway, registry = create_gateway()
    seen: list[str] = []

    async def main() -> None:
        started = asyncio.Event()

        async def wait(arguments: Mapping[str, Any]) -> Any:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                seen.append("ended")

        registry.add_tool("local", wait, name="wait", description="Waits.", input_schema={})
        call = asyncio.create_task(gateway.invoke("local:wait", {}))
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    assert seen == ["ended"]


@pytest.mark.covers("GTW-13")
def test_argument_texts_follow_references_and_stop_at_the_limit() -> None:
    schema = {
        "properties": {"request": {"$ref": "#/$defs/node"}},
        "$defs": {
            "node": {
                "properties": {
                    "child": {"$ref": "#/$defs/node", "description": "Next."},
                    "list": {"items": {"anyOf": [{"properties": {"deep": {"description": "Far."}}}]}},
                    "a~b/c": {"$ref": "#/$defs/missing"},
                }
            }
        },
    }

    def pairs(schema: dict[str, Any], limit: int) -> list[tuple[str, str]]:
        return [(argument.name, argument.text) for argument in schema_arguments(schema, limit)]

    everything = [("request", ""), ("child", "Next."), ("list", ""), ("a~b/c", ""), ("deep", "Far.")]
    assert list(pairs(schema, 4096)) == everything
    assert list(pairs(schema, 20)) == everything[:2]


@pytest.mark.covers("GTW-2")
def test_parallel_calls_see_their_own_results() -> None:
    async def main() -> None:
        gateway = contract_gateway()
        names = [operation["name"] for operation in OPERATIONS]
        found = await asyncio.gather(*(gateway.search(name, 1) for name in names))
        assert [matches[0].tool.name for matches in found] == names

    asyncio.run(main())


@pytest.mark.covers("GTW-40")
def test_the_library_imports_nothing_of_the_server() -> None:
    script = (
        "import sys, keyload.gateway\n"
        "mine = {name for name in sys.modules if name.startswith('keyload.')}\n"
        "print([name for name in sorted(mine) if not name.startswith('keyload.gateway')])\n"
        "print([name for name in ('numpy', 'mcp', 'quart') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n[]\n"
