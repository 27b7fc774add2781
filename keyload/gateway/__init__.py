"""Gateway library: one searchable surface over many tools; it stands alone (GTW-40)."""

from keyload.gateway.gateway import Category, Gateway, Invocation, Match, create_gateway
from keyload.gateway.registry import (
    GatewayError,
    GatewayOptions,
    GatewayRegistry,
    RegistrationError,
    SearchTextTooLong,
    Tool,
    ToolFunction,
    ToolHints,
    ToolNotFound,
)

__all__ = [
    "Category",
    "Gateway",
    "GatewayError",
    "GatewayOptions",
    "GatewayRegistry",
    "Invocation",
    "Match",
    "RegistrationError",
    "SearchTextTooLong",
    "Tool",
    "ToolFunction",
    "ToolHints",
    "ToolNotFound",
    "create_gateway",
]
