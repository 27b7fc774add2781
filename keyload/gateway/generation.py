"""`Generation`: one immutable index over all tools; running calls keep theirs (GTW-10)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from keyload.gateway.diagnostics import Diagnostic
from keyload.gateway.links import ToolLinks
from keyload.gateway.tools import Tool

if TYPE_CHECKING:
    from keyload.gateway.lexical import LexicalIndex
    from keyload.gateway.tool_graph import ToolGraph
    from keyload.gateway.vectors import VectorIndex


class Generation:
    """Tools by id in registration order, what ranks them, and what went wrong while they were loaded.

    `version` is that of the registry when the build began. `fingerprint` names the generator that was asked
    for vectors, also when it failed; `vectors` is None when there are none.
    """

    def __init__(
        self,
        version: int,
        tools: Iterable[Tool],
        index: LexicalIndex,
        vectors: VectorIndex | None,
        fingerprint: str | None,
        diagnostics: tuple[Diagnostic, ...],
    ) -> None:
        self.version = version
        self.tools = {tool.id: tool for tool in tools}
        self.documents = tuple(tool.document for tool in self.tools.values())
        self.index = index
        self.vectors = vectors
        self.fingerprint = fingerprint
        self.diagnostics = diagnostics

    @property
    def lacks_vectors(self) -> bool:
        """Whether a generator was there and gave no vectors."""
        return self.fingerprint is not None and self.vectors is None and bool(self.tools)

    def noting(self, problem: Diagnostic) -> Generation:
        """The same generation, with one more diagnostic."""
        others = tuple(known for known in self.diagnostics if known != problem)
        return Generation(
            self.version, self.tools.values(), self.index, self.vectors, self.fingerprint, (*others, problem)
        )

    @cached_property
    def links(self) -> ToolLinks:
        """Nodes and links of the graph, made when first asked for."""
        return ToolLinks(self.tools.values())

    @cached_property
    def graph(self) -> ToolGraph:
        """The graph, made when first asked for (GTW-23)."""
        from keyload.gateway.tool_graph import ToolGraph

        return ToolGraph(self.tools.values(), self.links)

    @cached_property
    def names(self) -> dict[str, tuple[Tool, ...]]:
        """Tools by name."""
        found: dict[str, list[Tool]] = {}
        for tool in self.tools.values():
            found.setdefault(tool.name, []).append(tool)
        return {name: tuple(tools) for name, tools in found.items()}
