"""`LexicalIndex`: ranks the tools of one generation for a query, without a model (GTW-19..22)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keyload.gateway.documents import ToolDocument
from keyload.gateway.lexical.corpus import Corpus, Vocabulary, phrases
from keyload.gateway.lexical.evidence import Candidates, Examiner
from keyload.gateway.lexical.names import Names
from keyload.gateway.lexical.reading import Reader
from keyload.gateway.lexical.results import Ranked, Scored

BESIDE_NAME = 0.89  # what a tool may reach that is not named, once another is


class LexicalIndex:
    """An immutable index over the documents of some tools. `rank` may be called from several threads."""

    def __init__(self, documents: Sequence[ToolDocument], low_confidence: float = 0.25) -> None:
        self._low = low_confidence
        ordered = sorted(documents, key=lambda document: document.id)
        self._ids = [document.id for document in ordered]
        vocabulary = Vocabulary()
        spoken = phrases(ordered)
        corpus = Corpus(ordered, spoken, vocabulary)
        self._names = Names(ordered, spoken)
        self._reader = Reader(vocabulary.numbers, corpus.idf, corpus.unknown, vocabulary.words)
        self._examiner = Examiner(ordered, corpus)

    def rank(self, text: str, limit: int = 15) -> Ranked:
        """The best tools for a text, at most `limit`; empty for an empty text or when nothing is found."""
        if not self._ids or not text.strip():
            return Ranked()
        found = self._examiner.examine(self._reader.read(text))
        scores = _scores(found)
        confidence = found.confidence if found else 0.0
        named = self._names.find(text)
        if named:
            scores = {tool: min(score, BESIDE_NAME) for tool, score in scores.items()}
            for tool, score in named.items():
                scores[tool] = max(score, scores.get(tool, 0.0))
            confidence = 1.0
        # tools are numbered in the order of their ids
        best = sorted(scores, key=lambda tool: (-scores[tool], tool))[:limit]
        scored = tuple(Scored(self._ids[tool], scores[tool]) for tool in best if scores[tool] > 0)
        return Ranked(scored, confidence, confidence < self._low)


def _scores(found: Candidates | None) -> Mapping[int, float]:
    return dict(zip(found.tools.tolist(), found.scores.tolist(), strict=True)) if found else {}
