"""One generation of tools in arrays: terms, their IDF, and where they stand (GTW-19)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from keyload.gateway.documents import ToolDocument
from keyload.gateway.lexical.analysis import CONCEPT, SURFACE, runs, split, terms_of
from keyload.gateway.lexical.fields import FieldTexts, described
from keyload.gateway.lexical.grams import Grams
from keyload.gateway.lexical.postings import Flags, Floats, Integers, Postings, counted, distinct

PHRASE_HALF = 0.5  # in so many of a tool's phrases a word counts half
PHRASE_DAMPING = 0.8  # how much many phrases of a tool dampen each


Spoken = tuple[int, str]  # the number of a tool, one of its aliases or examples as words with spaces between


def phrases(documents: Sequence[ToolDocument]) -> list[Spoken]:
    """All aliases and examples, and whose they are."""
    return [
        (number, " ".join(runs(text)))
        for number, tool in enumerate(documents)
        for text in dict.fromkeys((*tool.aliases, *tool.examples))
    ]


class Vocabulary:
    """Numbers for terms, in the order of their first use."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self._words: dict[str, tuple[int, ...]] = {}
        self._runs: dict[str, tuple[int, ...]] = {}
        self._texts: dict[str, array[int]] = {}

    @property
    def words(self) -> Iterator[str]:
        """All words read that carry meaning."""
        return (word for word, terms in self._words.items() if terms)

    def read(self, text: str) -> array[int]:
        """The terms of a text as numbers; a text is remembered, so that repeated ones cost little."""
        known = self._texts.get(text)
        if known is None:
            known = self._texts[text] = self.number(runs(text))
        return known

    def number(self, runs_of_text: Iterable[str]) -> array[int]:
        """The terms of the words of a text that will hardly come again."""
        found: list[int] = []
        for run in runs_of_text:
            terms = self._runs.get(run)
            if terms is None:
                words = split((run,))
                terms = self._terms(run) if words == [run] else sum(map(self._terms, words), ())
                self._runs[run] = terms
            found += terms
        return array("i", found)

    def _terms(self, word: str) -> tuple[int, ...]:
        terms = self._words.get(word)
        if terms is None:
            numbers = self.numbers
            terms = tuple([numbers.setdefault(term, len(numbers)) for term in terms_of(word)])
            self._words[word] = terms
        return terms


class Corpus:
    """Postings over tools (fields, titles, words of phrases), and descriptions and phrases letter by letter.

    Tools are numbered in the order given. A phrase is an alias or an example.
    """

    def __init__(
        self, documents: Sequence[ToolDocument], spoken: Sequence[Spoken], vocabulary: Vocabulary
    ) -> None:
        self.tools = len(documents)
        self.phrases_per_tool = len(spoken) / max(self.tools, 1)
        owners: Integers = np.array([number for number, _ in spoken], dtype=np.int32)
        # these take most memory while they are made, so they come first
        self.phrase_grams = Grams([text for _, text in spoken], owners, self.tools)
        self.description_grams = Grams(
            [" ".join(runs(f"{tool.name} {tool.title} {described(tool)}")) for tool in documents],
            np.arange(self.tools, dtype=np.int32),
            self.tools,
        )
        texts = FieldTexts(documents, vocabulary.read)
        titles = [vocabulary.read(tool.name) + vocabulary.read(tool.title) for tool in documents]
        sizes, numbers = array("i"), array("i")
        for _, text in spoken:
            found = vocabulary.number(text.split())
            sizes.append(len(found))
            numbers.extend(found)
        self.terms = max(len(vocabulary.numbers), 1)
        self.fields = texts.postings(self.terms)
        self.titles = self._present(titles)
        self.bag = self._bag(owners, np.array(sizes, dtype=np.int32), np.array(numbers, dtype=np.int32))
        self._weigh(vocabulary)

    def _weigh(self, vocabulary: Vocabulary) -> None:
        """IDF over tools, and how much there is to match in names and titles."""
        holders = self._holders()
        self.idf: Floats = np.log1p((self.tools - holders + 0.5) / (holders + 0.5)).astype(np.float32)
        self.unknown = float(np.log1p((self.tools + 0.5) / 0.5))
        stems: Flags = np.zeros(self.terms, dtype=np.bool_)
        for term, number in vocabulary.numbers.items():
            stems[number] = not term.startswith((SURFACE, CONCEPT))
        mass = self.titles.mass((self.idf * stems).astype(np.float32))
        self.title_mass: Floats = np.maximum(mass, np.float32(1e-6))

    def _holders(self) -> Floats:
        """For each term in how many tools it stands, counted by how much it stands for them: a word that is
        in one phrase of many tools is not common.
        """
        cells = np.concatenate((self.fields.cells(), self.bag.cells()))
        weights = np.concatenate((self.fields.weights(), self.bag.weights()))
        order = np.argsort(cells, kind="stable")
        cells, weights = cells[order], weights[order]
        del order
        pairs, starts = distinct(cells)
        best = np.maximum.reduceat(weights, starts) if len(starts) else weights
        held = np.bincount(pairs // max(self.tools, 1), best, minlength=self.terms)
        return held.astype(np.float32)

    def _present(self, rows: Sequence[array[int]]) -> Postings:
        """Postings of weight 1 from the terms of each unit."""
        sizes = np.array([len(row) for row in rows], dtype=np.int32)
        numbers = np.array([term for row in rows for term in row], dtype=np.int32)
        units, terms, times = counted(np.arange(len(rows), dtype=np.int32), sizes, numbers, self.terms)
        return Postings(units, terms, np.ones_like(times), len(rows), self.terms)

    def _bag(self, owners: Integers, sizes: Integers, numbers: Integers) -> Postings:
        """Words by the number of a tool's phrases they stand in, more phrases than usual damping it."""
        rows, held, _ = counted(np.arange(len(sizes), dtype=np.int32), sizes, numbers, self.terms)
        ones = np.ones(len(held), dtype=np.int32)
        units, terms, times = counted(owners[rows], ones, held, self.terms)
        counts = np.bincount(owners, minlength=self.tools)
        average = float(counts.sum()) / max(int(np.count_nonzero(counts)), 1) or 1.0
        half = PHRASE_HALF * (counts[units] / average) ** PHRASE_DAMPING
        return Postings(units, terms, (times / (times + half)).astype(np.float32), self.tools, self.terms)
