"""From text to stems: one way for descriptors and queries, so that both meet at the same words (GTW-21)."""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from whoosh.analysis.filters import STOP_WORDS
from whoosh.lang import porter

_stem = cast("Callable[[str], str]", cast("Any", porter).stem)
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_IDENTIFIER = re.compile(r"[\w:.\-]+")
_FUNCTION_WORDS = frozenset(cast("frozenset[str]", STOP_WORDS)) | frozenset(
    _WORD.findall(
        "all any been but could do does each had has he her him his how i into its just like me my need no "
        "now one our out please she should so some than their them then there these they those too use "
        "using want was were what where which who why would"
    )
)
MAX_WORD_CHARS = 64


class Stemmer:
    """Turns texts into stems and remembers words for as long as it lives: one index build, or one query."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def stems(self, text: str) -> list[str]:
        """Stems of the words in order, without function words; camelCase and snake_case are split."""
        words = (word for word in _WORD.findall(_HUMP.sub(" ", text).lower()) if len(word) <= MAX_WORD_CHARS)
        return [self._stem(word) for word in words if word not in _FUNCTION_WORDS]

    def _stem(self, word: str) -> str:
        stem = self._known.get(word)
        if stem is None:
            stem = self._known[word] = _stem(word)
        return stem


def phrase(text: str) -> str:
    """A text as its lower-case words, one space between: texts with the same phrase are one alias."""
    return " ".join(_WORD.findall(text.lower()))


def identifiers(text: str) -> set[str]:
    """Runs of a text that may be tool names or ids, in lower case."""
    return {run.rstrip(".:-") for run in _IDENTIFIER.findall(text.lower())}
