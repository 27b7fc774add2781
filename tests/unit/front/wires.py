"""HTTP/1.1 byte by byte: a server for one application, connections to it, and a transport in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from keyload.front.exchange import Timeouts
from keyload.front.http1.connection import Connection
from keyload.front.server import Server, listen

Application = Callable[[Any, Any, Any], Any]
BRIEF = Timeouts(body=5.0, write=0.3, linger=0.2)


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
    server = Server(application, **{"timeouts": BRIEF, "grace": 2.0, **options})
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


async def body_of(receive: Any) -> bytes | None:
    """The whole body of a request, None when the peer left before its end."""
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message["body"]
        if not message["more_body"]:
            return body


async def say(send: Any, body: bytes, *fields: tuple[bytes, bytes], status: int = 200) -> None:
    """A whole answer with its length."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *fields]})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers method, path and body."""
    body = await body_of(receive)
    if body is not None:
        await say(send, f"{scope['method']} {scope['path']} ".encode() + body)


class Memory(asyncio.Transport):
    """A transport whose peer takes everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self.paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Recorded(msgspec.Struct, frozen=True):
    """A request as the application saw it."""

    method: str
    target: bytes
    fields: list[tuple[bytes, bytes]]
    body: bytes | None


class Bench:
    """A connection in memory; `seen` are the requests that its application was called for."""

    keep_alive = 60.0
    timeouts = BRIEF

    def __init__(self) -> None:
        self.seen: list[Recorded] = []
        self.over = False
        self.handed: bytes | None = None
        self.transport = Memory()
        self.connection = Connection(self, asyncio.get_running_loop())
        self.connection.connection_made(self.transport)

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        body = await body_of(receive)
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        self.seen.append(Recorded(scope["method"], scope["raw_path"] + query, scope["headers"], body))
        await say(send, b"%d" % len(self.seen))

    def admit(self, connection: Connection) -> bool:
        return True

    def forget(self, connection: Connection) -> None:
        self.over = True

    def hand_over(self, transport: asyncio.Transport, begun: bytes) -> None:
        self.handed = begun

    async def feed(self, pieces: list[bytes]) -> None:
        """Let the bytes arrive piece by piece while the peer is read."""
        for piece in pieces:
            for _ in range(64):
                if not self.transport.paused:
                    break
                await asyncio.sleep(0)
            assert not self.transport.paused
            if self.transport.closed or self.handed is not None:
                return
            self.connection.data_received(piece)
            await asyncio.sleep(0)

    async def hang_up(self) -> None:
        """The peer leaves; the connection has to be over soon."""
        for _ in range(64):
            await asyncio.sleep(0)
        if self.handed is None:
            self.connection.connection_lost(None)
        for _ in range(64):
            if self.over:
                break
            await asyncio.sleep(0)
        assert self.over
