"""What people say when they want an operation: authored examples in seven languages (GTW-23).

The texts stand in phrases.toml, one table per operation of the contract, also of those that this version does
not implement. A commit is many tasks behind one name, so its table has a sub-table per mutation kind.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Any

import msgspec

from keyload.contract.mutations import MUTATIONS
from keyload.contract.names import MUTATION_KINDS, OPERATION_NAMES

MAX_PHRASE_CHARS = 120
_COMMIT = "keyload_documents_commit"

Phrase = Annotated[str, msgspec.Meta(min_length=2, max_length=MAX_PHRASE_CHARS)]
SomePhrases = Annotated[tuple[Phrase, ...], msgspec.Meta(min_length=1)]


class Phrases(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The phrases of one operation or mutation kind by language; none is left without."""

    english: SomePhrases
    spanish: SomePhrases
    german: SomePhrases
    french: SomePhrases
    ukrainian: SomePhrases
    chinese: SomePhrases
    japanese: SomePhrases


LANGUAGES: tuple[str, ...] = Phrases.__struct_fields__
"""In the order in which `phrases_of` gives them."""


class Book(msgspec.Struct, frozen=True):
    """All phrases: by operation and, of the commit, by mutation kind."""

    operations: Mapping[str, Phrases]
    kinds: Mapping[str, Phrases]


def parse(text: str) -> Book:
    """The book that a TOML text holds.

    Raises ValueError when a name is unknown or missing, when a language is, and when a phrase stands twice:
    it could not tell what it stands for.
    """
    tables = tomllib.loads(text)
    commit: dict[str, Any] = tables.get(_COMMIT, {})
    kinds = {name: commit.pop(name) for name in tuple(commit) if isinstance(commit[name], dict)}
    book = Book(_exactly(OPERATION_NAMES, tables), _exactly(MUTATION_KINDS, kinds))
    _refuse_repeats(book)
    return book


def phrases_of(name: str, kinds: Collection[str] = MUTATIONS.keys()) -> tuple[str, ...]:
    """The phrases of operation `name` in all languages, English first.

    Those of the commit are its own and those of the mutation kinds `kinds`: when not told otherwise of those
    that this version implements, so that it never promises more. Raises KeyError for an unknown name.
    """
    book = _book()
    parts = [book.operations[name]]
    if name == _COMMIT:
        parts += [book.kinds[kind] for kind in kinds]
    return tuple(text for language in LANGUAGES for part in parts for text in getattr(part, language))


@cache
def _book() -> Book:
    return parse(resources.files("keyload.contract").joinpath("phrases.toml").read_text("utf-8"))


def _exactly(names: tuple[str, ...], tables: Mapping[str, Any]) -> Mapping[str, Phrases]:
    """The phrases of each of the names in their order; ValueError unless the tables are just these."""
    if unknown := sorted(tables.keys() - set(names)):
        raise ValueError(f"Phrases for what the contract does not have: {', '.join(unknown)}.")
    if missing := [name for name in names if name not in tables]:
        raise ValueError(f"Without phrases: {', '.join(missing)}.")
    return {name: msgspec.convert(tables[name], Phrases) for name in names}


def _refuse_repeats(book: Book) -> None:
    owners: dict[str, str] = {}
    for owner, text in _texts(book):
        plain = " ".join(text.casefold().split())
        if plain in owners:
            raise ValueError(f"A phrase of {owner} stands in {owners[plain]} too: {text}.")
        owners[plain] = owner


def _texts(book: Book) -> Iterator[tuple[str, str]]:
    """Each phrase and what it stands for."""
    for owner, phrases in (*book.operations.items(), *book.kinds.items()):
        for language in LANGUAGES:
            for text in getattr(phrases, language):
                yield owner, text
