"""Arguments and results of the three gateway tools, and the two envelopes every tool call answers with."""

from __future__ import annotations

from typing import Annotated, Any

from keyload.contract.base import Member, Record
from keyload.contract.errors import Problem
from keyload.contract.features import FEATURES


class GatewayToolMatch(Record, frozen=True, kw_only=True):
    """One operation found by the gateway."""

    tool_id: Annotated[str, Member(format="identifier", meaning="Operation name for gateway_tool_invoke.")]
    title: Annotated[str, Member(meaning="Title.")]
    description: Annotated[str, Member(meaning="Description.")]
    feature: Annotated[str, Member(one_of=FEATURES, meaning="Feature name.")]
    read_only: Annotated[bool, Member(meaning="Effect hint.")]
    destructive: Annotated[bool, Member(meaning="Effect hint.")]
    idempotent: Annotated[bool, Member(meaning="Effect hint.")]
    score: Annotated[float, Member(scalar="double", min=0, max=1, meaning="Relative fit.")]
    input_schema: Annotated[Any, Member(scalar="json", meaning="JSON Schema of the arguments member.")]
    output_schema: Annotated[
        Any, Member(scalar="json", meaning="Complete JSON Schema of structuredContent, success and failure.")
    ]


class GatewaySearchArguments(Record, frozen=True, kw_only=True):
    """Arguments of gateway_tools_search."""

    query: Annotated[str, Member(format="gatewayQuery", meaning="Task in the caller's own words.")]
    max_results: Annotated[int, Member(scalar="int32", min=1, max=4, meaning="Most matches.")] = 3


class GatewaySearchResult(Record, frozen=True, kw_only=True):
    """Result of gateway_tools_search."""

    matches: Annotated[
        tuple[GatewayToolMatch, ...],
        Member(min_items=0, max_items=4, meaning="Matching operations, best first; empty when nothing fits."),
    ]


class GatewayRouteArguments(Record, frozen=True, kw_only=True):
    """Arguments of gateway_tools_route."""

    query: Annotated[str, Member(format="gatewayQuery", meaning="Task in the caller's own words.")]
    max_categories: Annotated[int, Member(scalar="int32", min=1, max=2, meaning="Most categories.")] = 2
    max_tools_per_category: Annotated[
        int, Member(scalar="int32", min=1, max=2, meaning="Most operations in a category.")
    ] = 2
    prefer_read_only: Annotated[bool, Member(meaning="True ranks reading operations first.")] = False


class GatewayRouteCategory(Record, frozen=True, kw_only=True):
    """One category with its operations."""

    feature: Annotated[str, Member(one_of=FEATURES, meaning="Feature name.")]
    score: Annotated[float, Member(scalar="double", min=0, max=1, meaning="Relative fit.")]
    tools: Annotated[
        tuple[GatewayToolMatch, ...], Member(min_items=1, max_items=2, meaning="Operations, best first.")
    ]


class GatewayRouteResult(Record, frozen=True, kw_only=True):
    """Result of gateway_tools_route."""

    categories: Annotated[
        tuple[GatewayRouteCategory, ...],
        Member(min_items=0, max_items=2, meaning="Fitting categories, best first; empty when nothing fits."),
    ]


class GatewayInvokeArguments(Record, frozen=True, kw_only=True):
    """Arguments of gateway_tool_invoke."""

    tool_id: Annotated[str, Member(format="identifier", meaning="Exact operation name.")]
    arguments: Annotated[
        dict[str, Any],
        Member(
            scalar="json",
            exact=False,
            min_items=0,
            max_items=2,
            meaning="Argument envelope of that operation.",
        ),
    ] = {}  # noqa: RUF012 - msgspec copies an empty default


class ToolSuccess(Record, frozen=True, kw_only=True):
    """Structured content of a successful tool call."""

    result: Annotated[Any | None, Member(scalar="json", meaning="Canonical result of the operation.")]
    request_id: Annotated[
        str | None,
        Member(
            scalar="guid",
            meaning="Id of this execution; null for gateway_tools_search and gateway_tools_route.",
        ),
    ]


class ToolFailure(Record, frozen=True, kw_only=True):
    """Structured content of a failed tool call."""

    error: Annotated[Problem, Member(meaning="The error.")]
    request_id: Annotated[
        str | None, Member(scalar="guid", meaning="Id of this execution; null when nothing was executed.")
    ]
