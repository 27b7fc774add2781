"""The accept loop of the front.

Connections speak HTTP/1.1 on a protocol of our own (`keyload.front.http1`). One that begins with the preface
of HTTP/2 or asks for another protocol goes over to Hypercorn, with the bytes it has sent.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, cast

from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config

from keyload.front.exchange import Timeouts
from keyload.front.http1.connection import PREFACE, Connection
from keyload.front.http1.head import HEAD_BYTES
from keyload.link import log

KEEP_ALIVE_SECONDS = 60.0
KEEP_ALIVE_REQUESTS = 1_000_000
GRACE_SECONDS = 10.0
BACKLOG = 1_024
MAX_CONNECTIONS = 8_192
USER_TIMEOUT_SECONDS = 30.0
SWEEP_SECONDS = 1.0


class IdleTimer:
    """Closes a connection of Hypercorn's that carried no request for the keep-alive time.

    Hypercorn has two tasks for that, and keeps a connection whose peer has left for the whole time; and it
    takes the preface of HTTP/2 (`prefaced`) for a request, which never ends.
    """

    def __init__(self, writer: asyncio.StreamWriter, seconds: float, prefaced: bool) -> None:
        self._writer = writer
        self._seconds = seconds
        self._prefaced = prefaced
        self._handle: asyncio.TimerHandle | None = None

    async def restart(self, task_group: object, action: object) -> None:
        """No request is running from now on."""
        self._cancel()
        self._handle = asyncio.get_running_loop().call_later(self._seconds, self._writer.close)

    async def stop(self) -> None:
        """A request has begun."""
        if self._prefaced:
            self._prefaced = False
        else:
            self._cancel()

    def end(self) -> None:
        """The connection is over."""
        self._cancel()

    def close_if_idle(self) -> None:
        """End the connection now unless a request is running."""
        if self._handle is not None:
            self._writer.close()

    def _cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


Handed = asyncio.Task[None]


class Server:
    """Serves one ASGI application; `keep_alive` and `grace` are seconds."""

    def __init__(
        self,
        application: Callable[[Any, Any, Any], Awaitable[None]],
        *,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        grace: float = GRACE_SECONDS,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.application = application
        self.keep_alive = keep_alive
        self.timeouts = timeouts or Timeouts()
        self._grace = grace
        self._connections: set[Connection] = set()
        self._handed: dict[Handed, IdleTimer] = {}
        self._config = _config()
        self._context = WorkerContext(None)
        self._ended = asyncio.Event()

    @property
    def connections(self) -> int:
        """Connections that are open now."""
        return len(self._connections) + len(self._handed)

    async def run(self, listener: socket.socket, until: Callable[[], Awaitable[Any]]) -> None:
        """Serve on `listener` until `until()` returns; then finish running requests, within the grace."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(self, loop), sock=listener, backlog=BACKLOG)
        sweeping = asyncio.create_task(self._sweep())
        log.event(log.Category.SERVING)
        try:
            await until()
        finally:
            server.close()
            await self._finish()
            sweeping.cancel()
            await server.wait_closed()
            log.event(log.Category.STOPPED)

    def admit(self, connection: Connection) -> bool:
        """Whether there is room for another connection; if so, it counts from now on."""
        if self.connections >= MAX_CONNECTIONS:
            return False
        self._connections.add(connection)
        return True

    def forget(self, connection: Connection) -> None:
        """The connection is over, and so is its last call."""
        self._connections.discard(connection)
        if not self.connections:
            self._ended.set()

    def hand_over(self, transport: asyncio.Transport, begun: bytes) -> None:
        """Let Hypercorn serve a connection that wants another protocol; `begun` are its unread bytes."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        reader.feed_data(begun)
        timer = IdleTimer(writer, self.keep_alive, begun.startswith(PREFACE))
        self._handed[loop.create_task(self._serve_handed(reader, writer, timer))] = timer

    async def _serve_handed(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timer: IdleTimer
    ) -> None:
        application = ASGIWrapper(cast("Any", self.application))
        loop = asyncio.get_running_loop()
        connection = TCPServer(application, loop, self._config, self._context, {}, reader, writer)
        connection.idle_task = cast("Any", timer)
        try:
            await connection.run()
        except asyncio.CancelledError:
            writer.transport.abort()  # the grace is over; nothing above this task waits for it
        except Exception as error:
            log.failure(log.Category.CONNECTION_FAILED, error)
        finally:
            timer.end()
            self._handed.pop(cast("Handed", asyncio.current_task()), None)
            if not self.connections:
                self._ended.set()

    async def _sweep(self) -> None:
        """Close what is over time, again and again, until cancelled."""
        loop = asyncio.get_running_loop()
        shortest = min(self.keep_alive, self.timeouts.linger, self.timeouts.write)
        while True:
            await asyncio.sleep(min(SWEEP_SECONDS, shortest / 4))
            now = loop.time()
            for connection in list(self._connections):
                connection.expire(now)

    async def _finish(self) -> None:
        """Idle connections end at once, the others after their answer, the rest when the grace is over."""
        await self._context.terminated.set()
        for connection in list(self._connections):
            connection.end()
        for timer in self._handed.values():
            timer.close_if_idle()
        self._ended.clear()
        if not self.connections:
            return
        try:
            async with asyncio.timeout(self._grace):
                await self._ended.wait()
        except TimeoutError:
            cut = [task for connection in list(self._connections) if (task := connection.cut()) is not None]
            late = [*cut, *self._handed]
            for task in self._handed:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


def listen(host: str, port: int, *, user_timeout_seconds: float = USER_TIMEOUT_SECONDS) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    The kernel ends accepted connections whose peer takes no data for `user_timeout_seconds`.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            milliseconds = int(user_timeout_seconds * 1000)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def _config() -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.keep_alive_max_requests = KEEP_ALIVE_REQUESTS
    config.h11_max_incomplete_size = HEAD_BYTES
    return config
