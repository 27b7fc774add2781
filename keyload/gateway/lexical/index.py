"""`LexicalIndex`: ranks the tools of one generation for a query, without a model (GTW-19..22)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.process import cdist

from keyload.gateway.documents import ToolDocument
from keyload.gateway.lexical import evidence
from keyload.gateway.lexical.analysis import CONCEPT, SURFACE, Analyzer, runs
from keyload.gateway.lexical.fields import described, field_postings
from keyload.gateway.lexical.names import Names
from keyload.gateway.lexical.postings import Floats, Postings, weighted
from keyload.gateway.lexical.reading import Question, Reader, intents_of
from keyload.gateway.lexical.results import Ranked, Scored

CANDIDATES = 50
SURFACE_WEIGHT = 0.35
BESIDE_NAME = 0.89  # what a tool may reach that is not named, once another is


class _Vocabulary:
    """Numbers for terms, in the order of their first use."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.analyzer = Analyzer()
        self._texts: dict[str, list[int]] = {}

    def read(self, text: str) -> list[int]:
        """The terms of a text as numbers."""
        known = self._texts.get(text)
        if known is None:
            numbers = self.numbers
            known = [numbers.setdefault(term, len(numbers)) for term in self.analyzer.terms(text)]
            self._texts[text] = known
        return known

    def size(self) -> int:
        """How many terms there are so far."""
        return len(self.numbers)


class LexicalIndex:
    """An immutable index over the documents of some tools. `rank` may be called from several threads."""

    def __init__(self, documents: Sequence[ToolDocument], low_confidence: float = 0.25) -> None:
        self._low = low_confidence
        ordered = sorted(documents, key=lambda document: document.id)
        self._ids = [document.id for document in ordered]
        self._names = Names(ordered)
        vocabulary = _Vocabulary()
        self._fields = field_postings(ordered, vocabulary.read, vocabulary.size)
        count = max(vocabulary.size(), 1)
        tools = len(ordered)
        holders = self._fields.holders
        self._idf: Floats = np.log1p((tools - holders + 0.5) / (holders + 0.5)).astype(np.float32)
        self._title_texts = [" ".join(runs(d.name + " " + d.title)) for d in ordered]
        rows = [(t, [*vocabulary.read(d.name), *vocabulary.read(described(d))]) for t, d in enumerate(ordered)]
        stems = self._stems(vocabulary)
        self._descriptions = weighted(rows, tools, count)
        self._description_norms = np.array(
            [max(float(np.sqrt((self._idf[[t for t in set(row) if stems[t]]] ** 2).sum())), 1e-6) for _, row in rows],
            dtype=np.float32,
        )
        self._titles = self._title_postings(ordered, vocabulary, count)
        self._phrases, self._phrase_tools, self._phrase_norms = self._phrase_postings(ordered, vocabulary, count)
        self._intents = [_intents(document) for document in ordered]
        unknown = float(np.log1p((tools + 0.5) / 0.5))
        self._reader = Reader(vocabulary.numbers, self._idf, unknown, vocabulary.analyzer.words)

    def rank(self, text: str, limit: int = 15) -> Ranked:
        """The best tools for a text, at most `limit`; empty for an empty text or when nothing is found."""
        if not self._ids or not text.strip():
            return Ranked()
        named = self._names.find(text)
        question = self._reader.read(text); self._text = text
        tools, scores, confidence = self._score(question)
        if named:
            confidence = 1.0
            tools, scores = _with_names(named, tools, scores)
        order = np.lexsort((tools, -scores))[:limit]  # ids are sorted, so a tool's number orders as its id does
        scored = tuple(
            Scored(self._ids[tools[at]], float(scores[at])) for at in order if scores[at] > 0
        )
        return Ranked(scored, confidence, confidence < self._low)

    def _score(self, question: Question):
        found = self.features(question, self._text)
        if found is None:
            empty = np.zeros(0)
            return empty.astype(np.int64), empty, 0.0
        tools, features, confidence = found
        return tools, evidence.combine(features), confidence

    def features(self, question: Question, text: str):
        """Candidates and their evidence."""
        if not len(question.terms):
            return None
        slots = len(question.masses)
        impact, presence = self._fields.match(question.slots, question.terms, question.weights, 2 * slots)
        mass = question.masses
        total = float(mass.sum()) or 1.0
        field = mass @ impact[:slots] + SURFACE_WEIGHT * (question.surface_masses @ impact[slots:])
        field /= float(mass.sum() + SURFACE_WEIGHT * question.surface_masses.sum()) or 1.0
        phrase, many = self._phrase_scores(question, slots)
        first = field + evidence.FIRST_PHRASE * phrase
        found = np.flatnonzero(first > 0)
        if not len(found):
            return None
        if len(found) > CANDIDATES:
            found = found[np.lexsort((found, -first[found]))[:CANDIDATES]]
        present = presence[:slots, found]
        coverage = (mass @ present) / total
        _, titled = self._titles.match(question.slots, question.terms, question.weights, 2 * slots)
        titled = titled[:slots, found]
        named = mass @ titled
        name_share = np.minimum(1.0, named / self._title_mass[found])
        name_part = named / total
        _, described = self._descriptions.match(question.slots, question.terms, question.weights, 2 * slots)
        square = mass**2
        like = np.minimum((square @ described[:slots, found]) / (np.sqrt(square.sum()) * self._description_norms[found] + 1e-9), 1)
        intents = np.array([evidence.agreement(question.intents, self._intents[tool]) for tool in found])
        fuzzy = cdist([" ".join(runs(text))], [self._title_texts[tool] for tool in found], scorer=fuzz.token_set_ratio)[0] / 100
        features = np.stack(
            [field[found], phrase[found], coverage, name_share, name_part, intents, np.sqrt(name_share * name_part), like, many[found], fuzzy], axis=1
        )
        confidence = float(coverage.max())
        return found, features, confidence

    def _phrase_scores(self, question: Question, slots: int) -> Floats:
        """For each tool how near the query is to the nearest of its phrases: the cosine of their IDF weights."""
        best = np.zeros(len(self._ids), dtype=np.float32)
        if not self._phrases.unit_count:
            return best, best
        _, presence = self._phrases.match(question.slots, question.terms, question.weights, 2 * slots)
        square = question.masses**2
        norm = float(np.sqrt(square.sum())) or 1.0
        cosine = (square @ presence[:slots]) / (norm * self._phrase_norms)
        cosine = np.minimum(cosine, 1.0)
        np.maximum.at(best, self._phrase_tools, cosine)
        many = np.bincount(self._phrase_tools, cosine**2, minlength=len(self._ids))
        return best, np.sqrt(many) / 2

    def _title_postings(self, documents: Sequence[ToolDocument], vocabulary: _Vocabulary, count: int) -> Postings:
        rows = [
            (tool, [*vocabulary.read(document.name), *vocabulary.read(document.title)])
            for tool, document in enumerate(documents)
        ]
        stems = self._stems(vocabulary)
        self._title_mass = np.array(
            [max(float(self._idf[[t for t in set(row) if stems[t]]].sum()), 1e-6) for _, row in rows],
            dtype=np.float32,
        )
        return weighted(rows, len(documents), count)

    def _phrase_postings(self, documents: Sequence[ToolDocument], vocabulary: _Vocabulary, count: int):
        rows: list[tuple[int, list[int]]] = []
        tools: list[int] = []
        for tool, document in enumerate(documents):
            for text in dict.fromkeys((document.title, *document.aliases, *document.examples)):
                rows.append((len(rows), vocabulary.read(text)))
                tools.append(tool)
        stems = self._stems(vocabulary)
        norms = np.array(
            [max(float(np.sqrt((self._idf[[t for t in set(row) if stems[t]]] ** 2).sum())), 1e-6) for _, row in rows],
            dtype=np.float32,
        )
        return weighted(rows, len(rows), count), np.array(tools, dtype=np.int64), norms

    @staticmethod
    def _stems(vocabulary: _Vocabulary) -> list[bool]:
        return [not term.startswith((SURFACE, CONCEPT)) for term in vocabulary.numbers]


def _intents(document: ToolDocument) -> frozenset[str]:
    """What a tool does, by the verb its title begins with, else its name, else its description."""
    for text in (document.title, document.name, document.description):
        words = list(runs(text))
        for part in (words[:1], words if text != document.description else words[:4]):
            found = intents_of(part)
            if found:
                return found
    return frozenset()


def _with_names(named: dict[int, float], tools, scores):
    """Named tools first; the others keep their order below them."""
    best = dict(zip(tools.tolist(), (np.minimum(scores, BESIDE_NAME)).tolist(), strict=True))
    for tool, score in named.items():
        best[tool] = max(score, best.get(tool, 0.0))
    return np.array(list(best), dtype=np.int64), np.array(list(best.values()))
