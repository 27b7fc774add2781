"""What ranking sees of a tool: its texts, field by field (GTW-13, GTW-19)."""

from __future__ import annotations

import msgspec


class Argument(msgspec.Struct, frozen=True):
    """One property of a tool's input schema: its name, its description and the values it allows."""

    name: str
    text: str = ""
    values: tuple[str, ...] = ()
    required: bool = False


class ToolDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The descriptor of one tool, without its schemas."""

    id: str
    name: str
    title: str
    description: str
    category: str = ""
    aliases: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    arguments: tuple[Argument, ...] = ()
