"""From a word of another language to the English word of the glossary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources

from keyload.gateway.lexical.analysis import fold, is_cjk, is_function_word, pieces, stem
from keyload.gateway.lexical.thesaurus import FOREIGN

_SPACED = ("es", "de", "fr", "uk")
_ENDING = re.compile(
    r"(?:amos|emos|imos|ando|iendo|aron|ieron|ado|ido|ais|eis|ons|ez|ent|ant|est|end|ten|ern|"
    r"ar|er|ir|re|en|em|es|os|as|an|ee|te|st|e|o|a|s|n|t|r|i)$"
)
_LEAST_STEM = 4
_MAX_CJK = 4


@cache
def _tables() -> dict[str, dict[str, tuple[str, ...]]]:
    """For each language its stems (Chinese and Japanese: words) with the English words they stand for."""
    tables: dict[str, dict[str, tuple[str, ...]]] = {}
    for language, word, english in _rows():
        table = tables.setdefault(language, {})
        key = _key(language, word)
        table[key] = tuple(dict.fromkeys((*table.get(key, ()), english)))
    return tables


def _rows() -> Iterator[tuple[str, str, str]]:
    """Language, folded word and English word of the glossary."""
    text = resources.files("keyload.gateway.lexical").joinpath("glossary.txt").read_text("utf-8")
    head, *rows = (line for line in text.splitlines() if not line.startswith("#"))
    languages = head.split(" | ")
    for row in rows:
        english, *cells = (cell.strip() for cell in row.split("|"))
        for language, cell in zip(languages[1:], cells, strict=True):
            for word in cell.split():
                yield language, fold(word), english


@cache
def _forms() -> dict[str, tuple[str, ...]]:
    """Words in letters as they stand in the glossary, with the English words they stand for."""
    forms: dict[str, tuple[str, ...]] = {}
    for language, word, english in _rows():
        if language in _SPACED:
            forms[word] = tuple(dict.fromkeys((*forms.get(word, ()), english)))
    return forms


def _key(language: str, word: str) -> str:
    """A word of Spanish, German or French without its ending, a Ukrainian one by its stem."""
    if language == "uk":
        return stem(word)
    cut_off = _ENDING.sub("", word) if language in _SPACED else word
    return cut_off if len(cut_off) >= _LEAST_STEM else word


def is_foreign(words: Iterable[str]) -> bool:
    """Whether folded words look like another language than English: its function words, other letters."""
    return any(word in FOREIGN or not word.isascii() for word in words)


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
    return tuple(
        dict.fromkeys(english for language, key in keys for english in tables[language].get(key, ()))
    )


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
