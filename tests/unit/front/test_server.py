"""The accept loop: idle connections, peers that leave, bounds, and an orderly end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest

from keyload.front import server
from keyload.front.server import Server, listen

from .hubs import run, until


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers at once, or when it is told to."""
    if scope["path"] == "/wait":
        await scope["gate"]()
    if scope["path"] == "/fail":
        raise RuntimeError("MARKER")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Served:
    """A running server and the event that ends it."""

    def __init__(self, subject: Server, port: int, stop: asyncio.Event, gate: asyncio.Event) -> None:
        self.server = subject
        self.port = port
        self.stop = stop
        self.gate = gate
        self.running = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(writer)
        return reader, writer

    async def open(self, path: str = "/") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection that has asked for `path`."""
        reader, writer = await self.connect()
        writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        return reader, writer

    async def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[Served]:
    gate, stop = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        node.running += 1
        await gate.wait()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await echo({**scope, "gate": wait}, receive, send)

    subject = Server(application, **options)
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    running = asyncio.create_task(subject.run(listener, stop.wait))
    node = Served(subject, port, stop, gate)
    try:
        yield node
    finally:
        stop.set()
        await running
        await node.hang_up()
        assert subject.connections == 0


async def answered(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    return await reader.readexactly(2)


def test_a_connection_ends_with_its_peer() -> None:
    async def main() -> None:
        async with served() as node:
            connections = [await node.open() for _ in range(5)]
            for reader, _ in connections:
                assert await answered(reader) == b"ok"
            assert node.server.connections == 5
            for _, writer in connections:
                writer.close()
            await until(lambda: node.server.connections == 0)

    run(main())


def test_a_peer_that_leaves_during_its_call_leaves_no_connection() -> None:
    async def main() -> None:
        async with served() as node:
            _, writer = await node.open("/wait")
            await until(lambda: node.running == 1)
            writer.close()
            await writer.wait_closed()
            node.gate.set()
            await until(lambda: node.server.connections == 0)

    run(main())


def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    async def main() -> None:
        async with served(keep_alive=0.3) as node:
            reader, _ = await node.open()
            assert await answered(reader) == b"ok"
            assert await reader.read() == b""
            busy, _ = await node.open("/wait")
            await until(lambda: node.running == 1)
            silent, _ = await node.connect()
            assert await silent.read() == b""  # so the time of the busy one would be over too
            node.gate.set()
            assert await answered(busy) == b"ok"

    run(main())


@pytest.mark.covers("CLU-30")
def test_at_the_end_idle_connections_close_and_running_calls_are_answered() -> None:
    async def main() -> None:
        async with served() as node:
            idle, _ = await node.open()
            await answered(idle)
            busy, _ = await node.open("/wait")
            await until(lambda: node.running == 1)
            node.stop.set()
            assert await idle.read() == b""
            with pytest.raises(OSError):
                await asyncio.open_connection("127.0.0.1", node.port)
            node.gate.set()
            assert await answered(busy) == b"ok"
            assert await busy.read() == b""

    run(main())


@pytest.mark.covers("CLU-30")
def test_a_call_that_never_ends_is_cut_off_after_the_grace() -> None:
    async def main() -> None:
        async with served(grace=0.1) as node:
            busy, _ = await node.open("/wait")
            await until(lambda: node.running == 1)
            node.stop.set()
            assert not (await busy.read()).startswith(b"HTTP/1.1 200")

    run(main())


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)

    async def main() -> None:
        async with served() as node:
            kept = [await node.open() for _ in range(2)]
            for reader, _ in kept:
                await answered(reader)
            reader, _ = await node.open()
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await answered(reader)
            kept[0][1].close()
            await until(lambda: node.server.connections == 1)
            reader, _ = await node.open()
            assert await answered(reader) == b"ok"

    run(main())


@pytest.mark.covers("SEC-40")
def test_an_application_that_fails_writes_no_text(capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async with served() as node:
            reader, _ = await node.open("/fail")
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 500")
            reader, writer = await node.open()
            writer.write(b"nonsense MARKER\r\n\r\n")
            await reader.read(65_536)

    run(main())
    captured = capfd.readouterr()
    assert "MARKER" not in captured.err + captured.out
    assert all("category" in msgspec.json.decode(line) for line in captured.err.splitlines())
