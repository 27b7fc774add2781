"""A network between the nodes that can be cut, slowed and reset for each pair and direction (CLU-14).

Node a reaches node b only through the link (a, b). The workers send over one TCP connection for each
direction, so that a cut link loses what a sends to b while b goes on sending to a. A cut link reads no more
from a, as when packets are lost: what was under way arrives when the link heals, or never, when a gave up
first. The proxy runs as a process of its own and ends with the one that started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable
from typing import IO, Any, Self, cast

import msgspec
import uvloop

HOST = "127.0.0.1"
MAX_BUFFERED = 1 << 20
"""Bytes that may wait in one direction of one connection before the proxy reads no more from it."""

MAX_DELAY_SECONDS = 5.0
ANSWER_SECONDS = 10.0

Pair = tuple[int, int]
"""Numbers of the sending and the receiving node."""


class Route(msgspec.Struct, frozen=True):
    """One worker's way from a node to another: where the proxy listens and where it connects to."""

    source: int
    target: int
    listen_port: int
    target_port: int


class Order(msgspec.Struct, frozen=True):
    """What a link does from now on: `cut` or, after `delay` seconds, pass; `reset` breaks its connections."""

    source: int
    target: int
    cut: bool = False
    delay: float = 0.0
    reset: bool = False


class Link:
    """What is between one node and another, for all their workers."""

    def __init__(self) -> None:
        self.cut = False
        self.delay = 0.0
        self.streams: set[_Stream] = set()

    def follow(self, order: Order) -> None:
        """Do from now on as told."""
        self.cut = order.cut
        self.delay = order.delay
        for stream in list(self.streams):
            if order.reset:
                stream.abort()
            else:
                stream.look()


class _Stream(asyncio.Protocol):
    """The sending side of one connection; its receiving side is a `_Far`."""

    def __init__(self, link: Link, target_port: int) -> None:
        self._link = link
        self._target_port = target_port
        self._near: asyncio.Transport | None = None
        self._far: asyncio.Transport | None = None
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._full = False
        self._reading = True
        self._timer: asyncio.TimerHandle | None = None
        self._opening: asyncio.Task[None] | None = None

    # -- the sender's connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._near = cast(asyncio.Transport, transport)
        self._link.streams.add(self)
        self._opening = asyncio.get_running_loop().create_task(self._open())

    def data_received(self, data: bytes) -> None:
        due = asyncio.get_running_loop().time() + self._link.delay
        self._waiting.append((due, data))
        self._bytes += len(data)
        self.look()

    def connection_lost(self, exc: Exception | None) -> None:
        self.abort()

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.create_connection(lambda: _Far(self), HOST, self._target_port)
        except OSError:
            self.abort()
            return
        self._far = transport
        if self._near is None or self._near.is_closing():
            transport.abort()
        self.look()

    # -- the receiver's connection

    def answered(self, data: bytes) -> None:
        """Bytes of the receiver: handshake and signs of life, which follow the connection, not the link."""
        if self._near is not None:
            self._near.write(data)

    def hold(self, full: bool) -> None:
        """The receiver takes no more, or takes again."""
        self._full = full
        self.look()

    # -- what passes

    def look(self) -> None:
        """Pass on what is due, and read only while the link is whole and what waits is little."""
        self._pass_on()
        reading = not self._link.cut and not self._full and self._bytes < MAX_BUFFERED
        if reading != self._reading and self._near is not None and not self._near.is_closing():
            self._reading = reading
            (self._near.resume_reading if reading else self._near.pause_reading)()

    def _pass_on(self) -> None:
        loop = asyncio.get_running_loop()
        if self._far is None:
            return
        while self._waiting and not self._link.cut and not self._full and self._waiting[0][0] <= loop.time():
            _, data = self._waiting.popleft()
            self._bytes -= len(data)
            self._far.write(data)
        if self._waiting and not self._link.cut and not self._full and self._timer is None:
            self._timer = loop.call_at(self._waiting[0][0], self._due)

    def _due(self) -> None:
        self._timer = None
        self.look()

    def abort(self) -> None:
        """Break both connections at once."""
        self._link.streams.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for transport in (self._near, self._far):
            if transport is not None:
                transport.abort()


class _Far(asyncio.Protocol):
    """The receiving side of a connection."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).set_write_buffer_limits(high=MAX_BUFFERED)

    def data_received(self, data: bytes) -> None:
        self._stream.answered(data)

    def pause_writing(self) -> None:
        self._stream.hold(True)

    def resume_writing(self) -> None:
        self._stream.hold(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stream.abort()


class PeerProxy:
    """The proxy as the harness holds it: a process that follows orders until it is closed."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = list(routes)
        self.pairs: list[Pair] = sorted({(route.source, route.target) for route in self._routes})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.proxy"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._say(self._routes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cut(self, *pairs: Pair) -> None:
        """Let nothing pass from the first node of each pair to the second."""
        self._order(Order(source, target, cut=True) for source, target in pairs)

    def isolate(self, number: int) -> None:
        """Cut all links to and from one node."""
        self.cut(*(pair for pair in self.pairs if number in pair))

    def delay(self, seconds: float, *pairs: Pair) -> None:
        """Let everything arrive later by so many seconds."""
        if seconds > MAX_DELAY_SECONDS:
            raise ValueError("no such long delay")
        self._order(Order(source, target, delay=seconds) for source, target in pairs)

    def reset(self, *pairs: Pair) -> None:
        """Break all connections of the links; new ones pass."""
        self._order(Order(source, target, reset=True) for source, target in pairs)

    def heal(self) -> None:
        """Let everything pass."""
        self._order(Order(source, target) for source, target in self.pairs)

    def close(self) -> None:
        """End the process and wait for it."""
        self._process.communicate(timeout=ANSWER_SECONDS)

    def _order(self, orders: Iterable[Order]) -> None:
        self._say(list(orders))

    def _say(self, message: Any) -> None:
        """Send one line and wait until it is followed."""
        source, target = self._process.stdin, self._process.stdout
        assert source is not None
        assert target is not None
        source.write(msgspec.json.encode(message) + b"\n")
        source.flush()
        if target.readline() != b"done\n":
            raise AssertionError("the proxy between the nodes has ended")


async def serve(orders: asyncio.StreamReader, answer: Callable[[], None]) -> None:
    """Listen on the routes of the first line, then follow the orders of each further one until they end."""
    loop = asyncio.get_running_loop()
    routes = msgspec.json.decode(await orders.readline(), type=list[Route])
    links = {(route.source, route.target): Link() for route in routes}
    servers: list[asyncio.Server] = []
    for route in routes:
        link = links[route.source, route.target]

        def made(link: Link = link, port: int = route.target_port) -> _Stream:
            return _Stream(link, port)

        servers.append(await loop.create_server(made, HOST, route.listen_port))
    answer()
    while line := await orders.readline():
        for order in msgspec.json.decode(line, type=list[Order]):
            links[order.source, order.target].follow(order)
        answer()
    for server in servers:
        server.close()
    for link in links.values():
        for stream in list(link.streams):
            stream.abort()


async def _main(source: IO[bytes], target: IO[bytes]) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)

    def answer() -> None:
        target.write(b"done\n")
        target.flush()

    await serve(reader, answer)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_main(sys.stdin.buffer, sys.stdout.buffer))
