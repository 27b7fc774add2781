"""Random histories of a gateway: after every change a call sees exactly what is registered and healthy."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client, MCPError
from mcp.server.lowlevel import Server

from keyload.gateway import create_gateway
from tests.unit.gateway.support import names, run

STEPS = st.one_of(
    st.tuples(st.just("local"), st.integers(0, 1)),
    st.tuples(st.just("grow"), st.integers(0, 2)),
    st.tuples(st.just("shrink"), st.integers(0, 2)),
    st.tuples(st.just("break"), st.integers(0, 2)),
    st.tuples(st.just("mend"), st.integers(0, 2)),
    st.tuples(st.just("cancelled call"), st.just(0)),
    st.tuples(st.just("parallel calls"), st.integers(2, 4)),
    st.tuples(st.just("initialize"), st.just(0)),
)


class Remote:
    """A server in this process and, beside it, what a gateway should know of it."""

    def __init__(self, source_id: str) -> None:
        self.source_id = source_id
        self.tools = ["first"]
        self.healthy = True
        self.server: Server[Any] = Server("remote", version="1", on_list_tools=self.listed)

    async def factory(self) -> Client:
        return Client(self.server)

    async def listed(self, ctx: Any, params: Any) -> types.ListToolsResult:
        if not self.healthy:
            raise MCPError(-32050, "broken")
        schema: dict[str, Any] = {"type": "object"}
        return types.ListToolsResult(
            tools=[types.Tool(name=name, input_schema=schema) for name in self.tools]
        )

    @property
    def expected(self) -> list[str]:
        return [f"{self.source_id}:{name}" for name in self.tools] if self.healthy else []


@pytest.mark.covers("GTW-7", "GTW-8", "GTW-10", "GTW-12")
@settings(deadline=None, max_examples=100)
@given(st.lists(STEPS, max_size=10))
def test_a_call_sees_what_is_registered_and_healthy(steps: list[tuple[str, int]]) -> None:
    run(history(steps))


async def history(steps: list[tuple[str, int]]) -> None:
    gateway, registry, _ = create_gateway()
    remotes = [Remote(f"remote{number}") for number in range(3)]
    local: dict[str, list[str]] = {}
    for remote in remotes:
        registry.add_client_factory(remote.source_id, remote.factory)
    async with gateway:
        for number, (step, which) in enumerate(steps):
            remote = remotes[which % 3]
            match step:
                case "local":
                    tool = registry.add_tool(f"local{which}", lambda: None, name=f"tool{number}")
                    local.setdefault(tool.source_id, []).append(tool.id)
                case "grow":
                    remote.tools.append(f"tool{number}")
                case "shrink":
                    del remote.tools[-1:]
                case "break" | "mend":
                    remote.healthy = step == "mend"
                case "cancelled call":
                    call = asyncio.create_task(names(gateway))
                    await asyncio.sleep(0)
                    call.cancel()
                    await asyncio.wait([call])
                case "initialize":
                    failed = {told.source_id for told in (await gateway.initialize()).diagnostics}
                    assert failed == {one.source_id for one in remotes if not one.healthy}
                case _:
                    seen = await asyncio.gather(*(names(gateway) for _ in range(which)))
                    assert all(one == seen[0] for one in seen)
            if step in ("grow", "shrink", "break", "mend"):
                registry.reload(remote.source_id)
            expected = [tool for one in remotes for tool in one.expected]
            expected += [tool for source in local.values() for tool in source]
            assert await names(gateway) == expected
