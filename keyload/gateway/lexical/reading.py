"""What a query asks for: its words as slots, each with the known terms that may stand for it (GTW-20)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from keyload.gateway.lexical import translation
from keyload.gateway.lexical.analysis import (
    concepts_by_stem,
    is_cjk,
    is_function_word,
    pairs,
    runs,
    stem,
    surface,
)
from keyload.gateway.lexical.postings import Floats, Integers
from keyload.gateway.lexical.repair import Repairer
from keyload.gateway.lexical.thesaurus import FUNCTION_WORDS, GENERAL, INTENTS, SOFT_WORDS, VERBS

MAX_SLOTS = 48
MAX_RUN = 128  # characters of a Chinese or Japanese run that are read
MAX_SHAPED = 2048  # characters in which words of a shape are looked for
NOUN_CONCEPT = 0.6
VERB_CONCEPT = 0.15
SOFT_MASS = 0.4
VERB_MASS = 0.9
TRANSLATED = 0.95
SHAPE_MASS = 0.5
NUMBER_MASS = 0.1
PAIR_MASS = 0.6
SURE_VERB = 0.6  # verbs and words of many requests are found everywhere
SURE_STEM = 0.7  # another form of the word is known
SURE_GUESS = 0.9  # of one misspelt word among known ones
SURE_GUESSES = 0.5  # of several: more likely the query is about something else
MISSPELT_FUNCTION_MASS = 0.2

_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}\.\w"), "email contact address"),
    (re.compile(r"https?://\S+"), "url link web website"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "id identifier guid"),
    (
        re.compile(
            r"(?<![@\w-])[\w-]{1,64}\.(?!com\b|org\b|net\b)[A-Za-z][A-Za-z0-9]{1,4}\b(?!\.)"
            r"|\b(?:pdf|docx?|xlsx?|csv|zip|txt|png|jpe?g)\b",
            re.IGNORECASE,
        ),
        "file",
    ),
    (
        re.compile(r"\b[A-Za-z0-9]{1,64}_[A-Za-z0-9]|\b[A-Z]?[a-z0-9]{1,64}[A-Z][a-z]"),
        "code symbol operation function",
    ),
)
"""Words of a recognisable shape say what kind of thing they name. A pattern begins where its first run does,
so that a long run is tried once and not from each of its characters."""


class Slot(msgspec.Struct):
    """A word of the query. `mass` is its IDF, less for words that say little; `terms` are pairs of term and
    weight; `surface` is its own form, or -1 when that is not known.

    `sure` is how much finding it says about the task, 0..1; `beyond` the mass that it has more when it is
    another word than was taken for it; `guessed` whether it was repaired.
    """

    mass: float
    terms: list[tuple[int, float]]
    surface: int = -1
    sure: float = 1.0
    beyond: float = 0.0
    guessed: bool = False


class Question(msgspec.Struct, frozen=True):
    """A query in arrays for `Postings.match`: rows of slot, term and weight.

    Surface words are the slots after the first `len(masses)`; `unsure` is mass that the slots may have beyond
    `masses`. `scaled` are the weights of rows where words are compared with their own IDF: a word counts no
    more than what stands for it. `intents` is what the verbs want.
    """

    masses: Floats
    surface_masses: Floats
    sure: Floats
    unsure: Floats
    slots: Integers
    terms: Integers
    weights: Floats
    scaled: Floats
    first_intents: frozenset[str]
    intents: frozenset[str]
    words: list[str]


_INTENT_OF_CONCEPT = {concept: intent for intent, row in INTENTS.items() for concept in row}


def intents_of(words: Iterable[str]) -> frozenset[str]:
    """What the verbs among some folded words want to happen."""
    found: set[str] = set()
    for word in words:
        for concept in concepts_by_stem().get(stem(word), ()):
            if concept[1:] in VERBS and concept[1:] in _INTENT_OF_CONCEPT:
                found.add(_INTENT_OF_CONCEPT[concept[1:]])
    return frozenset(found)


def _share(word: str) -> float:
    """How much of its mass a known word counts with: less for verbs and words of many requests."""
    if word.isdigit():
        return NUMBER_MASS
    if word in SOFT_WORDS:
        return SOFT_MASS
    concepts = concepts_by_stem().get(stem(word), ())
    return VERB_MASS if any(concept[1:] in GENERAL for concept in concepts) else 1.0


def _settle(slots: Sequence[Slot]) -> None:
    """Trust the guess at a misspelt word as much as there are few of them."""
    guessed = [slot for slot in slots if slot.guessed]
    for slot in guessed:
        slot.sure *= SURE_GUESS if len(guessed) == 1 < len(slots) else SURE_GUESSES


def _first_intents(words: Iterable[str]) -> frozenset[str]:
    """What the first verb wants."""
    for word in words:
        found = intents_of((word,))
        if found:
            return found
    return frozenset()


class Reader:
    """Reads queries against one vocabulary: `terms` numbers all terms, `idf` weighs them."""

    def __init__(self, terms: Mapping[str, int], idf: Floats, unknown: float, words: Iterable[str]) -> None:
        self._terms = terms
        self._idf = idf
        self._unknown = unknown
        self._repairer = Repairer(words, self._holders)
        self._function_words = Repairer(word for word in FUNCTION_WORDS if len(word) > 3)

    def _holders(self, word: str) -> float:
        """About how many tools a word stands for, from its IDF."""
        number = self._terms.get(surface(word))
        return 0.0 if number is None else math.expm1(self._unknown - float(self._idf[number])) / 2

    def read(self, text: str) -> Question:
        """The question a text asks; its first 48 different words count."""
        slots: list[Slot] = []
        spoken = runs(text)
        words = list(dict.fromkeys(spoken))
        foreign = translation.is_foreign(words)
        meant = list(words)
        for word in words:
            if len(slots) >= MAX_SLOTS:
                break
            if is_cjk(word):
                slots.extend(self._characters(word[:MAX_RUN], meant))
            elif not is_function_word(word):
                slots.append(self._word(word, meant, foreign))
        _settle(slots)
        slots.extend(self._shapes(text))
        return self._question(spoken, slots[:MAX_SLOTS], meant)

    def _word(self, word: str, meant: list[str], foreign: bool) -> Slot:
        terms = dict(self._known(word, 1.0))
        itself = self._terms.get(surface(word), -1)
        direct = self._terms.get(stem(word))
        if direct is None or foreign:
            for english in translation.translate(word, foreign):
                meant.append(english)
                self._merge(terms, self._known(english, TRANSLATED))
        share = _share(word)
        sure = SURE_VERB if share < 1.0 else 1.0
        if direct is not None:
            sure *= SURE_STEM if itself < 0 else 1.0
            form = direct if itself < 0 else itself  # another form of the word stands for it
            return Slot(float(self._idf[direct]) * share, list(terms.items()), form, sure)
        guessed = False
        if not terms:
            guesses, of_mass = self._guess(word)
            for known, weight in guesses:
                self._merge(terms, self._known(known, weight))
            share *= of_mass
            meant.extend(known for known, _ in guesses[:1])
            itself = self._terms.get(surface(guesses[0][0]), -1) if guesses else -1
            guessed = True
        sure *= max(terms.values(), default=0.0)
        mass = self._mass(terms) * share
        return Slot(mass, list(terms.items()), itself, sure, max(self._unknown * share - mass, 0.0), guessed)

    def _guess(self, word: str) -> tuple[list[tuple[str, float]], float]:
        """Known words for one that is neither known nor translated, and the share of its mass that counts."""
        if any(character.isdigit() for character in word):
            return [], 1.0 if word.isdigit() else NUMBER_MASS
        found = self._repairer.repair(word) or self._repairer.prefix(word)
        if found:
            return found, 1.0
        functions = self._function_words.repair(word) if len(word) > 3 else []
        return [], MISSPELT_FUNCTION_MASS if functions else 1.0

    def _known(self, word: str, weight: float) -> Iterator[tuple[int, float]]:
        """The terms of the vocabulary that a word stands for."""
        stemmed = stem(word)
        number = self._terms.get(stemmed)
        if number is not None:
            yield number, weight
        for concept in concepts_by_stem().get(stemmed, ()):
            number = self._terms.get(concept)
            if number is not None:
                yield number, weight * (VERB_CONCEPT if concept[1:] in VERBS else NOUN_CONCEPT)

    def _characters(self, run: str, meant: list[str]) -> Iterator[Slot]:
        """Slots of a Chinese or Japanese run: known words with what they mean, pairs of the rest."""
        for part, english in translation.cut(run):
            terms: dict[int, float] = {}
            for word in english:
                meant.append(word)
                self._merge(terms, self._known(word, TRANSLATED))
            for pair in pairs(part):
                direct = dict(self._known(pair, 1.0))
                if english:
                    self._merge(terms, direct.items())
                else:
                    yield Slot(self._mass(direct) * PAIR_MASS, list(direct.items()))
            if english:
                yield Slot(self._mass(terms), list(terms.items()))

    def _shapes(self, text: str) -> Iterator[Slot]:
        for shape, words in _SHAPES:
            if shape.search(text[:MAX_SHAPED]):
                terms: dict[int, float] = {}
                for word in words.split():
                    self._merge(terms, self._known(word, 1.0))
                if terms:
                    yield Slot(self._mass(terms) * SHAPE_MASS, list(terms.items()))

    def _mass(self, terms: Mapping[int, float]) -> float:
        """What a word weighs that is not known itself: as its best term does, or as an unknown word."""
        if not terms:
            return self._unknown
        best = max(terms.values())
        return max(float(self._idf[term]) for term, weight in terms.items() if weight >= 0.99 * best)

    @staticmethod
    def _merge(terms: dict[int, float], more: Iterable[tuple[int, float]]) -> None:
        for term, weight in more:
            terms[term] = max(weight, terms.get(term, 0.0))

    def _question(self, words: list[str], slots: list[Slot], meant: list[str]) -> Question:
        rows = [(at, term, weight) for at, slot in enumerate(slots) for term, weight in slot.terms]
        rows += [(len(slots) + at, slot.surface, 1.0) for at, slot in enumerate(slots) if slot.surface >= 0]
        masses = np.array([slot.mass for slot in slots], dtype=np.float32)
        surfaces = [float(self._idf[slot.surface]) if slot.surface >= 0 else 0.0 for slot in slots]
        surface_masses = np.array(surfaces, dtype=np.float32)
        numbers = np.array([row[0] for row in rows], dtype=np.int32)
        terms = np.array([row[1] for row in rows], dtype=np.int32)
        weights = np.array([row[2] for row in rows], dtype=np.float32)
        both = np.concatenate((masses, surface_masses))[numbers]
        return Question(
            masses=masses,
            surface_masses=surface_masses,
            sure=np.array([slot.sure for slot in slots], dtype=np.float32),
            unsure=np.array([(1 - slot.sure) * slot.beyond for slot in slots], dtype=np.float32),
            slots=numbers,
            terms=terms,
            weights=weights,
            scaled=weights * np.minimum(1.0, self._idf[terms] / np.maximum(both, np.float32(1e-6))),
            first_intents=_first_intents(meant),
            intents=intents_of(meant),
            words=words,
        )
