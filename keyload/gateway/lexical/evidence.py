"""The second stage: what speaks for each of the best candidates, and how it is weighed (GTW-20)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from keyload.gateway.documents import ToolDocument
from keyload.gateway.lexical.analysis import runs
from keyload.gateway.lexical.corpus import SURFACE_IN_PHRASE, Corpus
from keyload.gateway.lexical.fields import described
from keyload.gateway.lexical.postings import Floats
from keyload.gateway.lexical.reading import Question, intents_of

CANDIDATES = 50
FULL = 0.7  # from this weight in its fields on a word stands for a tool
SPOKEN = 2.0  # power of the weight in phrases: what is said in one or two of many is chance
SURFACE_WEIGHT = 1.2
FIRST_BAG = 0.4
FIRST_PHRASE = 0.9
WEIGHTS = {
    "core": 0.165,  # BM25F over the fields
    "bag": 0.105,  # how many of the tool's phrases have the words
    "phrase": 0.067,  # the nearest phrase
    "many": 0.055,  # how many phrases are near
    "coverage": 0.17,  # how much of the query is found at all
    "name share": 0.05,  # how much of name and title is in the query
    "name part": 0.04,  # how much of the query is in name and title
    "name both": 0.048,
    "intent": 0.024,  # whether it does what the verbs ask for
    "likeness": 0.108,  # of the description
    "letters of the description": 0.084,
    "letters of the phrases": 0.084,
}
"""What the kinds of evidence weigh, fitted by likelihood to the half of the public sets that may be tuned on
and to the development set of our own catalogue.
"""

_WEIGHTS = np.array(list(WEIGHTS.values()), dtype=np.float64)
Numbers = npt.NDArray[np.intp]


class Candidates(msgspec.Struct, frozen=True):
    """The best tools of the first stage by number, in ascending order, with rows of evidence, each 0..1."""

    tools: Numbers
    evidence: Floats
    confidence: float

    @property
    def scores(self) -> npt.NDArray[np.float64]:
        """The evidence in one number each, 0..1."""
        return np.clip(self.evidence @ _WEIGHTS, 0.0, 1.0)


class Examiner:
    """Finds candidates for a question and gathers what speaks for them."""

    def __init__(self, documents: Sequence[ToolDocument], corpus: Corpus) -> None:
        self._corpus = corpus
        self._intents = [_intents(document) for document in documents]

    def examine(self, question: Question) -> Candidates | None:
        """The candidates; None when no word of the question is known."""
        corpus = self._corpus
        count = len(question.masses)
        if not len(question.terms):
            return None
        mass = np.concatenate((question.masses, SURFACE_WEIGHT * question.surface_masses))
        whole = float(mass.sum()) or 1.0
        core = corpus.fields.match(question.slots, question.terms, question.weights, 2 * count)
        bag = corpus.bag.match(question.slots, question.terms, question.weights, 2 * count)
        core_scores = mass @ core / whole
        bag_scores = mass @ bag / whole
        phrase, many = self._phrases(question, count)
        first = core_scores + FIRST_BAG * bag_scores + FIRST_PHRASE * phrase
        tools = np.flatnonzero(first > 0)
        if len(tools) > CANDIDATES:
            tools = np.sort(tools[np.lexsort((tools, -first[tools]))[:CANDIDATES]])
        if not len(tools):
            return None
        present = np.maximum(core[:count, tools] > 0, bag[:count, tools])
        stands_for = np.maximum(np.minimum(core[:count, tools] / FULL, 1.0), bag[:count, tools] ** SPOKEN)
        rows = np.stack(
            (
                core_scores[tools],
                bag_scores[tools],
                phrase[tools],
                many[tools],
                question.masses @ present / (float(question.masses.sum()) or 1.0),
                *self._named(question, count, tools),
                np.array([_agreement(question.intents, self._intents[tool]) for tool in tools]),
                self._likeness(question, count, tools),
                corpus.description_grams.likeness(question.text)[tools],
                corpus.phrase_grams.likeness(question.text)[tools],
            ),
            axis=1,
        )
        return Candidates(tools, rows, _confidence(question, stands_for))

    def _phrases(self, question: Question, count: int) -> tuple[Floats, Floats]:
        """For each tool the cosine of the query and its nearest phrase, and how many are near."""
        corpus = self._corpus
        best = np.zeros(corpus.tools, dtype=np.float32)
        if not corpus.phrases.unit_count:
            return best, best
        found = corpus.phrases.match(question.slots, question.terms, question.scaled, 2 * count)
        square = np.concatenate((question.masses**2, (SURFACE_IN_PHRASE * question.surface_masses) ** 2))
        norm = float(np.sqrt(square.sum())) or 1.0
        cosine = np.minimum(square @ found / (norm * corpus.phrase_norm), 1.0)
        np.maximum.at(best, corpus.phrase_tools, cosine)
        near = np.bincount(corpus.phrase_tools, cosine**4, minlength=corpus.tools)
        return best, np.minimum(near**0.25 / 1.5, 1.0).astype(np.float32)

    def _named(self, question: Question, count: int, tools: Numbers) -> tuple[Floats, Floats, Floats]:
        """How much of a tool's name and title the query holds, how much of the query these hold, and both."""
        corpus = self._corpus
        found = corpus.titles.match(question.slots, question.terms, question.scaled, 2 * count)
        held = question.masses @ found[:count, tools]
        share = np.minimum(held / corpus.title_mass[tools], 1.0)
        part = held / (float(question.masses.sum()) or 1.0)
        return share, part, np.sqrt(share * part)

    def _likeness(self, question: Question, count: int, tools: Numbers) -> Floats:
        """The cosine of the query and a tool's name with its description."""
        corpus = self._corpus
        found = corpus.descriptions.match(question.slots, question.terms, question.scaled, 2 * count)
        square = question.masses**2
        norm = float(np.sqrt(square.sum())) or 1.0
        return np.minimum(square @ found[:count, tools] / (norm * corpus.description_norm[tools]), 1.0)


def _confidence(question: Question, stands_for: Floats) -> float:
    """The share of the query's mass that the best tool covers, by words that stand for it (GTW-22)."""
    total = float((question.masses + question.unsure).sum()) or 1.0
    return min(float(((question.masses * question.sure) @ stands_for).max()) / total, 1.0)


def _agreement(asked: frozenset[str], offered: frozenset[str]) -> float:
    """Whether a tool does what the verbs of the query ask for: 1 yes, 0 no, between when one says nothing."""
    if not offered:
        return 0.5
    if not asked:
        return 0.6 if "read" in offered else 0.5
    return 1.0 if asked & offered else 0.0


def _intents(document: ToolDocument) -> frozenset[str]:
    """What a tool does, by the verb its title begins with, else by its name, else by its description, and by
    the verbs its aliases begin with.
    """
    found: set[str] = set()
    for text, most in ((document.title, 8), (document.name, 8), (described(document), 4)):
        words = list(runs(text))
        found |= intents_of(words[:1]) or intents_of(words[:most])
        if found:
            break
    for alias in document.aliases:
        found |= intents_of(list(runs(alias))[:1])
    return frozenset(found)
