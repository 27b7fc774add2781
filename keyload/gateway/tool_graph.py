"""`ToolGraph`: the tools and what joins them, as a networkx graph (GTW-23).

Related tools, next steps, categories and explanations come from it; searching does not walk it.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import msgspec
import networkx

from keyload.gateway import graph_exports, tool_markdown
from keyload.gateway.errors import GraphError, ToolNotFound
from keyload.gateway.links import (
    ABOUT,
    ALIAS,
    ARGUMENT,
    CALLED,
    CATEGORY,
    FROM,
    IN,
    RELATED,
    TAKES,
    TERM,
    THEN,
    TOOL,
    Link,
    Node,
    ToolLinks,
    words,
)
from keyload.gateway.tools import Tool

_SHARED = {CATEGORY: 1.0, ARGUMENT: 0.5, TERM: 1.0, ALIAS: 2.0}  # how much it means to share such a node
_SAYS = {
    FROM: "comes from the source",
    IN: "stands in the category",
    TAKES: "takes the argument",
    CALLED: "is also called",
    ABOUT: "is about",
    RELATED: "is related to",
    THEN: "is followed by",
}


class Related(msgspec.Struct, frozen=True):
    """A tool near another one, how near (0..1), and why."""

    tool_id: str
    score: float
    reasons: tuple[str, ...]


class ToolGraph:
    """The graph of one generation; everything it answers is deterministic."""

    def __init__(self, tools: Iterable[Tool], links: ToolLinks) -> None:
        self._tools = {tool.id: tool for tool in tools}
        self._links = links
        self.graph: Any = networkx.DiGraph()
        """The networkx graph: nodes are tuples (kind, name), edges have the attribute `relation`."""
        for tool in self._tools.values():
            self.graph.add_node((TOOL, tool.id), title=tool.title)
        for link in links:
            self.graph.add_edge(link.origin, link.target, relation=link.relation)

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """Categories with their tools, both in registration order."""
        found: dict[str, list[str]] = {}
        for link in self._links:
            if link.relation == IN:
                found.setdefault(link.target[1], []).append(link.origin[1])
        return {name: tuple(tools) for name, tools in found.items()}

    def next_steps(self, tool_id: str) -> tuple[str, ...]:
        """Tools that its owner names as next. Raises ToolNotFound."""
        self._known(tool_id)
        return self._links.leads_to(tool_id, THEN)

    def related(self, tool_id: str, limit: int = 5) -> tuple[Related, ...]:
        """The nearest tools: those its owner relates to it, then those that share most with it.

        What few tools share counts more than what many share. Raises ToolNotFound.
        """
        self._known(tool_id)
        node = (TOOL, tool_id)
        scores: dict[str, float] = {}
        reasons: dict[str, list[str]] = {}
        for shared in sorted(self.graph.successors(node)):
            weight = _SHARED.get(shared[0])
            holders = [] if weight is None else sorted(self.graph.predecessors(shared))
            for _, other in holders:
                if other != tool_id:
                    nearness = cast("float", weight) / math.log2(1 + len(holders))
                    scores[other] = scores.get(other, 0.0) + nearness
                    reasons.setdefault(other, []).append(f"{shared[0]} {shared[1]}")
        best = max(scores.values(), default=1.0)
        near = {other: 0.9 * score / best for other, score in scores.items()}
        for other in self._links.leads_to(tool_id, RELATED):
            near[other] = 1.0
            reasons.setdefault(other, []).insert(0, "its owner relates them")
        order = sorted(near, key=lambda other: (-near[other], other))[: max(0, limit)]
        return tuple(Related(other, near[other], tuple(reasons[other])) for other in order)

    def explain(self, tool_id: str, text: str = "") -> tuple[str, ...]:
        """What is known of a tool, a sentence each; with a text only what shares a word with it.

        Raises ToolNotFound.
        """
        self._known(tool_id)
        asked = set(words(text))
        node = (TOOL, tool_id)
        sentences: list[str] = []
        for target in self.graph.successors(node):
            if not asked or asked & set(words(self._label(target))):
                sentences.append(self._sentence(node, self.graph.edges[node, target]["relation"], target))
        return tuple(sentences)

    def connection(self, first_id: str, second_id: str) -> tuple[str, ...]:
        """How two tools hang together: the shortest way between them, a sentence a step; empty when none.

        Raises ToolNotFound.
        """
        self._known(first_id)
        self._known(second_id)
        try:
            path = networkx.shortest_path(self._undirected, (TOOL, first_id), (TOOL, second_id))
        except networkx.NetworkXNoPath:
            return ()
        except networkx.NetworkXException as error:
            raise GraphError(f"The graph could not answer: {type(error).__name__}.") from error
        return tuple(self._step(first, second) for first, second in pairwise(path))

    def markdown(self) -> dict[str, str]:
        """The documents by file name: one for each tool and `index.md`, linked with each other."""
        files = tool_markdown.file_names(self._tools)
        documents = {
            files[tool_id]: tool_markdown.document(tool, self._tools, self._links, files)
            for tool_id, tool in self._tools.items()
        }
        return {"index.md": graph_exports.index(self.categories, self._tools, files), **documents}

    def mermaid(self) -> str:
        """Tools in their categories, with related tools and next steps, as a Mermaid flowchart."""
        return graph_exports.mermaid(self.categories, self._tools, self._edges(RELATED, THEN))

    def json_ld(self) -> dict[str, Any]:
        """The whole graph as JSON-LD, with plain JSON values."""
        return graph_exports.json_ld(self._tools, list(self._links))

    @cached_property
    def _undirected(self) -> Any:
        """A copy, because the order of neighbours in a view differs from process to process."""
        return self.graph.to_undirected()

    def _edges(self, *relations: str) -> list[Link]:
        return [link for link in self._links if link.relation in relations]

    def _step(self, first: Node, second: Node) -> str:
        if self.graph.has_edge(first, second):
            return self._sentence(first, self.graph.edges[first, second]["relation"], second)
        return self._sentence(second, self.graph.edges[second, first]["relation"], first)

    def _sentence(self, origin: Node, relation: str, target: Node) -> str:
        return f"{self._label(origin)} {_SAYS[relation]} {self._label(target)}."

    def _label(self, node: Node) -> str:
        return self._tools[node[1]].title if node[0] == TOOL else node[1]

    def _known(self, tool_id: str) -> None:
        if tool_id not in self._tools:
            raise ToolNotFound("There is no tool with this id.")
