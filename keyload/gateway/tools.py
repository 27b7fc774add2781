"""`Tool`: one tool of one source as the gateway keeps it, and how it is made within its bounds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from keyload.gateway.documents import ToolDocument
from keyload.gateway.errors import RegistrationError
from keyload.gateway.hints import ToolHints
from keyload.gateway.schema_text import required_names, schema_arguments

MAX_NAME_CHARS = 256
MAX_SCHEMA_BYTES = 1024 * 1024


class CallContext(msgspec.Struct, frozen=True):
    """What an invocation knows besides its arguments (GTW-34)."""

    query: str = ""
    context_summary: str = ""
    context: Mapping[str, Any] = {}

    @property
    def meta(self) -> dict[str, Any]:
        """The members that are not empty, as they travel in `_meta` of an MCP call."""
        values = {"query": self.query, "contextSummary": self.context_summary, "context": dict(self.context)}
        return {f"keyload.gateway/{name}": value for name, value in values.items() if value}


class Output(msgspec.Struct, frozen=True):
    """What running a tool gave: its output, the MCP result it came in, and the text of a reported error."""

    value: Any = None
    mcp_result: Any = None
    error: str = ""


ToolRunner = Callable[[Mapping[str, Any], CallContext], Awaitable[Output]]
"""Runs one tool; raises on failure."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. `id` is `source_id:name` (GTW-7); its schemas are JSON texts."""

    id: str
    source_id: str
    name: str
    description: str
    hints: ToolHints
    input_schema: bytes
    output_schema: bytes
    required: tuple[str, ...]
    document: ToolDocument
    run: ToolRunner
    size: int
    """Bytes of schemas and characters of texts: what it counts in `max_metadata_bytes`."""

    @property
    def title(self) -> str:
        """The display name; the name when none was given."""
        return self.hints.title or self.name

    @property
    def category(self) -> str:
        """The category it stands in: the one its owner gave it, else its source."""
        return self.hints.category or self.source_id


def make_tool(
    source_id: str,
    name: str,
    description: str,
    input_schema: Mapping[str, Any],
    output_schema: Mapping[str, Any],
    hints: ToolHints,
    run: ToolRunner,
    text_limit: int,
) -> Tool:
    """Build a tool. Raises RegistrationError for an empty or long name, texts that are not Unicode or above
    `text_limit` characters, a schema that is not one of an object, or a schema of more than 1 MiB."""
    if not source_id or not name.strip():
        raise RegistrationError("A tool needs a source id and a name.")
    if len(name) > MAX_NAME_CHARS:
        raise RegistrationError(f"A tool's name has at most {MAX_NAME_CHARS} characters.")
    try:
        "".join((name, description, hints.title, hints.category, *hints.phrases)).encode()
    except UnicodeEncodeError:  # half a pair of surrogates, which no answer could carry as JSON
        raise RegistrationError("The texts of a tool are not valid Unicode.") from None
    texts = sum(map(len, (name, description, hints.title, hints.category, *hints.aliases)))
    if texts > text_limit:
        raise RegistrationError(f"The texts of a tool pass {text_limit} characters.")
    if input_schema.get("type", "object") != "object":
        raise RegistrationError("The input schema of a tool describes an object.")
    schemas = [_encoded(schema) for schema in (input_schema, output_schema)]
    if max(map(len, schemas)) > MAX_SCHEMA_BYTES:
        raise RegistrationError(f"A schema of a tool has at most {MAX_SCHEMA_BYTES} bytes.")
    tool_id = f"{source_id}:{name}"
    return Tool(
        id=tool_id,
        source_id=source_id,
        name=name,
        description=description,
        hints=hints,
        input_schema=schemas[0],
        output_schema=schemas[1],
        required=required_names(input_schema),
        document=ToolDocument(
            id=tool_id,
            name=name,
            title=hints.title or name,
            description=description,
            category=hints.category,
            aliases=hints.aliases,
            examples=hints.examples,
            arguments=schema_arguments(input_schema, text_limit - texts),
        ),
        run=run,
        size=texts + sum(map(len, hints.phrases)) + len(schemas[0]) + len(schemas[1]),
    )


def descriptor(document: ToolDocument, limit: int) -> str:
    """The descriptor as one text of at most `limit` characters, what is most telling first (GTW-13)."""
    parts = [document.name, document.title, document.description, document.category, *document.aliases]
    for argument in sorted(document.arguments, key=lambda argument: not argument.required):
        parts += [f"{argument.name}: {argument.text}" if argument.text else argument.name, *argument.values]
    parts += document.examples
    return "\n".join(part for part in parts if part)[:limit]


def _encoded(schema: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(schema)
    except (TypeError, ValueError, RecursionError, OverflowError):
        raise RegistrationError("A schema of a tool is not JSON.") from None
