"""The graph as plain nodes and links, generated from the descriptors and hints of the tools (GTW-23).

It is all that searching needs; `tool_graph.py` makes it a networkx graph for those who ask more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from keyload.gateway.tools import Tool

TOOL, SOURCE, CATEGORY, ARGUMENT, ALIAS, TERM = "tool", "source", "category", "argument", "alias", "term"
Node = tuple[str, str]  # (kind, name); the name of a tool is its id

FROM, IN, TAKES, CALLED, ABOUT, RELATED, THEN = (
    "from",
    "in",
    "takes",
    "called",
    "about",
    "related",
    "then",
)
MAX_TERMS = 24
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_IDENTIFIER = re.compile(r"[\w:.\-]+")


class Link(msgspec.Struct, frozen=True):
    """A link that leads from one node to another, and what it means."""

    origin: Node
    relation: str
    target: Node


class ToolLinks:
    """All links of one generation, in a fixed order."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.id: tool for tool in tools}
        self._names: dict[str, list[str]] = {}
        self._aliases: dict[str, list[str]] = {}
        for tool in self._tools.values():
            for name in dict.fromkeys((tool.name.lower(), tool.id.lower())):
                self._names.setdefault(name, []).append(tool.id)
            for alias in dict.fromkeys(map(phrase, tool.hints.aliases)):
                self._aliases.setdefault(alias, []).append(tool.id)

    def __iter__(self) -> Iterator[Link]:
        """Every link, tool by tool in registration order."""
        for tool in self._tools.values():
            yield from self._of(tool)

    def named(self, text: str) -> tuple[str, ...]:
        """Tools that a text names: it is a name or an alias, or an unmistakable name stands in it."""
        whole = text.strip().lower()
        found = [*self._names.get(whole, ()), *self._aliases.get(phrase(text), ())]
        for run in _IDENTIFIER.findall(whole):
            name = run.strip(".:-")
            if not name.isalpha():  # a plain word inside a sentence names nothing
                found += self._names.get(name, ())
        return tuple(dict.fromkeys(found))

    def leads_to(self, tool_id: str, relation: str) -> tuple[str, ...]:
        """Tools that a tool's owner relates to it, or names as next steps; unknown ones are left out.

        `relation` is `RELATED` or `THEN`.
        """
        tool = self._tools[tool_id]
        named = tool.hints.related if relation == RELATED else tool.hints.next_steps
        ids = (self._resolved(tool, name) for name in named)
        return tuple(dict.fromkeys(other for other in ids if other is not None and other != tool_id))

    def _resolved(self, tool: Tool, name: str) -> str | None:
        return next((known for known in (name, f"{tool.source_id}:{name}") if known in self._tools), None)

    def _of(self, tool: Tool) -> Iterator[Link]:
        origin = (TOOL, tool.id)
        yield Link(origin, FROM, (SOURCE, tool.source_id))
        yield Link(origin, IN, (CATEGORY, tool.category))
        for argument in dict.fromkeys(argument.name for argument in tool.document.arguments):
            yield Link(origin, TAKES, (ARGUMENT, argument))
        for alias in dict.fromkeys(map(phrase, tool.hints.aliases)):
            yield Link(origin, CALLED, (ALIAS, alias))
        for term in list(dict.fromkeys(words(f"{tool.name} {tool.title}")))[:MAX_TERMS]:
            yield Link(origin, ABOUT, (TERM, term))
        for relation in (RELATED, THEN):
            for other in self.leads_to(tool.id, relation):
                yield Link(origin, relation, (TOOL, other))


def words(text: str) -> list[str]:
    """The words of a text in lower case; camelCase and snake_case are split."""
    return _WORD.findall(_HUMP.sub(" ", text).lower())


def phrase(text: str) -> str:
    """A text as its lower-case words, one space between: texts with the same phrase are one alias."""
    return " ".join(_WORD.findall(text.lower()))
