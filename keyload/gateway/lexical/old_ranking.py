"""Lexical ranking over the tool graph: exact names, exact aliases, then BM25F over the descriptors' fields.

Scores are finite, lie in 0..1 and depend on nothing but the tools and the query (GTW-24). A query that no
tool covers well enough gets no tool at all: a made-up match would be worse than none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from keyload.gateway.lexical.old_graph import ALIAS, NAME, ToolGraph
from keyload.gateway.lexical.old_words import Stemmer, identifiers, phrase

NAME_SCORE = 1.0
ALIAS_SCORE = 0.99
LEXICAL_CEILING = 0.9
SATURATION = 1.5
LOW_CONFIDENCE = 0.2  # least share of the query's weight that a tool must cover
TAIL = 0.3  # tools below this share of the best score are left out
MAX_QUERY_TERMS = 256
MAX_ALIAS_WORDS = 16


class Scored(msgspec.Struct, frozen=True):
    """A tool and how well it fits, 0..1."""

    tool_id: str
    score: float


class Ranking:
    """Ranks the tools of one graph for a query."""

    def __init__(self, graph: ToolGraph) -> None:
        self._graph = graph
        self._unknown = self._idf(1)

    def rank(self, query: str) -> list[Scored]:
        """All tools that fit, best first, equal scores by tool id; empty when nothing fits."""
        scores = dict(self._lexical(query))
        for tool_id, score in self._exact(query):
            scores[tool_id] = max(score, scores.get(tool_id, 0.0))
        best = max(scores.values(), default=0.0)
        ranked = [Scored(tool_id, score) for tool_id, score in scores.items() if score >= TAIL * best]
        return sorted(ranked, key=lambda scored: (-scored.score, scored.tool_id))

    def _exact(self, query: str) -> Iterator[tuple[str, float]]:
        """Tools whose name or id stands in the query, and tools one of whose aliases it is or holds."""
        for name in identifiers(query):
            for tool_id in self._graph.linked(NAME, name):
                yield tool_id, NAME_SCORE
        whole = phrase(query)
        for part in _parts(whole):
            score = ALIAS_SCORE if part == whole else LEXICAL_CEILING + 0.08 * len(part) / len(whole)
            if part == whole or " " in part:
                for tool_id in self._graph.linked(ALIAS, part):
                    yield tool_id, score

    def _lexical(self, query: str) -> Iterator[tuple[str, float]]:
        """BM25F scores as a share of what a perfect match would reach, times LEXICAL_CEILING."""
        total = 0.0
        gained: dict[str, float] = {}
        covered: dict[str, float] = {}
        for term in list(dict.fromkeys(Stemmer().stems(query)))[:MAX_QUERY_TERMS]:
            tools = self._graph.described_by(term)
            idf = self._idf(len(tools)) if tools else self._unknown
            total += idf
            for tool_id, weight in tools.items():
                gained[tool_id] = gained.get(tool_id, 0.0) + idf * weight / (weight + SATURATION)
                covered[tool_id] = covered.get(tool_id, 0.0) + idf
        for tool_id, gain in gained.items():
            if covered[tool_id] >= LOW_CONFIDENCE * total:
                yield tool_id, LEXICAL_CEILING * gain / total

    def _idf(self, holders: int) -> float:
        count = max(len(self._graph.tools), holders)
        return math.log1p((count - holders + 0.5) / (holders + 0.5))


def _parts(whole: str) -> Iterator[str]:
    """The query and all runs of its words short enough to be an alias."""
    yield whole
    words = whole.split()[:MAX_QUERY_TERMS]
    for start in range(len(words)):
        for end in range(start + 1, min(start + MAX_ALIAS_WORDS, len(words)) + 1):
            yield " ".join(words[start:end])
