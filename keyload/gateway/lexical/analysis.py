"""From text to words and from words to terms: one way for tools and queries, so that both meet (GTW-21).

A term is a stem (`delet`), a surface word (`=deleted`), or a concept of the thesaurus (`#delete`).
"""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from typing import Any, cast

from whoosh.lang import porter

from keyload.gateway.lexical.thesaurus import CJK_FUNCTION, FUNCTION_WORDS, IRREGULAR, NOUNS, VERBS

MAX_WORD_CHARS = 64
SURFACE, CONCEPT = "=", "#"

porter_stem = cast("Callable[[str], str]", cast("Any", porter).stem)

_RUN = re.compile(
    r"[\u3005\u3041-\u30fa\u30fc\u3400-\u9fff\uac00-\ud7a3]+|[^\W_\u3005\u3041-\u30fa\u30fc\u3400-\u9fff\uac00-\ud7a3]+"
)
_SPACED = str.maketrans({chr(code): " " for code in range(128) if not chr(code).isalnum()})
_FIRST_CJK = "\u3005"  # no letters of other scripts stand above it once compatibility forms are gone
_KATAKANA = re.compile(r"[\u30a1-\u30fa\u30fc]{2,}")
_HIRAGANA = re.compile(r"[\u3041-\u309f]+")
_PARTICLES = re.compile("|".join(sorted(CJK_FUNCTION, key=len, reverse=True)))
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_APOSTROPHE = re.compile(r"(?<=\w)['’ʼ](?=(?:s|t|re|ve|ll|m|d)\b)", re.IGNORECASE)
_CYRILLIC = re.compile(r"[\u0400-\u04ff]{4,}")
_CYRILLIC_END = re.compile(
    r"(?:ями|ами|ого|ому|ими|ові|еві|ість|ості|ення|ання|ить|ать|ати|ити|іти|їв|ів|ах|ях|ою|ею|ий|ій|их|им|ої|"
    r"[аеиіоуюяїєйь])$"
)


def _folding() -> dict[int, str]:
    """Accented Latin letters to their base, so that a missing accent is no typing error."""
    table = {ord("ß"): "ss", ord("æ"): "ae", ord("œ"): "oe", ord("ø"): "o", ord("ł"): "l", ord("đ"): "d"}
    for code in range(0xC0, 0x250):
        base = unicodedata.normalize("NFD", chr(code))[0]
        if base.isascii():
            table[code] = base
    return table


_FOLDING = _folding()
_ACCENTED = re.compile(f"[{''.join(map(chr, _FOLDING))}]")


def fold(text: str) -> str:
    """Lower case without Latin accents and without compatibility forms."""
    if text.isascii():
        return text.lower()
    lower = unicodedata.normalize("NFKC", text).lower()
    return lower.translate(_FOLDING) if _ACCENTED.search(lower) else lower


def runs(text: str) -> list[str]:
    """The words of a text in order, folded; camelCase and snake_case are split, humps also kept as one word.

    A run of Chinese or Japanese characters stays whole.
    """
    if "'" in text or not text.isascii():
        text = _APOSTROPHE.sub("", text)
    lower = text.lower()
    if lower[1:] != text[1:] and _HUMP.search(text):  # a hump has a capital behind another letter
        found = list(_humped(unicodedata.normalize("NFKC", text)))
    elif text.isascii():
        found = lower.translate(_SPACED).split()
    else:
        found = _RUN.findall(fold(text))
    if len(text) > MAX_WORD_CHARS:
        return [run for run in found if len(run) <= MAX_WORD_CHARS or is_cjk(run)]
    return found


def _humped(text: str) -> Iterator[str]:
    for run in _RUN.findall(text):
        if run.isascii() and _HUMP.search(run):
            yield from fold(_HUMP.sub(" ", run)).split()
        yield fold(run)


def split(words: Iterable[str]) -> list[str]:
    """Words as they come from `runs`, with Chinese and Japanese as pairs of characters, katakana whole."""
    found: list[str] = []
    for word in words:
        if word.isascii() or not is_cjk(word):
            found.append(word)
        else:
            found.extend(pairs(word))
    return found


def pieces(run: str) -> Iterator[str]:
    """Parts of a Chinese or Japanese run between particles; katakana words apart."""
    rest = 0
    for word in _KATAKANA.finditer(run):
        yield from _PARTICLES.sub(" ", run[rest : word.start()]).split()
        yield word.group()
        rest = word.end()
    yield from _PARTICLES.sub(" ", run[rest:]).split()


def pairs(run: str) -> Iterator[str]:
    """Neighbouring characters of a Chinese or Japanese run, endings in hiragana left out."""
    for piece in pieces(run):
        if len(piece) == 1 or _KATAKANA.fullmatch(piece):
            yield piece
            continue
        kana = _HIRAGANA.search(piece)
        for at in range(len(piece) - 1):
            pair = piece[at : at + 2]
            if kana is None or not _HIRAGANA.fullmatch(pair):
                yield pair


def is_cjk(word: str) -> bool:
    """Whether a word is written in Chinese or Japanese characters."""
    return word[0] >= _FIRST_CJK


@lru_cache(maxsize=1024)
def stem(word: str) -> str:
    """The stem of a folded word: Porter's for Latin script, endings cut for Cyrillic, else itself."""
    if word.isascii():
        return porter_stem(IRREGULAR.get(word, word))
    if word[0] < _FIRST_CJK and _CYRILLIC.fullmatch(word):
        cut = _CYRILLIC_END.sub("", word)
        return cut if len(cut) >= 3 else word
    return word


def is_function_word(word: str) -> bool:
    """Whether a word only holds a sentence together: such words weigh nothing, and so do single letters."""
    return word in FUNCTION_WORDS or (len(word) == 1 and word.isascii() and not word.isdigit())


@cache
def concepts_by_stem() -> dict[str, tuple[str, ...]]:
    """Stem to the concepts of the thesaurus it may stand for."""
    found: dict[str, list[str]] = {}
    for table in (VERBS, NOUNS):
        for concept, words in table.items():
            for word in words:
                names = found.setdefault(porter_stem(word), [])
                if CONCEPT + concept not in names:
                    names.append(CONCEPT + concept)
    return {key: tuple(names) for key, names in found.items()}


def surface(word: str) -> str:
    """The term of a word itself."""
    return SURFACE + word


def terms_of(word: str) -> tuple[str, ...]:
    """The stem of a folded word, the word itself, and its concepts; nothing for a function word."""
    if is_function_word(word):
        return ()
    stemmed = stem(word)
    return (stemmed, surface(word), *concepts_by_stem().get(stemmed, ()))
