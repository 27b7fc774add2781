"""What the gateway answers."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from keyload.gateway.diagnostics import Diagnostic
from keyload.gateway.tools import Tool

RankingMode = Literal["vector", "lexical", "graph", "browse", "empty"]


class Match(msgspec.Struct, frozen=True):
    """A tool and how well it fits, 0..1 (GTW-15)."""

    tool: Tool
    score: float

    @property
    def tool_id(self) -> str:
        """`source_id:name`."""
        return self.tool.id

    @property
    def name(self) -> str:
        """The tool's name in its source."""
        return self.tool.name

    @property
    def source_id(self) -> str:
        """The source it comes from."""
        return self.tool.source_id

    @property
    def description(self) -> str:
        """What the tool does."""
        return self.tool.description

    @property
    def required(self) -> tuple[str, ...]:
        """The arguments that a call must give."""
        return self.tool.required

    @property
    def input_schema(self) -> dict[str, Any]:
        """The schema of its arguments, complete."""
        return msgspec.json.decode(self.tool.input_schema, type=dict[str, Any])

    def shown(self) -> dict[str, Any]:
        """The match as plain JSON values."""
        return {
            "toolId": self.tool.id,
            "name": self.tool.name,
            "source": self.tool.source_id,
            "title": self.tool.title,
            "description": self.tool.description,
            "requiredArguments": list(self.tool.required),
            "inputSchema": self.input_schema,
            "score": self.score,
        }


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """How an answer came about (GTW-15, GTW-22).

    `confidence` is the share of the search text's IDF mass that the tools cover; `low_confidence` says
    that probably nothing fits.
    """

    ranking_mode: RankingMode
    diagnostics: tuple[Diagnostic, ...] = ()
    confidence: float = 0.0
    low_confidence: bool = False


class SearchResult(Found, frozen=True, kw_only=True):
    """The best tools, best first, each once."""

    matches: tuple[Match, ...] = ()


class Category(msgspec.Struct, frozen=True):
    """A category with tools, best first; `score` is 0..1 (GTW-25)."""

    name: str
    score: float
    matches: tuple[Match, ...]


class RouteResult(Found, frozen=True, kw_only=True):
    """The best categories, best first."""

    categories: tuple[Category, ...] = ()


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gave (GTW-35): its output, or the text of its error.

    `exception` is what a tool raised, `mcp_result` the `CallToolResult` of an MCP server as it came.
    """

    succeeded: bool
    output: Any = None
    error: str = ""
    exception: BaseException | None = None
    mcp_result: Any = None


class Initialization(msgspec.Struct, frozen=True):
    """What a build gave (GTW-11)."""

    tool_count: int
    vector_count: int
    diagnostics: tuple[Diagnostic, ...]
