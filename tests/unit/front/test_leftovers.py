"""After many calls and broken connections nothing is left: no task, lease, call, connection or descriptor."""

from __future__ import annotations

import asyncio

import psutil
import pytest

from harness.leftovers import abort, broken, call, mcp_calls

from .hubs import ROOT, run, until
from .nodes import node_of

ROUNDS = 40


@pytest.mark.covers("ADM-7", "ADM-11", "MCP-1", "MCP-40")
def test_calls_and_broken_connections_leave_nothing() -> None:
    async def main() -> None:
        async with node_of() as node:
            process = psutil.Process()
            calls, beginnings = mcp_calls(ROOT), broken(ROOT)

            async def some(rounds: int) -> tuple[int, int]:
                await call(node.address, calls, rounds * len(calls), connections=4)
                await abort(node.address, beginnings, rounds * len(beginnings))
                await node.idle()
                await until(lambda: node.hub.outstanding == 0)
                await until(lambda: len(asyncio.all_tasks()) <= tasks)
                await until(lambda: process.num_fds() <= descriptors)
                return len(asyncio.all_tasks()), process.num_fds()

            tasks, descriptors = len(asyncio.all_tasks()), process.num_fds()
            first = await some(2)
            assert await some(ROUNDS) == first == (tasks, descriptors)

    run(main(), 60)
