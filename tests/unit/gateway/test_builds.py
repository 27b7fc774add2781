"""Generations: one shared build, cancellation, registration meanwhile, warm-up, closing (GTW-9..12)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from mcp import Client
from mcp.server.lowlevel import Server

from keyload.gateway import (
    Gateway,
    GatewayClosed,
    GatewayError,
    GatewayOptions,
    GatewayRegistry,
    create_gateway,
    lexical,
)
from tests.unit.gateway.servers.tools import server_of
from tests.unit.gateway.support import codes, names, plant_tree, run


class Gate:
    """A source in this process whose connecting waits until it is let in."""

    def __init__(self) -> None:
        self.attempts = 0
        self.cancelled = 0
        self.asked = asyncio.Event()
        self.open = asyncio.Event()
        self.server: Server[Any] = server_of("good")

    async def factory(self) -> Client:
        self.attempts += 1
        self.asked.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Client(self.server)


def gated(**options: Any) -> tuple[Gateway, GatewayRegistry, Gate]:
    gateway, registry, _ = create_gateway(GatewayOptions(**options))
    gate = Gate()
    registry.add_tool("local", plant_tree)
    registry.add_client_factory("farm", gate.factory)
    return gateway, registry, gate


@pytest.mark.covers("GTW-10", "GTW-2")
def test_first_calls_share_one_build() -> None:
    async def main() -> None:
        gateway, _, gate = gated()
        calls: list[asyncio.Task[Any]] = [
            asyncio.create_task(call)
            for call in (
                gateway.list_tools(),
                gateway.search("tree"),
                gateway.route("tree"),
                gateway.invoke("local:plant_tree", {"kind": "elm"}),
                gateway.initialize(),
            )
        ]
        await gate.asked.wait()
        gate.open.set()
        tools, found, routed, invoked, built = await asyncio.gather(*calls)
        assert gate.attempts == 1
        assert len(tools) == built.tool_count == 9
        assert found.matches[0].tool_id == "local:plant_tree"
        assert routed.categories[0].matches[0].tool_id == "local:plant_tree"
        assert invoked.output == "elm planted"
        await gateway.close()

    run(main())


@pytest.mark.covers("GTW-10", "GTW-12")
def test_one_who_leaves_takes_nobody_with_him_and_the_last_ends_the_build() -> None:
    async def main() -> None:
        gateway, _, gate = gated()
        first, second = (asyncio.create_task(names(gateway)) for _ in range(2))
        await gate.asked.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert not second.done()
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        gate.open.set()
        assert len(await names(gateway)) == 9
        await gateway.close()

    run(main())


@pytest.mark.covers("GTW-10")
def test_a_registration_during_a_build_is_in_the_next_call() -> None:
    async def main() -> None:
        gateway, registry, gate = gated()
        early = asyncio.create_task(names(gateway))
        await gate.asked.wait()
        registry.add_tool("local", lambda: "late", name="late", description="Came late.")
        late = asyncio.create_task(names(gateway))
        gate.open.set()
        assert "local:late" not in await early
        assert "local:late" in await late
        assert gate.attempts == 1
        await gateway.close()

    run(main())


@pytest.mark.covers("GTW-10", "GTW-12")
def test_running_calls_keep_their_generation_and_a_cancelled_build_leaves_it() -> None:
    async def main() -> None:
        started, go_on = asyncio.Event(), asyncio.Event()

        async def slow() -> str:
            started.set()
            await go_on.wait()
            return "old"

        gateway, registry, _ = create_gateway()
        registry.add_tool("local", slow)
        running = asyncio.create_task(gateway.invoke("local:slow"))
        await started.wait()
        gate = Gate()
        registry.add_client_factory("farm", gate.factory)
        build = asyncio.create_task(names(gateway))
        await gate.asked.wait()
        build.cancel()
        with pytest.raises(asyncio.CancelledError):
            await build
        go_on.set()
        assert (await running).output == "old"
        gate.open.set()
        assert len(await names(gateway)) == 9
        await gateway.close()

    run(main())


@pytest.mark.covers("GTW-12")
def test_a_failed_build_leaves_the_former_generation_and_fails_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = lexical.LexicalIndex

    def broken(*_: Any) -> Any:
        raise MemoryError

    async def main() -> None:
        gateway, registry, _ = create_gateway()
        monkeypatch.setattr(lexical, "LexicalIndex", broken)
        registry.add_tool("local", plant_tree)
        for _ in range(2):
            with pytest.raises(GatewayError, match="MemoryError"):
                await names(gateway)
        monkeypatch.setattr(lexical, "LexicalIndex", real)
        assert await names(gateway) == ["local:plant_tree"]
        monkeypatch.setattr(lexical, "LexicalIndex", broken)
        registry.add_tool("local", plant_tree, name="again")
        assert await names(gateway) == ["local:plant_tree"]
        with pytest.raises(GatewayError, match="MemoryError"):
            await gateway.initialize()
        monkeypatch.setattr(lexical, "LexicalIndex", real)
        assert (await gateway.initialize()).tool_count == 2

    run(main())


@pytest.mark.covers("GTW-10", "GTW-12")
def test_an_index_that_outlasts_its_callers_is_taken_over_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = lexical.LexicalIndex
    go_on = threading.Event()
    made: list[int] = []

    async def main() -> None:
        started = asyncio.Event()
        loop = asyncio.get_running_loop()

        def slow(documents: Any, low_confidence: float) -> Any:
            made.append(len(documents))
            loop.call_soon_threadsafe(started.set)
            go_on.wait()
            return real(documents, low_confidence)

        monkeypatch.setattr(lexical, "LexicalIndex", slow)
        gateway, registry, _ = create_gateway()
        registry.add_tool("local", plant_tree)
        async with gateway:
            impatient = asyncio.create_task(names(gateway))
            await started.wait()
            impatient.cancel()
            await asyncio.wait([impatient])
            patient = asyncio.create_task(names(gateway))
            await asyncio.sleep(0)
            go_on.set()
            assert await patient == ["local:plant_tree"]
            assert made == [1]
            registry.add_tool("local", plant_tree, name="again")
            assert len(await names(gateway)) == 2
            assert made == [1, 2]

    run(main())


@pytest.mark.covers("GTW-11")
def test_a_warm_up_in_the_background_serves_the_first_call() -> None:
    async def main() -> None:
        gateway, _, gate = gated(warm_up=True)
        async with gateway:
            await gate.asked.wait()
            gate.open.set()
            built = await gateway.initialize()
            assert (built.tool_count, built.vector_count, built.diagnostics) == (9, 0, ())
            assert gate.attempts == 1

    run(main())


@pytest.mark.covers("GTW-11", "GTW-9")
def test_a_warm_up_under_way_ends_with_the_gateway() -> None:
    async def main() -> None:
        gateway, _, gate = gated(warm_up=True)
        async with gateway:
            await gate.asked.wait()
        assert gate.cancelled == 1
        strict, registry, _ = create_gateway(GatewayOptions(strict_sources=True, warm_up=True))
        registry.add_stdio_server("missing", "/nowhere/at-all")
        async with strict:
            built = asyncio.create_task(strict.initialize())
            with pytest.raises(GatewayError, match="missing"):
                await built

    run(main())


@pytest.mark.covers("GTW-9")
def test_closing_waits_for_running_calls_and_refuses_new_ones() -> None:
    order: list[str] = []

    async def main() -> None:
        started, go_on = asyncio.Event(), asyncio.Event()

        async def slow() -> str:
            started.set()
            await go_on.wait()
            order.append("answered")
            return "done"

        gateway, registry, tool_set = create_gateway()
        registry.add_tool("local", slow)
        running = asyncio.create_task(gateway.invoke("local:slow"))
        await started.wait()

        async def close() -> None:
            await gateway.close()
            order.append("closed")

        closing = asyncio.create_task(close())
        await asyncio.sleep(0)
        with pytest.raises(GatewayClosed):
            await gateway.search("slow")
        with pytest.raises(GatewayClosed):
            await tool_set.create_tools()[0].call({"query": "slow"})
        go_on.set()
        assert (await running).output == "done"
        await closing
        await gateway.close()
        with pytest.raises(GatewayClosed):
            await gateway.list_tools()

    run(main())
    assert order == ["answered", "closed"]


@pytest.mark.covers("GTW-9", "GTW-10")
def test_closing_ends_a_build_that_somebody_waits_for() -> None:
    async def main() -> None:
        gateway, _, gate = gated(close_seconds=0.05)
        waiting = asyncio.create_task(names(gateway))
        await gate.asked.wait()
        await gateway.close()
        with pytest.raises(GatewayClosed):
            await waiting
        assert gate.cancelled == 1

    run(main())


@pytest.mark.covers("GTW-8", "GTW-10")
def test_a_list_that_is_said_to_have_changed_is_loaded_again_over_the_same_connection() -> None:
    async def main() -> None:
        gateway, registry, gate = gated()
        gate.open.set()
        assert len(await names(gateway)) == 9
        registry.reload("farm")
        registry.reload("farm")
        assert len(await names(gateway)) == 9
        assert gate.attempts == 1
        with pytest.raises(KeyError):
            registry.reload("local")
        assert codes(await gateway.initialize()) == []
        await gateway.close()
        assert len(asyncio.all_tasks()) == 1

    run(main())
