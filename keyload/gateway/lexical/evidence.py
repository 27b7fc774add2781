"""The second stage: what speaks for each of the best candidates, and how it is weighed (GTW-20)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from keyload.gateway.documents import ToolDocument
from keyload.gateway.lexical.analysis import runs
from keyload.gateway.lexical.corpus import Corpus
from keyload.gateway.lexical.fields import described
from keyload.gateway.lexical.postings import Floats
from keyload.gateway.lexical.reading import Question, intents_of

CANDIDATES = 50
SURFACE_WEIGHT = 1.2
FULL = 0.85  # from this weight in its fields on a word stands for a tool
SPOKEN = 2.5  # power of the weight in phrases: what is said in one or two of many is chance
FITTING = (0.2, 0.4)  # from these scores on a tool fits: without phrases, with many
SPEECH = 10.0  # phrases a tool at which its phrases count as much as its descriptor


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """What the kinds of evidence weigh."""

    core: float  # BM25F over the fields
    bag: float  # in how many of the tool's phrases the words stand
    coverage: float  # how much of the query is found at all
    name: float  # how much of the query is in name and title, and of these in the query
    intent: float  # whether the tool does what the verbs ask for
    description: float  # likeness of name and description, letter by letter
    phrases: float  # likeness of the nearest phrase, letter by letter


PLAIN = Weights(
    core=0.189, bag=0.061, coverage=0.166, name=0.16, intent=0.008, description=0.261, phrases=0.155
)
RICH = Weights(core=0.06, bag=0.25, coverage=0.035, name=0.028, intent=0.08, description=0.055, phrases=0.165)
"""For tools without phrases, and for tools with many; in between both count. Fitted by likelihood to the
halves of the public sets that may be tuned on, and to the development set of our own catalogue.
"""

Numbers = npt.NDArray[np.intp]
LEAST_MASS = 1e-6
_EVERYWHERE = [0, 1, 5, 6]  # evidence that there is for all tools: core, bag, description, phrases


class Candidates(msgspec.Struct, frozen=True):
    """The best tools of the first stage by number, in ascending order, with their scores 0..1.

    `evidence` has a row for each, in the order of the members of `Weights`, each 0..1.
    """

    tools: Numbers
    evidence: Floats
    scores: Floats
    confidence: float


class Examiner:
    """Finds candidates for a question and gathers what speaks for them."""

    def __init__(self, documents: Sequence[ToolDocument], corpus: Corpus) -> None:
        self._corpus = corpus
        self._intents = [_intents(document) for document in documents]
        rich = corpus.phrases_per_tool / (corpus.phrases_per_tool + SPEECH)
        self._fitting = (1 - rich) * FITTING[0] + rich * FITTING[1]
        mixed = (1 - rich) * _array(PLAIN) + rich * _array(RICH)
        self._weights: Floats = (mixed / mixed.sum()).astype(np.float32)

    def examine(self, question: Question) -> Candidates | None:
        """The candidates; None when no word of the question is known."""
        corpus = self._corpus
        count = len(question.masses)
        if not len(question.terms):
            return None
        core = corpus.fields.match(question.slots, question.terms, question.weights, 2 * count)
        bag = corpus.bag.match(question.slots, question.terms, question.weights, 2 * count)
        mass = np.concatenate((question.masses, SURFACE_WEIGHT * question.surface_masses))
        share = mass / np.float32(max(float(mass.sum()), LEAST_MASS))
        everywhere = np.stack(
            (
                share @ core,
                share @ bag,
                corpus.description_grams.likeness(question.words),
                corpus.phrase_grams.likeness(question.words),
            )
        )
        tools = self._best(everywhere.astype(np.float32))
        if not len(tools):
            return None
        core, bag = core[:count, tools], bag[:count, tools]
        alone = question.masses / np.float32(max(float(question.masses.sum()), LEAST_MASS))
        offered = [self._intents[int(tool)] for tool in tools]
        agreement = [_agreement(question, intents) for intents in offered]
        rows = np.stack(
            (
                everywhere[0, tools],
                everywhere[1, tools],
                alone @ np.maximum(core > 0, bag),
                self._named(question, alone, tools),
                np.array(agreement, dtype=np.float32),
                everywhere[2, tools],
                everywhere[3, tools],
            ),
            axis=1,
        )
        scores = np.clip(rows @ self._weights, np.float32(0), np.float32(1))
        stands_for = np.maximum(np.minimum(core / FULL, 1.0), bag**SPOKEN)
        return Candidates(tools, rows, scores, _confidence(question, stands_for, scores / self._fitting))

    def _best(self, everywhere: Floats) -> Numbers:
        """The first stage: tools that hold a word of the query, by the evidence there is for all."""
        first = self._weights[_EVERYWHERE] @ everywhere
        tools = np.flatnonzero(everywhere[0] + everywhere[1] > 0)
        if len(tools) > CANDIDATES:
            tools = np.sort(tools[np.lexsort((tools, -first[tools]))[:CANDIDATES]])
        return tools

    def _named(self, question: Question, alone: Floats, tools: Numbers) -> Floats:
        """How much of the query name and title hold, and of these the query: the geometric mean."""
        corpus = self._corpus
        count = len(question.masses)
        found = corpus.titles.match(question.slots, question.terms, question.scaled, 2 * count)[:count, tools]
        share = np.minimum(question.masses @ found / corpus.title_mass[tools], 1.0)
        return np.sqrt(share * (alone @ found))


def _array(weights: Weights) -> Floats:
    return np.array(msgspec.structs.astuple(weights), dtype=np.float32)


def _confidence(question: Question, stands_for: Floats, fit: Floats) -> float:
    """The share of the query's mass that a tool covers by words that stand for it (GTW-22).

    What a tool covers that hardly fits otherwise counts less; `fit` is 1 for a tool that does.
    """
    total = float((question.masses + question.unsure).sum()) or 1.0
    covered = (question.masses * question.sure) @ stands_for / total
    return min(float((covered * np.minimum(fit, 1.0)).max()), 1.0)


def _agreement(question: Question, offered: frozenset[str]) -> float:
    """Whether a tool does what the verbs of the query ask for: 1 yes, 0 no, between when one says nothing."""
    if not offered:
        return 0.5
    if not question.intents:
        return 0.6 if "read" in offered else 0.5
    if question.first_intents & offered:
        return 1.0
    return 0.6 if question.intents & offered else 0.0


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
