"""The front put together, and served by Hypercorn in the running loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import msgspec
from hypercorn import asyncio as hypercorn
from hypercorn.config import Config
from quart import Quart
from quart import Response as QuartResponse

from keyload.contract.admin import HttpAdmissionLimits
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.operations import OPERATIONS
from keyload.front import log, responses
from keyload.front.admission import DEFAULT_LIMITS, HttpGate, McpLimits
from keyload.front.auth import Authenticator, wall_ticks
from keyload.front.barrier import lost
from keyload.front.edge import Asgi, Edge
from keyload.front.exchange import Timeouts
from keyload.front.execution import Execution
from keyload.front.health import Readiness
from keyload.front.mcp import McpHost
from keyload.front.routes import Router
from keyload.front.workers import WorkerHub
from keyload.link.launch import CommandLimits

KEEP_ALIVE_SECONDS = 60
KEEP_ALIVE_REQUESTS = 1_000_000
HEADER_BYTES = 16_384
GRACE_SECONDS = 10
BACKLOG = 1_024


class FrontSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a front needs beside its workers. `shards` is the number of data shards."""

    shards: int
    http: HttpAdmissionLimits = DEFAULT_LIMITS
    mcp: McpLimits = McpLimits()
    commands: CommandLimits = CommandLimits()
    timeouts: Timeouts = Timeouts()


class Front:
    """The parts of one front process; `application` is what a server runs."""

    def __init__(
        self, hub: WorkerHub, settings: FrontSettings, clock: Callable[[], int] = wall_ticks
    ) -> None:
        self._warm = False
        self.hub = hub
        self.gate = HttpGate(settings.http, settings.mcp)
        self.readiness = Readiness(hub, lambda: self._warm)
        self.execution = Execution(hub, settings.shards, self.gate, self.readiness.ready, settings.commands)
        self._mcp = McpHost(self.execution.execute, OPERATIONS)
        self.application: Asgi = Edge(
            self.gate,
            Authenticator(hub, clock),
            Router(self.execution.execute),
            self._mcp,
            self._quart(),
            settings.timeouts,
        )

    def _quart(self) -> Asgi:
        """Health and everything that is neither an operation nor MCP."""
        app = Quart("keyload", static_folder=None)
        app.logger.disabled = True

        async def serving() -> AsyncGenerator[None, None]:
            async with self._mcp.run():
                self._warm = True
                watching = asyncio.create_task(self.readiness.watch())
                yield
                self.readiness.stop()
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching

        async def live() -> QuartResponse:
            return QuartResponse(b"")

        async def ready() -> QuartResponse:
            return QuartResponse(b"", 200 if self.readiness.ready() else 503)

        async def unknown(error: Exception) -> QuartResponse:
            return _answer(KeyLoadError(ErrorCode.NOT_FOUND, "There is nothing at this path."))

        async def failed(error: Exception) -> QuartResponse:
            log.failure(log.Category.REQUEST_FAILED, error)
            return _answer(lost())

        app.while_serving(serving)
        app.add_url_rule("/health/live", "live", live, methods=["GET"])
        app.add_url_rule("/health/ready", "ready", ready, methods=["GET"])
        app.register_error_handler(404, unknown)
        app.register_error_handler(405, unknown)
        app.register_error_handler(Exception, failed)
        return cast("Asgi", app)


def _answer(error: KeyLoadError) -> QuartResponse:
    response = responses.failure(error)
    headers = {name.decode(): value.decode() for name, value in response.headers}
    return QuartResponse(response.body, response.status, headers)


def build(hub: WorkerHub, settings: FrontSettings, clock: Callable[[], int] = wall_ticks) -> Front:
    """The front over `hub`; `clock` gives ticks of 100 ns since 1970."""
    return Front(hub, settings, clock)


def listen(host: str, port: int, *, user_timeout_seconds: float = 30.0) -> socket.socket:
    """A bound listening socket; port 0 takes a free one.

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


async def serve(front: Front, listener: socket.socket, until: Callable[[], Awaitable[Any]]) -> None:
    """Serve on `listener`, which is taken over, until `until()` returns; then finish running requests."""
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.keep_alive_max_requests = KEEP_ALIVE_REQUESTS
    config.h11_max_incomplete_size = HEADER_BYTES
    config.graceful_timeout = GRACE_SECONDS
    config.backlog = BACKLOG
    log.event(log.Category.SERVING)

    async def trigger() -> None:
        await until()
        front.readiness.stop()

    server: Any = hypercorn
    await server.serve(front.application, config, shutdown_trigger=trigger)
    log.event(log.Category.STOPPED)
