"""The example phrases are complete, bounded and never stand for two operations."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest

from keyload.contract import phrases
from keyload.contract.mutations import MUTATIONS
from keyload.contract.names import MUTATION_KINDS, OPERATION_NAMES
from keyload.contract.operations import OPERATIONS
from keyload.contract.phrases import LANGUAGES, MAX_PHRASE_CHARS, Phrases, phrases_of

CONTRACT = Path(__file__).parents[3] / "docs" / "contract"
TEXT = resources.files("keyload.contract").joinpath("phrases.toml").read_text("utf-8")
BOOK = phrases.parse(TEXT)
COMMIT = "keyload_documents_commit"


def _all(table: Phrases) -> list[str]:
    return [text for language in LANGUAGES for text in getattr(table, language)]


def test_the_names_are_those_of_the_contract() -> None:
    operations = json.loads((CONTRACT / "operations.json").read_text("utf-8"))["operations"]
    mutations = json.loads((CONTRACT / "types.json").read_text("utf-8"))["mutations"]
    assert tuple(entry["name"] for entry in operations) == OPERATION_NAMES
    assert tuple(entry["kind"] for entry in mutations) == MUTATION_KINDS


@pytest.mark.parametrize("name", OPERATION_NAMES)
def test_every_operation_has_enough_phrases_in_every_language(name: str) -> None:
    table = BOOK.operations[name]
    assert len(table.english) >= 20
    assert all(len(getattr(table, language)) >= 3 for language in LANGUAGES)


@pytest.mark.parametrize("kind", MUTATION_KINDS)
def test_every_mutation_kind_has_phrases(kind: str) -> None:
    table = BOOK.kinds[kind]
    assert len(table.english) >= 12
    assert all(len(getattr(table, language)) >= 2 for language in LANGUAGES)


def test_phrases_are_bounded_and_in_plain_words() -> None:
    texts = [text for table in (*BOOK.operations.values(), *BOOK.kinds.values()) for text in _all(table)]
    assert not [text for text in texts if text != text.strip() or len(text) > MAX_PHRASE_CHARS]
    assert not [text for text in texts if any(name in text for name in OPERATION_NAMES)]


def test_no_phrase_stands_twice() -> None:
    texts = [text.casefold() for name in OPERATION_NAMES for text in phrases_of(name, MUTATION_KINDS)]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("name", OPERATION_NAMES)
def test_english_comes_first(name: str) -> None:
    english = BOOK.operations[name].english
    assert phrases_of(name)[: len(english)] == english


def test_a_commit_speaks_of_the_changes_that_work() -> None:
    assert set(MUTATIONS) <= set(MUTATION_KINDS)
    assert OPERATIONS.keys() <= set(OPERATION_NAMES)
    spoken = set(phrases_of(COMMIT))
    for kind in MUTATION_KINDS:
        assert (kind in MUTATIONS) == spoken.issuperset(_all(BOOK.kinds[kind]))
    assert spoken < set(phrases_of(COMMIT, MUTATION_KINDS))
    assert phrases_of("keyload_documents_get", ()) == phrases_of("keyload_documents_get")


def test_an_operation_nobody_knows_has_no_phrases() -> None:
    with pytest.raises(KeyError):
        phrases_of("keyload_documents_guess")


def _renamed(old: str, new: str) -> str:
    assert TEXT.count(old) == 1
    return TEXT.replace(old, new)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT + "\n[keyload_documents_guess]\n", "does not have: keyload_documents_guess"),
        (TEXT + f"\n[{COMMIT}.guessDocument]\n", "does not have: guessDocument"),
        (_renamed("[keyload_admin_backup]", "[other]"), "does not have: other"),
        ("", "Without phrases: keyload_documents_get"),
        (
            _renamed('"get a document by its id"', '"back up  THE database"'),
            "stands in keyload_documents_get",
        ),
        (_renamed('"get a document by its id"', '"save a new document"'), "putDocument stands in"),
        (_renamed('"get a document by its id"', '"fetch one record by its key"'), "stands in"),
        (_renamed('"get a document by its id"', '""'), "length >= 2"),
        (_renamed('"get a document by its id"', "7"), "Expected `str`"),
        (_renamed("[keyload_admin_backup]", "[keyload_admin_backup]\nlatin = []"), "unknown field `latin`"),
        (_renamed("[keyload_admin_backup]", "[keyload_admin_backup]\nenglish = []"), "Cannot overwrite"),
    ],
)
def test_a_faulty_book_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        phrases.parse(text)


def test_an_operation_needs_all_languages() -> None:
    table = TEXT.index("[keyload_documents_get]")
    start = TEXT.index("japanese", table)
    end = TEXT.index("]", start) + 1
    with pytest.raises(ValueError, match="missing required field `japanese`"):
        phrases.parse(TEXT[:start] + TEXT[end:])
    with pytest.raises(ValueError, match="length >= 1"):
        phrases.parse(TEXT[:start] + "japanese = []" + TEXT[end:])
