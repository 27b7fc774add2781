"""The graph generated from the descriptors: tools, their categories, and the names and terms that lead there.

Nodes are tuples `(kind, name)`. Edges run from a term to the tools it describes (attribute `weight`), from an
alias or a name to its tools, from a tool to its category (GTW-23).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

import networkx

from keyload.gateway.lexical.old_words import Stemmer, phrase

Tool = Any

TOOL, CATEGORY, ALIAS, NAME, TERM = "tool", "category", "alias", "name", "term"
Node = tuple[str, str]

# weight and length normalisation of each field of a descriptor
FIELDS: dict[str, tuple[float, float]] = {
    "name": (3.0, 0.3),
    "title": (3.0, 0.3),
    "alias": (2.5, 0.1),
    "category": (1.5, 0.0),
    "description": (1.5, 0.5),
    "argument": (0.3, 0.75),
}


class ToolGraph:
    """An immutable graph over one generation of tools."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools: dict[str, Tool] = {tool.id: tool for tool in tools}
        self._graph: Any = networkx.DiGraph()
        for tool in self.tools.values():
            self._add_links(tool)
        self._add_terms()

    def linked(self, kind: str, name: str) -> list[str]:
        """Ids of the tools an alias or a name leads to, in the order of ids; empty for an unknown one."""
        node = (kind, name)
        if node not in self._graph:
            return []
        return sorted(target for kind_, target in self._graph.successors(node) if kind_ == TOOL)

    def described_by(self, term: str) -> dict[str, float]:
        """Tools that a term describes, with the damped weight of its fields; empty when unknown."""
        node = (TERM, term)
        if node not in self._graph:
            return {}
        edges = cast("dict[Node, dict[str, float]]", self._graph[node])
        return {tool: data["weight"] for (_, tool), data in edges.items()}

    def category(self, tool_id: str) -> str:
        """The category a tool stands in."""
        return next(name for kind, name in self._graph.successors((TOOL, tool_id)) if kind == CATEGORY)

    def _add_links(self, tool: Tool) -> None:
        node = (TOOL, tool.id)
        for name in {tool.name.lower(), tool.id.lower()}:
            self._graph.add_edge((NAME, name), node)
        for alias in tool.hints.aliases:
            self._graph.add_edge((ALIAS, phrase(alias)), node)
        self._graph.add_edge(node, (CATEGORY, tool.hints.category))

    def _add_terms(self) -> None:
        """Join terms and tools: the weight sums the fields, each damped by its length against the average."""
        stemmer = Stemmer()
        descriptors = {
            tool.id: {field: Counter(words) for field, words in _fields(tool, stemmer)}
            for tool in self.tools.values()
        }
        for field, (weight, damping) in FIELDS.items():
            lengths = {tool: fields[field].total() for tool, fields in descriptors.items()}
            average = math.fsum(lengths.values()) / max(len(lengths), 1) or 1.0
            for tool, fields in descriptors.items():
                share = weight / (1 - damping + damping * lengths[tool] / average)
                for term, count in fields[field].items():
                    self._strengthen((TERM, term), (TOOL, tool), share * count)

    def _strengthen(self, term: Node, tool: Node, weight: float) -> None:
        if self._graph.has_edge(term, tool):
            self._graph[term][tool]["weight"] += weight
        else:
            self._graph.add_edge(term, tool, weight=weight)


def _fields(tool: Tool, stemmer: Stemmer) -> Iterator[tuple[str, list[str]]]:
    texts = {
        "name": [tool.name],
        "title": [tool.hints.title],
        "alias": tool.hints.aliases,
        "category": [tool.hints.category],
        "description": [tool.description],
        "argument": [text for pair in tool.arguments for text in pair],
    }
    for field, parts in texts.items():
        yield field, [word for part in parts for word in stemmer.stems(part)]
