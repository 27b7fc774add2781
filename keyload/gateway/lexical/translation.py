"""From a word of another language to the English word of the glossary."""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, cast

from whoosh.lang.snowball import french, german, spanish

from keyload.gateway.lexical.analysis import fold, is_cjk, is_function_word, pieces, stem
from keyload.gateway.lexical.glossary import COLUMNS, ROWS
from keyload.gateway.lexical.thesaurus import ENGLISH, OTHERS

_Stem = Callable[[str], str]
_MAX_CJK = 4


@cache
def _stemmers() -> dict[str, _Stem]:
    return {
        "es": cast("_Stem", cast("Any", spanish).SpanishStemmer().stem),
        "de": cast("_Stem", cast("Any", german).GermanStemmer().stem),
        "fr": cast("_Stem", cast("Any", french).FrenchStemmer().stem),
        "uk": stem,
    }


@cache
def _tables() -> dict[str, dict[str, tuple[str, ...]]]:
    """For each language its stems (for Chinese and Japanese its words) with the English words they stand for."""
    tables: dict[str, dict[str, tuple[str, ...]]] = {language: {} for language in COLUMNS[1:]}
    for row in ROWS.strip().splitlines():
        english, *columns = (cell.strip() for cell in row.split("|"))
        for language, cell in zip(COLUMNS[1:], columns, strict=True):
            for word in cell.split():
                key = _key(language, fold(word))
                known = tables[language].get(key, ())
                if english not in known:
                    tables[language][key] = (*known, english)
    return tables


@cache
def _forms() -> dict[str, tuple[str, ...]]:
    """Words in letters as they stand in the glossary, with the English words they stand for."""
    forms: dict[str, tuple[str, ...]] = {}
    for row in ROWS.strip().splitlines():
        english, *columns = (cell.strip() for cell in row.split("|"))
        for cell in columns[:4]:
            for word in cell.split():
                known = forms.get(fold(word), ())
                if english not in known:
                    forms[fold(word)] = (*known, english)
    return forms


def _key(language: str, word: str) -> str:
    stemmer = _stemmers().get(language)
    return stemmer(word) if stemmer else word


def is_foreign(words: Iterable[str]) -> bool:
    """Whether some folded words look like another language than English: function words of one, other letters."""
    return any(word in OTHERS and word not in ENGLISH or not word.isascii() for word in words)


def translate(word: str, foreign: bool) -> tuple[str, ...]:
    """The English words that a folded word of Spanish, German, French or Ukrainian may stand for.

    In a `foreign` text other forms of the glossary's words count too.
    """
    if len(word) < 3 or is_function_word(word):
        return ()
    found = _forms().get(word, ())
    if found or not foreign:
        return found
    tables = _tables()
    languages = ("es", "de", "fr") if word.isascii() else ("uk",)
    keys = ((language, _key(language, word)) for language in languages)
    return tuple(dict.fromkeys(english for language, key in keys for english in tables[language].get(key, ())))


def cut(run: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """A run of Chinese or Japanese in parts, the longest known words first, each with its English words."""
    for piece in pieces(run):
        at = rest = 0
        while at < len(piece):
            found = next((part for part in _openings(piece[at:]) if _cjk(part)), "")
            if found:
                if rest < at:
                    yield piece[rest:at], ()
                yield found, _cjk(found)
                rest = at + len(found)
            at += len(found) or 1
        if rest < len(piece):
            yield piece[rest:], ()


def _openings(text: str) -> Iterator[str]:
    return (text[:size] for size in range(min(_MAX_CJK + 2, len(text)), 0, -1))


def _cjk(word: str) -> tuple[str, ...]:
    tables = _tables()
    return tables["ja"].get(word, ()) + tables["zh"].get(word, ()) if is_cjk(word) else ()
