"""Servers for tests, as processes: over stdio the gateway starts them, over HTTP the test does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from mcp.client.stdio import StdioServerParameters

from keyload.gateway import Gateway, GatewayRegistry, SearchResult

ROOT = Path(__file__).parents[3]
TOOLS = "tests.unit.gateway.servers.tools"
SILENT = "tests.unit.gateway.servers.silent"
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
SECRET = "hush-hush-4711"


def add_stdio(
    registry: GatewayRegistry, source_id: str, *arguments: str, module: str = TOOLS, **more: Any
) -> None:
    registry.add_stdio_server(
        source_id, sys.executable, ("-m", module, *arguments), {**ENVIRONMENT, "SECRET": SECRET}, **more
    )


def stdio_parameters(*arguments: str) -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=["-m", TOOLS, *arguments], env=ENVIRONMENT)


class HttpProcess:
    """A running server over HTTP."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def http_server(kind: str = "good", environment: Mapping[str, str] | None = None) -> Iterator[HttpProcess]:
    process = subprocess.Popen(
        [sys.executable, "-m", TOOLS, kind, "http"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **ENVIRONMENT, **(environment or {})},
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield HttpProcess(process, f"http://127.0.0.1:{int(process.stdout.readline())}/mcp")
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def plant_tree(kind: str) -> str:
    """Plants a tree in the garden."""
    return f"{kind} planted"


def codes(told: Any) -> list[tuple[str, str]]:
    """Code and source of the diagnostics of a result."""
    return [(diagnostic.code, diagnostic.source_id) for diagnostic in told.diagnostics]


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a test, which leaves no task and no process behind."""

    async def checked() -> None:
        before = set(psutil.Process().children())
        await work
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert set(psutil.Process().children()) <= before

    asyncio.run(checked())


async def names(gateway: Gateway) -> list[str]:
    return [tool.id for tool in await gateway.list_tools()]


def ids(result: SearchResult) -> list[str]:
    return [match.tool_id for match in result.matches]
