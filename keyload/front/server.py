"""Hypercorn's protocol over our own accept loop.

Hypercorn times idle connections with tasks, and a connection whose peer has left stays for the whole keep-
alive time; here a timer handle does it, and the connection ends with its peer.
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

from keyload.link import log

KEEP_ALIVE_SECONDS = 60.0
KEEP_ALIVE_REQUESTS = 1_000_000
HEADER_BYTES = 16_384
GRACE_SECONDS = 10.0
BACKLOG = 1_024
MAX_CONNECTIONS = 8_192
USER_TIMEOUT_SECONDS = 30.0


class IdleTimer:
    """Closes a connection that carried no request for the keep-alive time."""

    def __init__(self, writer: asyncio.StreamWriter, seconds: float) -> None:
        self._writer = writer
        self._seconds = seconds
        self._handle: asyncio.TimerHandle | None = None

    async def restart(self, task_group: object, action: object) -> None:
        """No request is running from now on."""
        await self.stop()
        self._handle = asyncio.get_running_loop().call_later(self._seconds, self._writer.close)

    async def stop(self) -> None:
        """A request has begun, or the connection is over."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def close_if_idle(self) -> None:
        """End the connection now unless a request is running."""
        if self._handle is not None:
            self._writer.close()


class Server:
    """Serves one ASGI application; `keep_alive` and `grace` are seconds."""

    def __init__(
        self, application: object, *, keep_alive: float = KEEP_ALIVE_SECONDS, grace: float = GRACE_SECONDS
    ) -> None:
        self._application = ASGIWrapper(cast("Any", application))
        self._config = _config()
        self._context = WorkerContext(None)
        self._keep_alive = keep_alive
        self._grace = grace
        self._connections: dict[asyncio.Task[Any], IdleTimer] = {}

    @property
    def connections(self) -> int:
        """Connections that are open now."""
        return len(self._connections)

    async def run(self, listener: socket.socket, until: Callable[[], Awaitable[Any]]) -> None:
        """Serve on `listener` until `until()` returns; then finish running requests, within the grace."""
        server = await asyncio.start_server(self._connected, sock=listener, backlog=BACKLOG)
        log.event(log.Category.SERVING)
        try:
            await until()
        finally:
            server.close()
            await self._finish()
            await server.wait_closed()
            log.event(log.Category.STOPPED)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        if len(self._connections) >= MAX_CONNECTIONS:
            log.event(log.Category.CONNECTION_REFUSED)
            writer.close()
            return
        timer = IdleTimer(writer, self._keep_alive)
        self._connections[task] = timer
        loop = asyncio.get_running_loop()
        connection = TCPServer(self._application, loop, self._config, self._context, {}, reader, writer)
        connection.idle_task = cast("Any", timer)
        try:
            await connection.run()
        except asyncio.CancelledError:
            writer.transport.abort()  # the grace is over; nothing above this task waits for it
        except Exception as error:
            log.failure(log.Category.CONNECTION_FAILED, error)
        finally:
            await timer.stop()
            self._connections.pop(task, None)

    async def _finish(self) -> None:
        """Idle connections end at once, the others after their answer, the rest when the grace is over."""
        await self._context.terminated.set()
        for timer in self._connections.values():
            timer.close_if_idle()
        if self._connections:
            _, late = await asyncio.wait(list(self._connections), timeout=self._grace)
            for task in late:
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
    config.h11_max_incomplete_size = HEADER_BYTES
    return config
