"""The gateway as three ordinary tools for a host: search, route and invoke (GTW-36, GTW-37)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from keyload.gateway.errors import GatewayError, ToolNameAmbiguous, ToolNotFound
from keyload.gateway.remote import META_TOOL_KEY
from keyload.gateway.results import Found

if TYPE_CHECKING:
    from keyload.gateway.gateway import Gateway

SEARCH, ROUTE, INVOKE = "gateway_tools_search", "gateway_tools_route", "gateway_tool_invoke"


class _Arguments(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """Common arguments: the task, and what is known around it."""

    query: str = ""
    context_summary: str = ""
    context: dict[str, Any] = {}


class _SearchArguments(_Arguments, kw_only=True):
    max_results: int = 5


class _RouteArguments(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    query: str = ""
    max_categories: int = 3
    max_tools_per_category: int = 3
    prefer_read_only: bool = False


class _InvokeArguments(_Arguments, kw_only=True):
    tool_id: str = ""
    tool_name: str = ""
    source: str = ""
    arguments: dict[str, Any] = {}


class MetaTool:
    """A tool that stands for the gateway; `meta` marks it, so that its own gateway never indexes it."""

    def __init__(
        self,
        gateway: Gateway,
        name: str,
        description: str,
        kind: type[msgspec.Struct],
        answer: Callable[[Any], Awaitable[dict[str, Any]]],
        descriptions: Mapping[str, str],
    ) -> None:
        self.gateway = gateway
        self.name = name
        self.description = description
        self.meta = {META_TOOL_KEY: gateway.id}
        self._kind = kind
        self._answer = answer
        self._descriptions = descriptions

    @property
    def input_schema(self) -> dict[str, Any]:
        """The schema of its arguments, made anew at each call."""
        (_, parts) = msgspec.json.schema_components([self._kind])
        schema = dict(parts[self._kind.__name__])
        schema.pop("title", None)
        properties = {name: dict(member) for name, member in schema["properties"].items()}
        for name, text in self._descriptions.items():
            properties[name]["description"] = text
        return {**schema, "properties": properties}

    async def call(self, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run it; the answer consists of plain JSON values. Raises GatewayError for wrong arguments."""
        try:
            given = msgspec.convert({} if arguments is None else arguments, self._kind)
        except msgspec.ValidationError as error:
            raise GatewayError(f"The arguments of {self.name} do not fit: {error}") from None
        return await self._answer(given)

    async def __call__(self, **arguments: Any) -> dict[str, Any]:
        """As `call`, with the arguments by name."""
        return await self.call(arguments)


class GatewayToolSet:
    """Offers a gateway as tools, under names of the host's choice (GTW-1, GTW-36)."""

    def __init__(
        self, gateway: Gateway, search_name: str = SEARCH, route_name: str = ROUTE, invoke_name: str = INVOKE
    ) -> None:
        self._tools = create(gateway, search_name, route_name, invoke_name)

    def create_tools(self) -> list[MetaTool]:
        """Search, route and invoke, in a list of the caller's own."""
        return list(self._tools)


def create(
    gateway: Gateway, search_name: str, route_name: str, invoke_name: str
) -> tuple[MetaTool, MetaTool, MetaTool]:
    """The three tools. Raises ValueError for equal or empty names (GTW-36)."""
    names = (search_name, route_name, invoke_name)
    if not all(name.strip() for name in names) or len(set(names)) != len(names):
        raise ValueError("The three tools need names that are not empty and differ.")
    return (
        MetaTool(
            gateway,
            search_name,
            f"Finds the tools that fit a task, with their input schemas; then call {invoke_name}.",
            _SearchArguments,
            lambda given: _search(gateway, given),
            {
                "query": "The task in plain words.",
                "contextSummary": "What matters around the task, in a few sentences.",
                "context": "Facts around the task by name.",
                "maxResults": "Most tools to return, up to 15.",
            },
        ),
        MetaTool(
            gateway,
            route_name,
            f"Finds the tools that fit a task, grouped by category; then call {invoke_name}.",
            _RouteArguments,
            lambda given: _route(gateway, given),
            {
                "query": "The task in plain words.",
                "maxCategories": "Most categories to return.",
                "maxToolsPerCategory": "Most tools in each category.",
                "preferReadOnly": "Whether tools that only read stand first in their category.",
            },
        ),
        MetaTool(
            gateway,
            invoke_name,
            f"Runs one tool that {search_name} or {route_name} found.",
            _InvokeArguments,
            lambda given: _invoke(gateway, given),
            {
                "toolId": "The tool's id.",
                "toolName": "The tool's name, instead of its id.",
                "source": "The source, where several have a tool of this name.",
                "arguments": "What the tool's input schema asks for.",
                "query": "The task in plain words.",
                "contextSummary": "What matters around the task, in a few sentences.",
                "context": "Facts around the task by name.",
            },
        ),
    )


async def _search(gateway: Gateway, given: _SearchArguments) -> dict[str, Any]:
    found = await gateway.search(given.query, given.context_summary, given.context, given.max_results)
    return {"matches": [match.shown() for match in found.matches], **_about(found)}


async def _route(gateway: Gateway, given: _RouteArguments) -> dict[str, Any]:
    found = await gateway.route(
        given.query, given.max_categories, given.max_tools_per_category, given.prefer_read_only
    )
    categories = [
        {
            "category": category.name,
            "score": category.score,
            "tools": [match.shown() for match in category.matches],
        }
        for category in found.categories
    ]
    return {"categories": categories, **_about(found)}


async def _invoke(gateway: Gateway, given: _InvokeArguments) -> dict[str, Any]:
    try:
        done = await gateway.invoke(
            given.tool_id,
            given.arguments,
            tool_name=given.tool_name,
            source_id=given.source,
            query=given.query,
            context_summary=given.context_summary,
            context=given.context,
        )
    except (ToolNotFound, ToolNameAmbiguous) as error:
        return {"succeeded": False, "output": None, "error": str(error)}
    try:
        output = msgspec.to_builtins(done.output, str_keys=True, enc_hook=str)
        msgspec.json.encode(output)
    except Exception:  # it holds itself, texts that are no Unicode, objects that cannot be shown
        error = done.error or "The tool has run; its output cannot be shown as JSON."
        return {"succeeded": done.succeeded, "output": None, "error": error}
    return {"succeeded": done.succeeded, "output": output, "error": done.error}


def _about(found: Found) -> dict[str, Any]:
    return {
        "rankingMode": found.ranking_mode,
        "confidence": found.confidence,
        "lowConfidence": found.low_confidence,
        "diagnostics": [{"code": told.code, "message": told.message} for told in found.diagnostics],
    }
