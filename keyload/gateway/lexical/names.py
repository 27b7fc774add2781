"""Tools that a query calls by name, and tools one of whose aliases or examples it is or holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from keyload.gateway.documents import ToolDocument
from keyload.gateway.lexical.analysis import fold, runs
from keyload.gateway.lexical.corpus import Spoken

NAME_SCORE = 1.0
WHOLE_ALIAS_SCORE = 0.99
ALIAS_CEILING = 0.9
ALIAS_SHARE = 0.08
MAX_WORDS = 256

_IDENTIFIER = re.compile(r"[\w:.\-/]+")
_PARTED = re.compile(r"\w[_:.\-/]+\w|[a-z0-9][A-Z]")
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Names:
    """Exact names, ids and phrases of the tools, to the numbers of the tools that carry them."""

    def __init__(self, documents: Sequence[ToolDocument], spoken: Sequence[Spoken]) -> None:
        self._names: dict[str, list[int]] = {}
        self._single: dict[str, list[int]] = {}
        self._titles: dict[str, list[int]] = {}
        self._phrases: dict[str, tuple[int, ...]] = {}
        self._lengths: dict[str, int] = {}  # by first word: bit n for phrases of n words
        for number, document in enumerate(documents):
            for name in {document.name, document.id}:
                table = self._names if _PARTED.search(name) else self._single
                table.setdefault(_key(name), []).append(number)
            self._titles.setdefault(phrase(document.title), []).append(number)
        owner = [(number,) for number in range(len(documents))]
        for number, text in spoken:
            if text:
                words = text.split()
                tools = self._phrases.get(text, ())
                if number not in tools:
                    self._phrases[text] = (*tools, number) if tools else owner[number]
                self._lengths[words[0]] = self._lengths.get(words[0], 0) | 1 << len(words)

    def find(self, query: str) -> dict[int, float]:
        """Numbers of the tools named in a query, with the score that this alone gives them."""
        found: dict[int, float] = {}
        for number, score in self._found(query):
            found[number] = max(score, found.get(number, 0.0))
        return found

    def _found(self, query: str) -> Iterator[tuple[int, float]]:
        identifiers = [part.strip(".:-/") for part in _IDENTIFIER.findall(query)]
        for identifier in identifiers:
            for number in self._names.get(_key(identifier), ()):
                yield number, NAME_SCORE
        if len(identifiers) == 1:
            for number in self._single.get(_key(identifiers[0]), ()):
                yield number, NAME_SCORE
        whole = phrase(query)
        for number in (*self._phrases.get(whole, ()), *self._titles.get(whole, ())):
            yield number, WHOLE_ALIAS_SCORE
        for part in self._parts(whole.split()[:MAX_WORDS]):
            for number in self._phrases.get(part, ()):
                yield number, ALIAS_CEILING + ALIAS_SHARE * len(part) / len(whole)

    def _parts(self, words: Sequence[str]) -> Iterator[str]:
        """Runs of at least two words that may be a phrase."""
        for start, word in enumerate(words):
            lengths = self._lengths.get(word, 0)
            for size in range(2, min(len(words) - start, lengths.bit_length()) + 1):
                if lengths >> size & 1:
                    yield " ".join(words[start : start + size])


def phrase(text: str) -> str:
    """A text as its words, one space between: texts with the same phrase are one alias."""
    return " ".join(runs(text))


def _key(name: str) -> str:
    """One spelling for snake_case, camelCase, dots and dashes."""
    return "_".join(_WORD.findall(fold(_HUMP.sub(" ", name))))
