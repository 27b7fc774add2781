"""What ranking gives back."""

from __future__ import annotations

import msgspec


class Scored(msgspec.Struct, frozen=True):
    """A tool and how well it fits, 0..1."""

    tool_id: str
    score: float


class Ranked(msgspec.Struct, frozen=True):
    """Tools best first, equal scores by tool id, each once.

    `confidence` is the share of the query's IDF mass that the best tools cover, 0..1; `low` says that it is
    under the mark, so that no tool may have anything to do with the query (GTW-22).
    """

    scored: tuple[Scored, ...] = ()
    confidence: float = 0.0
    low: bool = True
