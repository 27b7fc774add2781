"""What the ranking and the graph see of a tool: its texts, apart from where it comes from and how it runs."""

from __future__ import annotations

import msgspec


class Argument(msgspec.Struct, frozen=True):
    """A property of a tool's input schema (GTW-13); `values` are those of its enumeration."""

    name: str
    text: str = ""
    values: tuple[str, ...] = ()
    required: bool = False


class ToolDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of one tool (GTW-13). `aliases` are other names, `examples` tasks in a user's words."""

    id: str
    name: str
    title: str
    description: str
    category: str = ""
    aliases: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    arguments: tuple[Argument, ...] = ()
