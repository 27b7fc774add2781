"""`Gateway`: one object that finds the few tools that fit a task, groups them, and runs the one chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from keyload.gateway.registry import GatewayOptions, GatewayRegistry, SearchTextTooLong, Tool, ToolNotFound

if TYPE_CHECKING:
    from keyload.gateway.lexical import LexicalIndex, Scored

MAX_MATCHES = 15
MAX_RANKED = 256


class Match(msgspec.Struct, frozen=True):
    """A registered tool and how well it fits, 0..1."""

    tool: Tool
    score: float


class Category(msgspec.Struct, frozen=True):
    """A category with its best tools (GTW-25); `score` is 0..1."""

    name: str
    score: float
    matches: tuple[Match, ...]


class Invocation(msgspec.Struct, frozen=True):
    """What a tool returned, as it was, or the exception it raised (GTW-35)."""

    output: Any = None
    error: Exception | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the tool returned."""
        return self.error is None


class _Index(msgspec.Struct, frozen=True):
    """One immutable generation: running calls keep theirs."""

    version: int
    tools: Mapping[str, Tool]
    ranking: LexicalIndex


class Gateway:
    """Searches, routes and invokes the tools of its registry.

    The index is built on the first call and again after a later registration; building takes no await, so
    parallel first calls share it (GTW-10). All methods may run concurrently; cancelling a caller
    cancels its tool.
    """

    def __init__(self, registry: GatewayRegistry, options: GatewayOptions) -> None:
        self._registry = registry
        self._options = options
        self._built: _Index | None = None

    async def initialize(self) -> int:
        """Build the index now and return the number of tools (GTW-11)."""
        return len(self._index().tools)

    async def search(self, query: str, limit: int) -> list[Match]:
        """The best tools for a task, at most `limit` (capped at 15), best first; empty when nothing fits.

        Raises `SearchTextTooLong`.
        """
        index = self._index()
        return [_match(index, scored) for scored in self._rank(index, query)[: min(limit, MAX_MATCHES)]]

    async def route(
        self, query: str, categories: int, tools_per_category: int, prefer_read_only: bool = False
    ) -> list[Category]:
        """The best categories for a task with their best tools (GTW-25).

        With `prefer_read_only` read-only tools stand before others inside a category. Raises
        `SearchTextTooLong`.
        """
        index = self._index()
        grouped: dict[str, list[Match]] = {}
        for scored in self._rank(index, query):
            category = index.tools[scored.tool_id].hints.category
            grouped.setdefault(category, []).append(_match(index, scored))
        groups = [
            _category(name, matches, tools_per_category, prefer_read_only)
            for name, matches in grouped.items()
        ]
        groups.sort(key=lambda group: (-group.score, group.name))
        return groups[:categories]

    async def invoke(self, tool_id: str, arguments: Mapping[str, Any]) -> Invocation:
        """Run a tool. Its exception becomes the result's `error`; cancellation goes through.

        Raises `ToolNotFound`.
        """
        tool = self._index().tools.get(tool_id)
        if tool is None:
            raise ToolNotFound("There is no tool with this id.")
        try:
            return Invocation(output=await tool.function(arguments))
        except Exception as error:
            return Invocation(error=error)

    def _index(self) -> _Index:
        built = self._built
        if built is None or built.version != self._registry.version:
            from keyload.gateway.lexical import LexicalIndex  # with numpy, which a host need not wait for

            tools = {tool.id: tool for tool in self._registry.tools}
            ranking = LexicalIndex([tool.document for tool in tools.values()])
            built = self._built = _Index(self._registry.version, tools, ranking)
        return built

    def _rank(self, index: _Index, query: str) -> tuple[Scored, ...]:
        if len(query) > self._options.max_search_chars:
            raise SearchTextTooLong(f"A search text has at most {self._options.max_search_chars} characters.")
        ranked = index.ranking.rank(query, MAX_RANKED)
        return () if ranked.low else ranked.scored


def create_gateway(options: GatewayOptions | None = None) -> tuple[Gateway, GatewayRegistry]:
    """Wire a gateway and its registry (GTW-1)."""
    options = options or GatewayOptions()
    registry = GatewayRegistry(options)
    return Gateway(registry, options), registry


def _match(index: _Index, scored: Scored) -> Match:
    return Match(index.tools[scored.tool_id], scored.score)


def _category(name: str, matches: list[Match], limit: int, prefer_read_only: bool) -> Category:
    """A category scores by its best tool, a little more when others fit too."""
    scores = [match.score for match in matches[:2]]
    score = 0.9 * scores[0] + 0.1 * sum(scores) / 2
    if prefer_read_only:
        matches = sorted(matches, key=lambda match: not match.tool.hints.read_only)
    return Category(name, score, tuple(matches[:limit]))
