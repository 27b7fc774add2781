"""What the gateway is told about an operation so that it is found (MCP-34)."""

from __future__ import annotations

from keyload.contract.mutations import MUTATIONS
from keyload.contract.names import OPERATION_NAMES
from keyload.contract.operations import Operation
from keyload.contract.phrases import phrases_of
from keyload.gateway import ToolHints

SOURCE = "keyload"
COMMIT = "keyload_documents_commit"


def hints(operation: Operation) -> ToolHints:
    """Hints of an operation; mutation kinds lend their aliases and phrases to the commit (MCP-31)."""
    mutations = MUTATIONS.values() if operation.name == COMMIT else ()
    return ToolHints(
        title=operation.title,
        category=operation.feature,
        aliases=(*operation.aliases, *(alias for rule in mutations for alias in rule.aliases)),
        examples=phrases_of(operation.name) if operation.name in OPERATION_NAMES else (),
        read_only=operation.read_only,
        destructive=operation.destructive,
        idempotent=operation.idempotent,
    )
