"""The front put together, and served in the running loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import msgspec
from quart import Quart
from quart import Response as QuartResponse

from keyload.backup.shelf import Shelf
from keyload.contract.admin import HttpAdmissionLimits
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.operations import OPERATIONS
from keyload.front import responses
from keyload.front.admission import DEFAULT_LIMITS, HttpGate, McpLimits
from keyload.front.auth import Authenticator, wall_ticks
from keyload.front.backups import BackupDesk
from keyload.front.barrier import lost
from keyload.front.edge import Asgi, Edge
from keyload.front.exchange import Timeouts
from keyload.front.execution import Execution
from keyload.front.health import Readiness
from keyload.front.hosts import Hosts
from keyload.front.mcp import McpHost
from keyload.front.measures import Measures
from keyload.front.replacement import ReplacementDoor
from keyload.front.routes import Router
from keyload.front.scrape import Scrape
from keyload.front.server import Server, listen
from keyload.front.workers import WorkerHub
from keyload.link import log
from keyload.link.launch import CommandLimits

__all__ = ["Front", "FrontSettings", "build", "listen", "serve"]


class FrontSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a front needs beside its workers. `shards` is the number of data shards, `scrape_token` opens
    `/metrics` beside an administrator's key, `hosts` are the names and pages the node answers to.
    """

    shards: int
    http: HttpAdmissionLimits = DEFAULT_LIMITS
    mcp: McpLimits = McpLimits()
    commands: CommandLimits = CommandLimits()
    timeouts: Timeouts = Timeouts()
    scrape_token: str | None = None
    hosts: Hosts = Hosts()


class Front:
    """The parts of one front process; `application` is what a server runs."""

    def __init__(
        self, hub: WorkerHub, settings: FrontSettings, shelf: Shelf, clock: Callable[[], int] = wall_ticks
    ) -> None:
        self._warm = False
        self.timeouts = settings.timeouts
        self.hub = hub
        self.gate = HttpGate(settings.http, settings.mcp)
        self.readiness = Readiness(hub, lambda: self._warm)
        measures = Measures()
        authenticator = Authenticator(hub, clock)
        self.backups = BackupDesk(hub, shelf)
        self.execution = Execution(
            hub, settings.shards, self.gate, self.readiness.ready, self.backups, measures, settings.commands
        )
        self.scrape = Scrape(
            hub, self.gate, measures, authenticator, self.readiness.ready, settings.scrape_token
        )
        self._mcp = McpHost(self.execution.execute, OPERATIONS, measures)
        self.application: Asgi = Edge(
            self.gate,
            authenticator,
            Router(self.execution.execute),
            self._mcp,
            self.scrape,
            ReplacementDoor(hub, settings.shards),
            self._quart(),
            measures,
            settings.timeouts,
            settings.hosts,
        )

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Warm the discovery index, then watch the barrier; left when the last request is answered."""
        await self.backups.remove_leftovers()
        async with self._mcp.run():
            self._warm = True
            watching = asyncio.create_task(self.readiness.watch())
            try:
                yield
            finally:
                self.readiness.stop()
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching

    def _quart(self) -> Asgi:
        """Health and everything that is neither an operation nor MCP."""
        app = Quart("keyload", static_folder=None)
        app.logger.disabled = True

        async def live() -> QuartResponse:
            return QuartResponse(b"")

        async def ready() -> QuartResponse:
            return QuartResponse(b"", 200 if self.readiness.ready() else 503)

        async def unknown(error: Exception) -> QuartResponse:
            return _answer(KeyLoadError(ErrorCode.NOT_FOUND, "There is nothing at this path."))

        async def failed(error: Exception) -> QuartResponse:
            log.failure(log.Category.REQUEST_FAILED, error)
            return _answer(lost())

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


def build(
    hub: WorkerHub, settings: FrontSettings, shelf: Shelf, clock: Callable[[], int] = wall_ticks
) -> Front:
    """The front over `hub`; `shelf` takes its backups, `clock` gives ticks of 100 ns since 1970."""
    return Front(hub, settings, shelf, clock)


async def serve(front: Front, listener: socket.socket, until: Callable[[], Awaitable[Any]]) -> None:
    """Serve on `listener` (see `keyload.front.server.listen`) until `until()` returns.

    Then readiness goes off and running requests are finished. Raises what keeps the discovery index from
    being built (MCP-35).
    """

    async def stopping() -> None:
        await until()
        front.readiness.stop()

    async with front.running():
        await Server(front.application, timeouts=front.timeouts).run(listener, stopping)
