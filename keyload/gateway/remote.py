"""`RemoteSource`: a declared connection, what it last listed, and whether that still holds (GTW-4..8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from keyload.gateway.connection import Connection, ConnectionEnded
from keyload.gateway.diagnostics import DUPLICATE_TOOL, SOURCE_LOAD_FAILED, Diagnostic, shown
from keyload.gateway.errors import RegistrationError
from keyload.gateway.failures import is_own
from keyload.gateway.hints import ToolHints
from keyload.gateway.options import GatewayOptions
from keyload.gateway.sources import GivenClient, RemoteDeclaration
from keyload.gateway.tools import CallContext, Output, Tool, ToolRunner, make_tool

if TYPE_CHECKING:
    from mcp_types import Tool as ListedTool

MAX_TOLD = 16  # repeated names of one source that are told
META_TOOL_KEY = "keyload.gateway/meta-tool-of"


class RemoteSource:
    """Loads its tools when asked, keeps its connection open between loads, and calls tools through it."""

    def __init__(
        self, declaration: RemoteDeclaration, options: GatewayOptions, on_change: Callable[[], None]
    ) -> None:
        self.source_id = declaration.source_id
        self.tools: tuple[Tool, ...] = ()
        self.diagnostics: tuple[Diagnostic, ...] = ()
        self.failed = False
        self._declaration = declaration
        self._options = options
        self._on_change = on_change
        self._connection: Connection | None = None
        self._retired: set[asyncio.Task[None]] = set()
        self._disposed = False
        self._wanted = 1
        self._loaded = 0
        self._failed_at = 0.0
        self._hung = False
        self._loading = False

    def mark_changed(self) -> None:
        """The list of tools, or the connection, is not what it was: the next build loads this source."""
        self._wanted += 1
        if not self._loading:
            self._on_change()

    async def load(self, gateway_id: str, again: bool) -> None:
        """Load if something changed or the last attempt failed; a failure is a diagnostic (GTW-8).

        One that took all its time is tried anew only when it is due or `again` asks for it: the others
        shall not wait for it at every build.
        """
        fails = self.failed and (again or not self._hung or self.is_due())
        if self._loaded == self._wanted and not fails:
            return
        wanted, self._loading = self._wanted, True
        try:
            await self._load(gateway_id)
        finally:
            self._loading = False
        if not self.failed and self._wanted != wanted:
            self._on_change()  # it changed meanwhile: the next build loads it again
        self._loaded = self._wanted if self.failed else wanted

    async def _load(self, gateway_id: str) -> None:
        started = asyncio.get_running_loop().time()
        seconds = self._declaration.load_seconds or self._options.load_seconds
        try:
            async with asyncio.timeout(seconds):
                listed = await self._listed()
            self.tools, self.diagnostics = self._converted(listed, gateway_id)
            self.failed = False
        except (Exception, asyncio.CancelledError) as error:
            if not is_own(error):
                raise
            from keyload.gateway import mcp_client

            self._retire()
            message = f"The source {self.source_id} could not be loaded: {mcp_client.reason(error)}."
            self.tools, self.diagnostics = (), (self._diagnostic(SOURCE_LOAD_FAILED, message),)
            self.failed = True
            self._failed_at = asyncio.get_running_loop().time()
            self._hung = self._failed_at - started >= seconds

    def is_due(self) -> bool:
        """Whether the last attempt failed `retry_seconds` ago, so that it is time for another."""
        waited = asyncio.get_running_loop().time() - self._failed_at
        return self.failed and waited >= self._options.retry_seconds

    def refuse(self, message: str) -> None:
        """Leave out all tools of this source, because they do not fit the gateway (GTW-39)."""
        text = f"The source {self.source_id} could not be loaded: {message}"
        self.tools, self.diagnostics = (), (self._diagnostic(SOURCE_LOAD_FAILED, text),)
        self.failed = True
        self._failed_at, self._hung = asyncio.get_running_loop().time(), False

    async def close(self) -> None:
        """End the connection, unless it is somebody else's; wait for those that ended before."""
        self._retire()
        if self._retired:
            await asyncio.wait(self._retired)

    async def dispose(self) -> None:
        """Leave a given client that was connected before, in the task that calls this (GTW-9)."""
        given = self._declaration
        if isinstance(given, GivenClient) and given.dispose and not self._disposed:
            self._disposed = True
            from keyload.gateway import mcp_client

            if mcp_client.is_connected(given.client):
                await given.client.__aexit__(None, None, None)

    async def _listed(self) -> list[ListedTool]:
        """List over the connection there is; when that one turns out to be dead, over a new one."""
        most = self._options.max_tools
        if self._connection is not None and not self._connection.lost:
            try:
                return await self._connection.listed(most)
            except Exception:
                if not self._connection.lost:
                    raise
        self._retire()
        self._connection = Connection(self._declaration, self.mark_changed)
        return await self._connection.listed(most)

    def _converted(
        self, listed: list[ListedTool], gateway_id: str
    ) -> tuple[tuple[Tool, ...], tuple[Diagnostic, ...]]:
        """The tools that can be used; what is left out is told, a few by name (GTW-6, GTW-8)."""
        from keyload.gateway.mcp_client import ListingError

        tools: dict[str, Tool] = {}
        repeated: list[str] = []
        unusable: list[str] = []
        room = self._options.max_metadata_bytes
        for entry in listed:
            if (entry.meta or {}).get(META_TOOL_KEY) == gateway_id:
                continue  # our own meta tool, served by someone who serves us (GTW-37)
            if entry.name in tools:
                repeated.append(entry.name)
                continue
            try:
                tool = self._tool(entry)
            except RegistrationError as error:
                unusable.append(str(error))
                continue
            room -= tool.size
            if room < 0:
                raise ListingError(f"its tools pass {self._options.max_metadata_bytes} bytes")
            tools[entry.name] = tool
        return tuple(tools.values()), tuple(self._left_out(repeated, unusable))

    def _left_out(self, repeated: list[str], unusable: list[str]) -> Iterator[Diagnostic]:
        for name in list(dict.fromkeys(repeated))[:MAX_TOLD]:
            text = f"The source {self.source_id} sent the tool {shown(name)} more than once."
            yield self._diagnostic(DUPLICATE_TOOL, text)
        if unusable:
            text = (
                f"The source {self.source_id} sent tools that cannot be used: {len(unusable)}. {unusable[0]}"
            )
            yield self._diagnostic(SOURCE_LOAD_FAILED, text)

    def _tool(self, entry: ListedTool) -> Tool:
        limit = self._options.descriptor_text_limit
        hints = self._hints(entry)
        room = max(0, limit - sum(map(len, (entry.name, hints.title, hints.category, *hints.aliases))))
        return make_tool(
            self.source_id,
            entry.name,
            (entry.description or "")[:room],
            entry.input_schema,
            entry.output_schema or {},
            hints,
            self._runner(entry.name),
            limit,
        )

    def _hints(self, entry: ListedTool) -> ToolHints:
        """What the host says of this tool, completed by what the server says."""
        given = self._declaration.hints.get(entry.name)
        said = entry.annotations
        title = entry.title or (said.title if said is not None else None) or ""
        if given is not None:
            return given if given.title else msgspec.structs.replace(given, title=title[:512])
        return ToolHints(
            title=title[:512],
            read_only=bool(said is not None and said.read_only_hint),
            destructive=said is None or said.destructive_hint is not False,
            idempotent=bool(said is not None and said.idempotent_hint),
        )

    def _runner(self, name: str) -> ToolRunner:
        async def run(arguments: Mapping[str, Any], call: CallContext) -> Output:
            if self._connection is None:
                raise ConnectionEnded("The connection to the source has ended.")
            return await self._connection.call(name, arguments, call.meta)

        return run

    def _retire(self) -> None:
        """Let the present connection end in the background; whoever closes waits for that."""
        if self._connection is not None:
            self._connection.retire()
            task = asyncio.create_task(self._connection.stop(self._options.close_seconds))
            self._retired.add(task)
            task.add_done_callback(self._retired.discard)
            self._connection = None

    def _diagnostic(self, code: str, message: str) -> Diagnostic:
        return Diagnostic(code, message, self.source_id)
