"""`Gateway`: one object that lists, finds, groups and runs tools of many sources (GTW-1)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Generator, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from keyload.gateway import meta_tools, search_text
from keyload.gateway.builds import Builder
from keyload.gateway.diagnostics import SOURCE_LOAD_FAILED, shown
from keyload.gateway.errors import GatewayClosed, GatewayError, ToolNameAmbiguous, ToolNotFound
from keyload.gateway.failures import is_own, text_of
from keyload.gateway.generation import Generation
from keyload.gateway.options import GatewayOptions
from keyload.gateway.registry import GatewayRegistry
from keyload.gateway.remote import RemoteSource
from keyload.gateway.results import Initialization, Invocation, RouteResult, SearchResult
from keyload.gateway.routing import grouped
from keyload.gateway.searching import Ranking, rank
from keyload.gateway.tools import CallContext, Tool

if TYPE_CHECKING:
    from keyload.gateway.tool_graph import ToolGraph

DEFAULT_MATCHES = 5
MAX_MATCHES = 15
MAX_ROUTED = 256


class Gateway:
    """Lists, searches, routes and invokes the tools of its registry.

    The first call connects to the sources and builds the index; a later change makes the next call build
    again (GTW-10). Methods may run concurrently; cancelling a caller cancels what it asked for (GTW-2).
    After `close` every method raises `GatewayClosed`. One event loop serves a gateway.
    """

    def __init__(self, registry: GatewayRegistry, options: GatewayOptions) -> None:
        self.id = uuid.uuid4().hex
        self._registry = registry
        self._options = options
        self._builder = Builder(registry, options, self.id)
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self._ending: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None
        registry.belongs_to(self)

    async def __aenter__(self) -> Gateway:
        if self._options.warm_up:
            self.warm_up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def initialize(self) -> Initialization:
        """Build the index now, trying failed sources again, and say what came of it (GTW-11).

        Raises `SourceFailed` with `strict_sources`.
        """
        with self._call():
            generation = await self._builder.initialize()
            vectors = generation.vectors
            count = 0 if vectors is None else len(vectors.tool_ids)
            return Initialization(len(generation.tools), count, generation.diagnostics)

    def warm_up(self) -> None:
        """Build the index in the background; what goes wrong then is told by the first call (GTW-11)."""
        if self._warming is None and not self._closed:
            self._warming = asyncio.create_task(self._warm(), name="gateway warm-up")

    async def list_tools(self) -> tuple[Tool, ...]:
        """All tools in registration order."""
        with self._call():
            return tuple((await self._builder.current()).tools.values())

    async def search(
        self,
        query: str = "",
        context_summary: str = "",
        context: Mapping[str, Any] | None = None,
        max_results: int = DEFAULT_MATCHES,
    ) -> SearchResult:
        """The best tools for what is asked, at most `max_results` and never more than 15 (GTW-14, GTW-15).

        Raises `SearchTextTooLong`, and `GraphError` with the strategy `graph`.
        """
        with self._call():
            text = self._text(query, context_summary, context)
            found = await self._ranked(text, max(0, min(max_results, MAX_MATCHES)))
            return SearchResult(
                matches=found.matches,
                ranking_mode=found.mode,
                diagnostics=found.diagnostics,
                confidence=found.confidence,
                low_confidence=found.low,
            )

    async def route(
        self,
        query: str = "",
        max_categories: int = 3,
        max_tools_per_category: int = 3,
        prefer_read_only: bool = False,
    ) -> RouteResult:
        """The best tools grouped by category (GTW-25).

        The best `max_categories * max_tools_per_category` tools of the search, at most 256, are all in the
        answer, each once. Raises as `search`.
        """
        with self._call():
            text = self._text(query, "", None)
            most = max(0, max_categories) * max(0, max_tools_per_category)
            found = await self._ranked(text, min(most, MAX_ROUTED))
            return RouteResult(
                categories=grouped(found.matches, max_categories, max_tools_per_category, prefer_read_only),
                ranking_mode=found.mode,
                diagnostics=found.diagnostics,
                confidence=found.confidence,
                low_confidence=found.low,
            )

    async def invoke(
        self,
        tool_id: str = "",
        arguments: Mapping[str, Any] | None = None,
        *,
        tool_name: str = "",
        source_id: str = "",
        query: str = "",
        context_summary: str = "",
        context: Mapping[str, Any] | None = None,
    ) -> Invocation:
        """Run a tool, chosen by its id, or by its name and, where several have it, its source (GTW-33).

        What goes wrong in the tool becomes an unsuccessful result; cancellation goes through (GTW-35).
        Raises `ToolNotFound` and `ToolNameAmbiguous`.
        """
        with self._call():
            tool = _chosen(await self._builder.current(), tool_id, tool_name, source_id)
            call = CallContext(query, context_summary, context or {})
            try:
                output = await tool.run(arguments or {}, call)
            except BaseException as error:
                if not is_own(error):
                    raise
                return Invocation(succeeded=False, error=text_of(error), exception=error)
            return Invocation(
                succeeded=not output.error,
                output=output.value,
                error=output.error,
                mcp_result=output.mcp_result,
            )

    async def graph(self) -> ToolGraph:
        """The graph of the tools: relations, explanations, exports (GTW-23)."""
        with self._call():
            return (await self._builder.current()).graph

    def create_meta_tools(
        self,
        search_name: str = meta_tools.SEARCH,
        route_name: str = meta_tools.ROUTE,
        invoke_name: str = meta_tools.INVOKE,
    ) -> tuple[meta_tools.MetaTool, meta_tools.MetaTool, meta_tools.MetaTool]:
        """Search, route and invoke as ordinary tools. Raises ValueError for equal or empty names (GTW-36)."""
        return meta_tools.create(self, search_name, route_name, invoke_name)

    async def close(self) -> None:
        """Wait for running calls, then for a build under way, then close what the gateway owns; each takes
        `close_seconds` at most, and connections that resist some seconds more.

        May be called several times; all of them return when everything is closed (GTW-9).
        """
        self._closed = True
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(), name="gateway close")
        await asyncio.shield(self._ending)
        async with AsyncExitStack() as given:  # the last one first, as contexts of one task have to be left
            for source in self._connections():
                given.push_async_callback(source.dispose)

    async def _end(self) -> None:
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.wait([self._warming])
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.close_seconds):
                await self._idle.wait()
        await self._builder.close()
        async with asyncio.TaskGroup() as ends:
            for source in self._connections():
                ends.create_task(source.close())

    async def _warm(self) -> None:
        try:
            await self.initialize()
        except GatewayError:
            return  # the first call builds again and raises it where somebody sees it

    def _connections(self) -> Iterator[RemoteSource]:
        return (entry for entry in self._registry.entries if isinstance(entry, RemoteSource))

    def _text(self, query: str, summary: str, context: Mapping[str, Any] | None) -> str:
        return search_text.joined(query, summary, context or {}, self._options.max_search_chars)

    async def _ranked(self, text: str, limit: int) -> Ranking:
        generation = await self._builder.current()
        text, diagnostics = await search_text.normalized(text, self._options)
        ranking = await rank(generation, self._options, text, limit)
        told = tuple(dict.fromkeys((*diagnostics, *ranking.diagnostics, *generation.diagnostics)))
        return msgspec.structs.replace(ranking, diagnostics=told)

    @contextmanager
    def _call(self) -> Generator[None]:
        """Count a running call, for which closing waits."""
        if self._closed:
            raise GatewayClosed("The gateway is closed.")
        self._running += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()


def _chosen(generation: Generation, tool_id: str, tool_name: str, source_id: str) -> Tool:
    if bool(tool_id) == bool(tool_name):
        raise ToolNotFound("A tool is named either by its id or by its name, and not by both or neither.")
    if tool_id or source_id:
        tool = generation.tools.get(tool_id or f"{source_id}:{tool_name}")
        if tool is None:
            raise ToolNotFound(_not_found(generation, tool_id or f"{source_id}:{tool_name}"))
        return tool
    first, *others = generation.names.get(tool_name) or (None,)
    if first is None:
        raise ToolNotFound(f"No source has a tool with the name {shown(tool_name)}.")
    if others:
        sources = ", ".join(sorted(tool.source_id for tool in generation.names[tool_name]))
        raise ToolNameAmbiguous(f"Several sources have a tool of this name: {sources}. Name one of them.")
    return first


def _not_found(generation: Generation, tool_id: str) -> str:
    """That there is no such tool, and why not, when its source could not be loaded."""
    source_id = tool_id.partition(":")[0]
    failed = (
        told.message
        for told in generation.diagnostics
        if told.code == SOURCE_LOAD_FAILED and told.source_id == source_id
    )
    return " ".join((f"There is no tool with the id {shown(tool_id)}.", *failed))
