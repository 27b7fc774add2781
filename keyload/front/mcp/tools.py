"""The three meta tools: their declarations, their arguments, and the answers of search and route.

Operations are never listed as tools (MCP-5, MCP-9): an agent finds them here and invokes them by name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

import msgspec

from keyload.codec import schema
from keyload.codec.decoding import decode, skeleton
from keyload.contract.base import Record
from keyload.contract.errors import KeyLoadError
from keyload.contract.gateway import (
    GatewayInvokeArguments,
    GatewayRouteArguments,
    GatewayRouteCategory,
    GatewayRouteResult,
    GatewaySearchArguments,
    GatewaySearchResult,
    GatewayToolMatch,
)
from keyload.contract.operations import Operation
from keyload.front.mcp import catalog, schemas
from keyload.front.mcp.preflight import INVOKE
from keyload.gateway import Category, GatewayRegistry, Match

SEARCH = "gateway_tools_search"
ROUTE = "gateway_tools_route"
MATCHES_BYTES = 60_000  # of the 65,536 a control reply may have


class MetaTool(msgspec.Struct, frozen=True):
    """One of the three tools that `tools/list` shows."""

    title: str
    description: str
    input_schema: Callable[[], schemas.Schema]
    output_schema: Callable[[], schemas.Schema]
    read_only: bool


META_TOOLS: dict[str, MetaTool] = {
    SEARCH: MetaTool(
        "Find operations for a task",
        "Finds the KeyLoad operations that fit a task in your own words, with their complete schemas. Start "
        "here, then call gateway_tool_invoke.",
        schemas.search_input,
        schemas.search_output,
        read_only=True,
    ),
    ROUTE: MetaTool(
        "Find operations by area",
        "Groups the KeyLoad operations that fit a task by area of the database; can put reading operations "
        "first. A place left over in a group is filled with the next best operation, whose own area its "
        "feature names. Use it when a task touches several areas.",
        schemas.route_input,
        schemas.route_output,
        read_only=True,
    ),
    INVOKE: MetaTool(
        "Invoke an operation",
        "Runs one KeyLoad operation by its exact toolId, with the arguments its input schema describes and "
        "the rights of your key. It may change or delete data.",
        schemas.invoke_input,
        schemas.invoke_output,
        read_only=False,
    ),
}


def tool_list() -> list[dict[str, Any]]:
    """The tools of `tools/list`, made anew at each call (MCP-9, MCP-10, MCP-12)."""
    return [
        {
            "name": name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": tool.input_schema(),
            "outputSchema": tool.output_schema(),
            "annotations": {
                "title": tool.title,
                "readOnlyHint": tool.read_only,
                "destructiveHint": not tool.read_only,
                "idempotentHint": tool.read_only,
                "openWorldHint": False,
            },
        }
        for name, tool in META_TOOLS.items()
    ]


def register(registry: GatewayRegistry, operation: Operation, adapter: Callable[[], Awaitable[Any]]) -> None:
    """Put one operation into the gateway (MCP-31)."""
    registry.add_tool(
        catalog.SOURCE,
        adapter,
        name=operation.name,
        description=operation.description,
        input_schema=schema.input_schema(operation),
        output_schema=schema.output_schema(operation),
        hints=catalog.hints(operation),
    )


def search_arguments(tree: Any) -> GatewaySearchArguments:
    """Decode the arguments of a search. Raises KeyLoadError Validation (MCP-14, MCP-17)."""
    return _decode(GatewaySearchArguments, tree)


def route_arguments(tree: Any) -> GatewayRouteArguments:
    """Decode the arguments of a route. Raises KeyLoadError Validation (MCP-15, MCP-17)."""
    return _decode(GatewayRouteArguments, tree)


def invoke_target(tree: Any) -> str:
    """The name an invocation aims at; its arguments stay undecoded. Raises Validation (MCP-16)."""
    return _decode(GatewayInvokeArguments, tree).tool_id


def search_result(matches: Iterable[Match]) -> tuple[bytes, str]:
    """The result of a search as JSON text, and its line of text (MCP-21, MCP-23)."""
    shelf = _Shelf()
    shown = tuple(shelf.take(matches))
    return msgspec.json.encode(GatewaySearchResult(matches=shown)), shelf.line


def route_result(categories: Iterable[Category]) -> tuple[bytes, str]:
    """The result of a route as JSON text, and its line of text (MCP-21, MCP-23)."""
    shelf = _Shelf()
    shown = [
        GatewayRouteCategory(feature=category.name, score=category.score, tools=tools)
        for category in categories
        if (tools := tuple(shelf.take(category.matches)))
    ]
    return msgspec.json.encode(GatewayRouteResult(categories=tuple(shown))), shelf.line


class _Shelf:
    """Room for whole matches in one reply of the control lane: the best that fit, none of them shortened."""

    def __init__(self) -> None:
        self._room = MATCHES_BYTES
        self._shown = 0
        self._left_out = 0

    def take(self, matches: Iterable[Match]) -> Iterator[GatewayToolMatch]:
        """The matches that fit, in order; the first always does, so that its own size decides."""
        for match in matches:
            entry = _match(match)
            size = len(msgspec.json.encode(entry))
            if self._left_out or (self._shown and size > self._room):
                self._left_out += 1
                continue
            self._room -= size
            self._shown += 1
            yield entry

    @property
    def line(self) -> str:
        """One line about what was found."""
        if not self._shown:
            return "No operation fits this task."
        line = f"{self._shown} operation{'s' if self._shown > 1 else ''} found."
        if self._left_out:
            line += f" {self._left_out} more did not fit this reply; word the task closer to see them."
        return line


def _match(match: Match) -> GatewayToolMatch:
    hints = match.tool.hints
    return GatewayToolMatch(
        tool_id=match.tool.name,
        title=match.tool.title,
        description=match.tool.description,
        feature=hints.category,
        read_only=hints.read_only,
        destructive=hints.destructive,
        idempotent=hints.idempotent,
        score=match.score,
        input_schema=msgspec.Raw(match.tool.input_schema),
        output_schema=msgspec.Raw(match.tool.output_schema),
    )


def _decode(kind: type[Record], tree: Any) -> Any:
    """Absent arguments are an empty object; integers are JSON numbers only (CON-7)."""
    try:
        return decode(kind, {} if tree is None else tree, strict_integers=True)
    except KeyLoadError as error:
        error.example = skeleton(kind)
        raise
