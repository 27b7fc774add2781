"""A small thesaurus: words that mean the same, and words that mean little (thesaurus.toml, GTW-21)."""

from __future__ import annotations

import tomllib
from importlib import resources

_TEXT = resources.files("keyload.gateway.lexical").joinpath("thesaurus.toml").read_text("utf-8")
_TABLES: dict[str, dict[str, str]] = tomllib.loads(_TEXT)
_WORDS = {name: words.split() for name, words in _TABLES["words"].items()}


def _split(table: str) -> dict[str, tuple[str, ...]]:
    return {concept: tuple(words.split()) for concept, words in _TABLES[table].items()}


VERBS = _split("verbs")
"""Concept to the verbs, and words used like verbs, that ask for it; a word may ask for several."""

NOUNS = _split("nouns")
"""Concept to the everyday nouns that may stand for each other."""

INTENTS = _split("intents")
"""What a verb wants to happen, by the concepts of verbs."""

GENERAL = frozenset(_WORDS["general"])
"""Verbs of most requests and of most catalogues: that a word for one of them is found says little."""

SOFT_WORDS = frozenset(_WORDS["soft"])
"""Words of many requests that say little about the task: they count, but less."""

IRREGULAR = {form: word for form, _, word in (pair.partition("=") for pair in _WORDS["irregular"])}
"""Forms that no rule leads back to their word."""

FOREIGN = frozenset(_WORDS["spanish_german_french_ukrainian"]) - frozenset(_WORDS["english"])
"""Words that hold together a sentence of Spanish, German, French or Ukrainian, and no English one."""

FUNCTION_WORDS = FOREIGN | frozenset(_WORDS["english"])
"""Words that only hold a sentence together, accents folded."""

CJK_FUNCTION = tuple(_WORDS["chinese_japanese"])
"""Words and particles of Chinese and Japanese that carry no task."""
