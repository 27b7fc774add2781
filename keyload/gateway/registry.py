"""Registration of tools: what a tool is, what it carries, and the bounds checked before it is indexed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from keyload.gateway.documents import Argument, ToolDocument
from keyload.gateway.schema_text import schema_arguments

ToolFunction = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""A local tool: takes its arguments, returns its output, raises on failure."""


class GatewayError(Exception):
    """Base of the failures of this library; the text is safe to show."""


class RegistrationError(GatewayError):
    """A tool breaks a bound, repeats a name, or has an empty name (GTW-6, GTW-39)."""


class ToolNotFound(GatewayError):
    """There is no tool with that id (GTW-33)."""


class SearchTextTooLong(GatewayError):
    """The search text passes `max_search_chars` (GTW-39)."""


class GatewayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one gateway (GTW-13, GTW-39); hosts may set lower values."""

    max_tools: int = 8192
    max_search_chars: int = 8192
    max_metadata_bytes: int = 16 * 1024 * 1024
    descriptor_text_limit: int = 4096


class ToolHints(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner of a tool knows beyond its schema (GTW-23); effect hints authorize nothing."""

    title: str = ""
    category: str = ""
    aliases: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One registered tool. `id` is `source_id:name` (GTW-7); its schemas are JSON texts."""

    id: str
    source_id: str
    name: str
    description: str
    hints: ToolHints
    input_schema: bytes
    output_schema: bytes
    arguments: tuple[Argument, ...]
    function: ToolFunction

    @property
    def title(self) -> str:
        """The display name; the name when none was given."""
        return self.hints.title or self.name

    @property
    def document(self) -> ToolDocument:
        """What the ranking sees of it."""
        return ToolDocument(
            id=self.id,
            name=self.name,
            title=self.title,
            description=self.description,
            category=self.hints.category,
            aliases=self.hints.aliases,
            examples=self.hints.examples,
            arguments=self.arguments,
        )


class GatewayRegistry:
    """Tools in registration order; `version` grows with every change and dates an index."""

    def __init__(self, options: GatewayOptions) -> None:
        self.version = 0
        self._options = options
        self._tools: dict[str, Tool] = {}
        self._metadata_bytes = 0

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools as registered so far."""
        return tuple(self._tools.values())

    def add_tool(
        self,
        source_id: str,
        function: ToolFunction,
        *,
        name: str,
        description: str,
        input_schema: Mapping[str, Any],
        output_schema: Mapping[str, Any] | None = None,
        hints: ToolHints | None = None,
    ) -> Tool:
        """Register a local function as the tool `source_id:name`.

        Raises `RegistrationError` for an empty or repeated name and when a bound of the options would be
        passed; then nothing is registered.
        """
        hints = hints or ToolHints()
        texts = self._descriptor(name, description, hints)
        if not source_id or not name:
            raise RegistrationError("A tool needs a source id and a name.")
        tool = Tool(
            id=f"{source_id}:{name}",
            source_id=source_id,
            name=name,
            description=description,
            hints=hints,
            input_schema=msgspec.json.encode(input_schema),
            output_schema=msgspec.json.encode(output_schema or {}),
            arguments=schema_arguments(input_schema, self._options.descriptor_text_limit - texts),
            function=function,
        )
        self._admit(tool, texts)
        return tool

    def _descriptor(self, name: str, description: str, hints: ToolHints) -> int:
        """Characters of the texts given for a tool; RegistrationError above the limit."""
        size = (
            len(name)
            + len(description)
            + len(hints.title)
            + len(hints.category)
            + sum(map(len, hints.aliases))
        )
        if size > self._options.descriptor_text_limit:
            raise RegistrationError(
                f"The texts of a tool pass {self._options.descriptor_text_limit} characters."
            )
        return size

    def _admit(self, tool: Tool, texts: int) -> None:
        size = texts + len(tool.input_schema) + len(tool.output_schema)
        if tool.id in self._tools:
            raise RegistrationError(f"The source has this tool already: {tool.id}.")
        if len(self._tools) >= self._options.max_tools:
            raise RegistrationError(f"A gateway holds at most {self._options.max_tools} tools.")
        if self._metadata_bytes + size > self._options.max_metadata_bytes:
            raise RegistrationError(f"The metadata passes {self._options.max_metadata_bytes} bytes.")
        self._tools[tool.id] = tool
        self._metadata_bytes += size
        self.version += 1
