"""Building generations: one build at a time, shared by all who wait for it (GTW-8, GTW-10, GTW-12)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from keyload.gateway.diagnostics import EMBEDDING_FAILED, SOURCE_LOAD_FAILED, Diagnostic, first_cause
from keyload.gateway.documents import ToolDocument
from keyload.gateway.embeddings import EmbeddingGenerator, named
from keyload.gateway.errors import GatewayClosed, GatewayError, SourceFailed
from keyload.gateway.failures import is_own
from keyload.gateway.generation import Generation
from keyload.gateway.options import GatewayOptions, GeneratorResolver
from keyload.gateway.registry import GatewayRegistry
from keyload.gateway.remote import RemoteSource
from keyload.gateway.tools import Tool, descriptor

if TYPE_CHECKING:
    from keyload.gateway.lexical import LexicalIndex


class _Build:
    """A build under way and how many wait for it; it ends with the last of them."""

    def __init__(self, task: asyncio.Task[Generation]) -> None:
        self.task = task
        self.waiters = 0


class _Indexing:
    """A text index that is being made, and of what."""

    def __init__(self, documents: tuple[ToolDocument, ...], low_confidence: float) -> None:
        from keyload.gateway.lexical import LexicalIndex  # with numpy, which a host need not wait for

        self.documents = documents
        work = asyncio.to_thread(LexicalIndex, documents, low_confidence)
        self.task = asyncio.create_task(work, name="gateway index")
        self.task.add_done_callback(_seen)

    @property
    def failed(self) -> bool:
        """Whether it has ended without an index."""
        return self.task.done() and (self.task.cancelled() or self.task.exception() is not None)


class Builder:
    """Hands out the present generation and makes a new one when something changed."""

    def __init__(self, registry: GatewayRegistry, options: GatewayOptions, gateway_id: str) -> None:
        self._registry = registry
        self._options = options
        self._gateway_id = gateway_id
        self._generation: Generation | None = None
        self._build: _Build | None = None
        self._last: asyncio.Task[Generation] | None = None
        self._indexing: _Indexing | None = None
        self._refused_version = -1
        self._embedded_at = 0.0
        self._closed = False

    async def current(self) -> Generation:
        """The generation with everything registered so far, built if need be.

        Raises what the build raises when there is no former generation to go on with (GTW-12), and
        GatewayClosed.
        """
        needed = self._registry.version
        while True:
            if self._closed:
                raise GatewayClosed("The gateway is closed.")
            generation = self._generation
            if generation is not None and not self._is_stale(generation, needed):
                if self._is_due(generation):
                    self._joined(again=False)  # nobody waits for it: the present tools serve meanwhile
                return generation
            task = await self._waited_for(self._joined(again=False))
            if task is None:
                continue
            error = task.exception()
            if error is None:
                if task.result().version >= needed:
                    return task.result()
            elif self._generation is None:
                raise error
            # after a failed build the former generation serves until something changes again

    async def initialize(self) -> Generation:
        """As `current`, but what failed is tried again, and its failure is an error (GTW-8, GTW-11)."""
        generation, version = self._generation, self._registry.version
        failed = any(source.failed for source in self._remote_sources()) or self._refused_version == version
        failed |= generation is None or generation.lacks_vectors
        if generation is None or failed or self._build is not None or self._is_stale(generation, version):
            self._refused_version = -1
            task = await self._waited_for(self._joined(again=True))
            if task is not None and (error := task.exception()) is not None:
                raise error  # whoever began that build
        return await self.current()

    async def close(self) -> None:
        """No new builds; one under way is cancelled."""
        self._closed = True
        if self._last is not None and not self._last.done():
            self._last.cancel()
            await asyncio.wait([self._last], timeout=self._options.close_seconds)
        if self._indexing is not None:
            await asyncio.wait([self._indexing.task], timeout=self._options.close_seconds)

    def _is_due(self, generation: Generation) -> bool:
        """Whether something failed so long ago that it is time for another attempt."""
        if any(source.is_due() for source in self._remote_sources()):
            return True
        waited = asyncio.get_running_loop().time() - self._embedded_at
        return generation.lacks_vectors and waited >= self._options.retry_seconds

    def _is_stale(self, generation: Generation, needed: int) -> bool:
        version = self._registry.version
        if version == self._refused_version:
            return False
        if generation.version < max(version, needed):
            return True
        generator = resolved_generator(self._options)[0]
        return generator is not None and _fingerprint(generator) != generation.fingerprint

    def _joined(self, again: bool) -> _Build:
        if self._build is None:
            task = asyncio.create_task(self._make(self._last, again), name="gateway build")
            self._build, self._last = _Build(task), task
            task.add_done_callback(self._ended)
        return self._build

    def _ended(self, task: asyncio.Task[Generation]) -> None:
        if self._build is not None and self._build.task is task:
            self._build = None
        _seen(task)

    async def _waited_for(self, build: _Build) -> asyncio.Task[Generation] | None:
        """The finished task, None when it was cancelled; the last who leaves cancels it."""
        build.waiters += 1
        try:
            await asyncio.wait([build.task])
        finally:
            build.waiters -= 1
            if not build.waiters and not build.task.done():
                build.task.cancel()
                if self._build is build:
                    self._build = None
        return None if build.task.cancelled() else build.task

    async def _make(self, previous: asyncio.Task[Generation] | None, again: bool) -> Generation:
        if previous is not None and not previous.done():
            await asyncio.wait([previous])
        version, entries = self._registry.version, self._registry.entries
        try:
            remote = [entry for entry in entries if isinstance(entry, RemoteSource)]
            if remote:  # importing the SDK takes a second, in which others go on
                await asyncio.to_thread(import_module, "keyload.gateway.mcp_client")
            async with asyncio.TaskGroup() as loads:
                for source in remote:
                    loads.create_task(source.load(self._gateway_id, again))
            tools, diagnostics = self._admitted(entries)
            generation = await self._indexed(version, tools, diagnostics)
        except (Exception, asyncio.CancelledError) as error:
            if not is_own(error):
                raise
            self._refused_version = version  # what was registered meanwhile makes the next call build again
            if isinstance(error, SourceFailed) and self._generation is not None:
                self._generation = self._generation.noting(
                    Diagnostic(SOURCE_LOAD_FAILED, str(error), error.source_id)
                )
            if isinstance(error, GatewayError):
                raise
            raise GatewayError(
                f"The index could not be built: {type(first_cause(error)).__name__}."
            ) from error
        self._embedded_at = asyncio.get_running_loop().time()
        self._generation = generation
        return generation

    def _admitted(
        self, entries: Iterable[tuple[Tool, ...] | RemoteSource]
    ) -> tuple[list[Tool], list[Diagnostic]]:
        """The tools of all sources within the bounds; a source that passes them is left out (GTW-39)."""
        local = [tool for entry in entries if not isinstance(entry, RemoteSource) for tool in entry]
        count, size = len(local), sum(tool.size for tool in local)
        tools: list[Tool] = []
        diagnostics: list[Diagnostic] = []
        for entry in entries:
            if not isinstance(entry, RemoteSource):
                tools += entry
                continue
            more = sum(tool.size for tool in entry.tools)
            if (
                count + len(entry.tools) > self._options.max_tools
                or size + more > self._options.max_metadata_bytes
            ):
                entry.refuse("its tools pass the bounds of the gateway.")
            else:
                count, size = count + len(entry.tools), size + more
            tools += entry.tools
            diagnostics += entry.diagnostics
            if entry.failed and self._options.strict_sources:
                raise SourceFailed(entry.diagnostics[0].message, entry.source_id)
        return tools, diagnostics

    async def _indexed(self, version: int, tools: list[Tool], diagnostics: list[Diagnostic]) -> Generation:
        """Text index and vectors, taken over from the former generation where nothing changed."""
        former = self._generation
        documents = tuple(tool.document for tool in tools)
        same = former is not None and former.documents == documents
        if former is not None and same:
            index = former.index
        else:
            index = await self._text_index(documents)
        generator, problems = resolved_generator(self._options)
        diagnostics += problems
        if generator is None:
            return Generation(version, tools, index, None, None, tuple(diagnostics))
        from keyload.gateway import vectors

        fingerprint = _fingerprint(generator)
        kept = former.vectors if former is not None and same else None
        if kept is None or kept.fingerprint != fingerprint:
            limit = self._options.descriptor_text_limit
            texts = {tool.id: descriptor(tool.document, limit) for tool in tools}
            kept, problems = await vectors.build(texts, generator, self._options.embedding_store)
            diagnostics += problems
        return Generation(version, tools, index, kept, fingerprint, tuple(diagnostics))

    async def _text_index(self, documents: tuple[ToolDocument, ...]) -> LexicalIndex:
        """The index over some tools, made in a thread. That goes on when the build is cancelled, and the next
        build takes over what it makes: callers with little patience get their index too, and one is made at
        a time."""
        while self._indexing is not None and not self._indexing.task.done():
            if self._indexing.documents == documents:
                break
            await asyncio.wait([self._indexing.task])
        if self._indexing is None or self._indexing.documents != documents or self._indexing.failed:
            self._indexing = _Indexing(documents, self._options.low_confidence)
        index = await asyncio.shield(self._indexing.task)
        self._indexing = None
        return index

    def _remote_sources(self) -> Iterable[RemoteSource]:
        return [entry for entry in self._registry.entries if isinstance(entry, RemoteSource)]


def _seen(task: asyncio.Task[Any]) -> None:
    """Look at how a task ended, also when everybody who waited for it has left."""
    if not task.cancelled():
        task.exception()


def resolved_generator(options: GatewayOptions) -> tuple[EmbeddingGenerator | None, tuple[Diagnostic, ...]]:
    """The generator for this one operation: the dedicated one, else the general one (GTW-26)."""
    if options.strategy in ("tokenizer", "graph"):
        return None, ()
    try:
        for given in (options.embedding_generator, options.general_embedding_generator):
            generator = given
            if given is not None and not hasattr(given, "embed"):
                generator = cast("GeneratorResolver", given)()
            if generator is not None:
                return cast("EmbeddingGenerator", generator), ()
    except Exception as error:
        text = f"The embedding generator could not be had: {type(error).__name__}"
        return None, (Diagnostic(EMBEDDING_FAILED, text),)
    return None, ()


def _fingerprint(generator: EmbeddingGenerator) -> str | None:
    try:
        return named(generator)
    except Exception:
        return None
