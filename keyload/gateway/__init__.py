"""Gateway library: one searchable surface over many tools; it stands alone (GTW-40).

`create_gateway` wires a `Gateway`, its `GatewayRegistry` and a `GatewayToolSet`. Local functions, MCP
servers and clients are registered; then `search`, `route` and `invoke` find and run their tools.
The LMDB store and the packaged embedding model stand in `lmdb_store` and `packaged_model`, so that their
packages are imported only where they are used.
"""

from __future__ import annotations

from typing import NamedTuple

from keyload.gateway.diagnostics import Diagnostic
from keyload.gateway.embeddings import (
    EmbeddingGenerator,
    EmbeddingKey,
    EmbeddingStore,
    InMemoryEmbeddingStore,
)
from keyload.gateway.errors import (
    EmbeddingError,
    GatewayClosed,
    GatewayError,
    GraphError,
    RegistrationError,
    SearchTextTooLong,
    SourceFailed,
    ToolNameAmbiguous,
    ToolNotFound,
)
from keyload.gateway.gateway import Gateway
from keyload.gateway.hints import ToolHints
from keyload.gateway.meta_tools import GatewayToolSet, MetaTool
from keyload.gateway.options import GatewayOptions
from keyload.gateway.registry import GatewayRegistry
from keyload.gateway.results import Category, Initialization, Invocation, Match, RouteResult, SearchResult
from keyload.gateway.sources import ClientFactory, GivenClient, HttpServer, LocalTool, StdioServer
from keyload.gateway.tools import Tool

__all__ = [
    "Category",
    "ClientFactory",
    "Diagnostic",
    "EmbeddingError",
    "EmbeddingGenerator",
    "EmbeddingKey",
    "EmbeddingStore",
    "Gateway",
    "GatewayClosed",
    "GatewayError",
    "GatewayOptions",
    "GatewayParts",
    "GatewayRegistry",
    "GatewayToolSet",
    "GivenClient",
    "GraphError",
    "HttpServer",
    "InMemoryEmbeddingStore",
    "Initialization",
    "Invocation",
    "LocalTool",
    "Match",
    "MetaTool",
    "RegistrationError",
    "RouteResult",
    "SearchResult",
    "SearchTextTooLong",
    "SourceFailed",
    "StdioServer",
    "Tool",
    "ToolHints",
    "ToolNameAmbiguous",
    "ToolNotFound",
    "create_gateway",
]


class GatewayParts(NamedTuple):
    """What `create_gateway` wires together."""

    gateway: Gateway
    registry: GatewayRegistry
    tool_set: GatewayToolSet


def create_gateway(options: GatewayOptions | None = None) -> GatewayParts:
    """Wire a gateway, its registry and its tools (GTW-1). Raises RegistrationError for a source of the
    options that cannot be registered."""
    options = options or GatewayOptions()
    registry = GatewayRegistry(options)
    gateway = Gateway(registry, options)
    return GatewayParts(gateway, registry, GatewayToolSet(gateway))
