"""A connection of HTTP/1.1 on a transport in memory, and the parts of an application that answers."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec

from keyload.front.exchange import Timeouts
from keyload.front.http1.connection import Connection

BRIEF = Timeouts(body=5.0, write=0.3, linger=0.2)


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
        self.connection = Connection(cast("Any", self), asyncio.get_running_loop())
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
