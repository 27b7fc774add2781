"""What the gateway is told about an operation so that it is found (MCP-34)."""

from __future__ import annotations

from keyload.codec import schema
from keyload.contract.mutations import MUTATIONS
from keyload.contract.names import OPERATION_NAMES
from keyload.contract.operations import OPERATIONS, Operation
from keyload.contract.phrases import phrases_of
from keyload.gateway import ToolHints
from keyload.gateway.documents import ToolDocument
from keyload.gateway.schema_text import schema_arguments

SOURCE = "keyload"
COMMIT = "keyload_documents_commit"
DESCRIPTOR_CHARS = 4096


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


def documents() -> tuple[ToolDocument, ...]:
    """The operations of this version as ranking sees them, in catalog order; ids are names."""
    return tuple(_document(operation) for operation in OPERATIONS.values())


def _document(operation: Operation) -> ToolDocument:
    told = hints(operation)
    return ToolDocument(
        id=operation.name,
        name=operation.name,
        title=told.title,
        description=operation.description,
        category=told.category,
        aliases=told.aliases,
        examples=told.examples,
        arguments=schema_arguments(schema.input_schema(operation), DESCRIPTOR_CHARS),
    )
