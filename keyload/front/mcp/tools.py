"""The three meta tools: their declarations, their arguments, and the answers of search and route.

Operations are never listed as tools (MCP-5, MCP-9): an agent finds them here and invokes them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

from keyload.codec import schema
from keyload.codec.decoding import decode
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.gateway import (
    GatewayInvokeArguments,
    GatewayRouteArguments,
    GatewayRouteCategory,
    GatewayRouteResult,
    GatewaySearchArguments,
    GatewaySearchResult,
    GatewayToolMatch,
)
from keyload.contract.mutations import MUTATIONS
from keyload.contract.operations import Operation
from keyload.front.mcp import schemas
from keyload.front.mcp.preflight import INVOKE
from keyload.gateway import Category, GatewayRegistry, Match, ToolFunction, ToolHints

SEARCH = "gateway_tools_search"
ROUTE = "gateway_tools_route"
SOURCE = "keyload"
COMMIT = "keyload_documents_commit"


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
        "first. Use it when a task touches several areas.",
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


def register(registry: GatewayRegistry, operation: Operation, adapter: ToolFunction) -> None:
    """Put one operation into the gateway; mutation kinds lend their phrases to the commit (MCP-31)."""
    mutations = MUTATIONS.values() if operation.name == COMMIT else ()
    registry.add_tool(
        SOURCE,
        adapter,
        name=operation.name,
        description=operation.description,
        input_schema=schema.input_schema(operation),
        output_schema=schema.output_schema(operation),
        hints=ToolHints(
            title=operation.title,
            category=operation.feature,
            aliases=(*operation.aliases, *(alias for rule in mutations for alias in rule.aliases)),
            read_only=operation.read_only,
            destructive=operation.destructive,
            idempotent=operation.idempotent,
        ),
    )


def search_arguments(tree: Any) -> GatewaySearchArguments:
    """Decode the arguments of a search. Raises KeyLoadError Validation (MCP-14, MCP-17)."""
    _only_integers(tree, "maxResults")
    return decode(GatewaySearchArguments, _object(tree))


def route_arguments(tree: Any) -> GatewayRouteArguments:
    """Decode the arguments of a route. Raises KeyLoadError Validation (MCP-15, MCP-17)."""
    _only_integers(tree, "maxCategories", "maxToolsPerCategory")
    return decode(GatewayRouteArguments, _object(tree))


def invoke_target(tree: Any) -> str:
    """The name an invocation aims at; its arguments stay undecoded. Raises Validation (MCP-16)."""
    return decode(GatewayInvokeArguments, _object(tree)).tool_id


def search_result(matches: Iterable[Match]) -> bytes:
    """The result of a search as JSON text (MCP-23)."""
    return msgspec.json.encode(GatewaySearchResult(matches=tuple(_match(match) for match in matches)))


def route_result(categories: Iterable[Category]) -> bytes:
    """The result of a route as JSON text (MCP-23)."""
    return msgspec.json.encode(
        GatewayRouteResult(
            categories=tuple(
                GatewayRouteCategory(
                    feature=category.name,
                    score=category.score,
                    tools=tuple(_match(match) for match in category.matches),
                )
                for category in categories
            )
        )
    )


def found(count: int) -> str:
    """The line of text beside a search or route (MCP-21)."""
    if not count:
        return "No operation fits this task."
    return f"{count} operation{'s' if count > 1 else ''} found."


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


def _object(tree: Any) -> Any:
    """Absent arguments are an empty object."""
    return {} if tree is None else tree


def _only_integers(tree: Any, *names: str) -> None:
    """Refuse decimal texts where the rest of the contract would take them (CON-7)."""
    members = cast("Mapping[str, Any]", tree) if isinstance(tree, Mapping) else {}
    for name in names:
        value = members.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool):
            raise KeyLoadError(
                ErrorCode.VALIDATION,
                "The arguments of this tool take integers as JSON numbers only.",
                path=f"/{name}",
                expected="a JSON integer",
            )
