"""Lexical ranking: which tools the words of a text mean."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import msgspec

from keyload.gateway.documents import ToolDocument
from keyload.gateway.lexical.old_graph import ToolGraph
from keyload.gateway.lexical.old_ranking import Ranking


class Scored(msgspec.Struct, frozen=True):
    """A tool and how well it fits, 0..1."""

    tool_id: str
    score: float


class Ranked(msgspec.Struct, frozen=True):
    """Tools, best first."""

    scored: tuple[Scored, ...]
    confidence: float
    low: bool


class LexicalIndex:
    """Ranks documents."""

    def __init__(self, documents: Iterable[ToolDocument], low_confidence: float = 0.25) -> None:
        self._ranking = Ranking(ToolGraph(_old(document) for document in documents))

    def rank(self, text: str, limit: int = 15) -> Ranked:
        """The best documents."""
        found = tuple(Scored(old.tool_id, old.score) for old in self._ranking.rank(text)[:limit])
        return Ranked(found, 1.0 if found else 0.0, not found)


def _old(document: ToolDocument) -> Any:
    hints = SimpleNamespace(title=document.title, category=document.category, aliases=document.aliases)
    arguments = [(argument.name, argument.text) for argument in document.arguments]
    return SimpleNamespace(
        id=document.id, name=document.name, description=document.description, hints=hints, arguments=arguments
    )
