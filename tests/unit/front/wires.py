"""HTTP/1.1 byte by byte: a server for one application, and connections to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from harness.wires import body_of, say
from keyload.front.exchange import Timeouts
from keyload.front.server import Server, listen

PATIENT = Timeouts(body=5.0, write=60.0, linger=0.2)
"""For tests about something else: a loaded machine is no peer that does not read."""

Application = Callable[[Any, Any, Any], Any]


class Answer(msgspec.Struct, frozen=True):
    """An answer as it came over the wire."""

    status: int
    fields: dict[str, str]
    body: bytes


class Wire:
    """A client's end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *parts: bytes) -> None:
        """Write without waiting for room."""
        self.writer.write(b"".join(parts))

    async def answer(self, *, bodiless: bool = False) -> Answer:
        """The next answer; `bodiless` when it belongs to a HEAD."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
        status = int(head[0].split(" ")[1])
        if bodiless or status < 200:
            body = b""
        elif "content-length" in fields:
            body = await self.reader.readexactly(int(fields["content-length"]))
        elif fields.get("transfer-encoding") == "chunked":
            body = await self._chunks()
        else:
            body = await self.reader.read()
        return Answer(status, fields, body)

    async def ended(self) -> bool:
        """Wait for the end of the connection; whether nothing came before it."""
        with suppress(ConnectionError):
            return await self.reader.read() == b""
        return True

    async def _chunks(self) -> bytes:
        body = b""
        while size := int(await self.reader.readline(), 16):
            body += await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"
        assert await self.reader.readexactly(2) == b"\r\n"
        return body


class Served:
    """A running server."""

    def __init__(self, server: Server, port: int, stop: asyncio.Event) -> None:
        self.server = server
        self.port = port
        self.stop = stop
        self._wires: list[Wire] = []

    async def wire(self) -> Wire:
        """A new connection."""
        wire = Wire(*await asyncio.open_connection("127.0.0.1", self.port, limit=64 << 20))
        self._wires.append(wire)
        return wire

    async def hang_up(self) -> None:
        """Close all connections of this side."""
        for wire in self._wires:
            wire.writer.close()
            with suppress(OSError):
                await wire.writer.wait_closed()


@asynccontextmanager
async def serving(application: Application, **options: Any) -> AsyncIterator[Served]:
    """A server for `application`; afterwards it holds no connection and no task."""
    stop = asyncio.Event()
    server = Server(application, **{"timeouts": PATIENT, "grace": 2.0, **options})
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    before = len(asyncio.all_tasks())
    running = asyncio.create_task(server.run(listener, stop.wait))
    served = Served(server, port, stop)
    try:
        yield served
    finally:
        stop.set()
        await running
        await served.hang_up()
        assert server.connections == 0
        while len(asyncio.all_tasks()) > before:
            await asyncio.sleep(0)


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers method, path and body."""
    body = await body_of(receive)
    if body is not None:
        await say(send, f"{scope['method']} {scope['path']} ".encode() + body)
