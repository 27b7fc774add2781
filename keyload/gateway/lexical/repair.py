"""Which known word a misspelt one was meant to be (GTW-20)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
from rapidfuzz import process
from rapidfuzz.distance import OSA

SHORT = 7  # up to this length one edit, beyond it two
LEAST = 3
WHOLE = 4  # up to this length no letter is taken for another: too many words differ in one
MOST = 4  # repairs of one word
NEAR = 0.8  # of the best one's weight
COMMON = 0.1  # how much more a word counts that stands for many tools
WEIGHTS = (1.0, 0.85, 0.6)  # by edits
PREFIX = 0.7
LEAST_PREFIX = 4
OTHER_INITIAL = 0.8  # people rarely miss the first letter
LETTERS = 64  # letters are told apart by so many bits
LETTERS_OF_EDIT = 2  # an edit takes one letter away and brings another

Letters = npt.NDArray[np.uint64]


class Repairer:
    """Finds the words of a vocabulary a few edits away: a letter more, less, other, or two swapped."""

    def __init__(self, words: Iterable[str], common: Callable[[str], float] = lambda word: 0.0) -> None:
        """`common` gives the number of tools that a word stands for."""
        self._common = common
        self._by_length: dict[int, list[str]] = {}
        for word in sorted(set(words)):
            if len(word) >= LEAST and word.isalpha():
                self._by_length.setdefault(len(word), []).append(word)
        self._letters = {length: _letters(known, length) for length, known in self._by_length.items()}
        self._sorted = sorted(word for words in self._by_length.values() for word in words)

    def repair(self, word: str) -> list[tuple[str, float]]:
        """The nearest known words with their weights below 1, nearest first; empty when none is near."""
        size = len(word)
        if size < LEAST or not word.isalpha():
            return []
        most = 1 if size <= SHORT else 2
        least = size + 1 if size == LEAST else size - most
        found: list[tuple[str, float]] = []
        for length in range(max(LEAST, least), size + most + 1):
            choices = self._alike(word, length, most)
            if length == size <= WHOLE:
                choices = [choice for choice in choices if sorted(choice) == sorted(word)]
            if choices:
                for choice, distance, _ in process.extract(
                    word, choices, scorer=OSA.distance, score_cutoff=most, limit=MOST * 2
                ):
                    same = choice[0] == word[0]
                    if same or size > LEAST:
                        found.append((choice, WEIGHTS[int(distance)] * (1.0 if same else OTHER_INITIAL)))
        likely = {known: weight * (1 + COMMON * math.log1p(self._common(known))) for known, weight in found}
        found.sort(key=lambda pair: (-likely[pair[0]], pair[0]))
        return [pair for pair in found[:MOST] if likely[pair[0]] >= NEAR * likely[found[0][0]]]

    def _alike(self, word: str, length: int, most: int) -> list[str]:
        """The known words of a length that have letters enough in common to be so few edits away."""
        known = self._by_length.get(length)
        if known is None:
            return []
        differing = np.bitwise_count(self._letters[length] ^ _letters([word], len(word)))
        return [known[at] for at in np.flatnonzero(differing <= LETTERS_OF_EDIT * most).tolist()]

    def prefix(self, word: str) -> list[tuple[str, float]]:
        """Known words that begin with this one, the shortest first, or the longest known beginning of it."""
        if len(word) < LEAST_PREFIX:
            return []
        at = bisect_left(self._sorted, word)
        longer: list[str] = []
        while at < len(self._sorted) and self._sorted[at].startswith(word) and len(longer) < 8 * MOST:
            longer.append(self._sorted[at])
            at += 1
        if longer:
            longer.sort(key=lambda known: (len(known), known))
            return [(known, PREFIX) for known in longer[:MOST]]
        for size in range(len(word) - 1, max(LEAST_PREFIX, len(word) // 2), -1):
            known = self._by_length.get(size, [])
            at = bisect_left(known, word[:size])
            if at < len(known) and known[at] == word[:size]:
                return [(word[:size], PREFIX)]
        return []


def _letters(words: Sequence[str], length: int) -> Letters:
    """For each of some words of one length the set of its letters, as bits."""
    codes = np.frombuffer("".join(words).encode("utf-32-le"), dtype=np.uint32).reshape(-1, length)
    found: Letters = np.zeros(len(words), dtype=np.uint64)
    for column in range(length):
        found |= np.uint64(1) << (codes[:, column] % LETTERS).astype(np.uint64)
    return found
