"""The frozen queries about our own operations: complete, without hints, and unchanged since frozen."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

from harness.evidence import ROOT

FILE = ROOT / "harness" / "discovery" / "own.json"
FROZEN = "f390acf38e25333827384cfc6ba33c7f61badb4eb8edd9c490abba61aa8b5d31"
KINDS = {"plain", "task", "terse", "sentence", "language"}
LANGUAGES = {"en", "es", "de", "fr", "uk", "zh", "ja"}
UNSPACED = {"zh", "ja"}  # written without spaces, so that words cannot be counted by them

CONTENT: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
QUERIES: list[dict[str, str]] = CONTENT["queries"]
UNRELATED: list[str] = CONTENT["unrelated"]


def _operations() -> list[str]:
    contract = json.loads((ROOT / "docs" / "contract" / "operations.json").read_text("utf-8"))
    return [operation["name"] for operation in contract["operations"]]


def _plain(text: str) -> str:
    """Case, white space and the joints of names make no difference between two texts."""
    return " ".join(text.casefold().replace("_", " ").replace("-", " ").split())


def test_the_set_is_the_frozen_one() -> None:
    assert hashlib.sha256(FILE.read_bytes()).hexdigest() == FROZEN


def test_the_set_has_its_size_and_form() -> None:
    assert set(CONTENT) == {"about", "queries", "unrelated"}
    assert (len(QUERIES), len(UNRELATED)) == (150, 30)
    assert all(set(entry) == {"query", "tool", "kind", "language"} for entry in QUERIES)
    assert {entry["kind"] for entry in QUERIES} == KINDS
    assert {entry["language"] for entry in QUERIES} == LANGUAGES
    assert all((entry["kind"] == "language") == (entry["language"] != "en") for entry in QUERIES)
    assert sum(entry["kind"] == "language" for entry in QUERIES) == 20


def test_queries_have_3_to_25_words() -> None:
    spaced = [entry["query"] for entry in QUERIES if entry["language"] not in UNSPACED]
    assert not [query for query in spaced if not 3 <= len(query.split()) <= 25]


def test_every_operation_is_asked_for_two_or_three_times() -> None:
    names = _operations()
    asked = Counter(entry["tool"] for entry in QUERIES)
    assert len(names) == 68
    assert set(asked) == set(names)
    assert Counter(asked.values()) == {2: 54, 3: 14}


def test_no_query_comes_twice() -> None:
    texts = [_plain(text) for text in (*(entry["query"] for entry in QUERIES), *UNRELATED)]
    assert not [text for text, times in Counter(texts).items() if times > 1]


def test_no_query_names_an_operation() -> None:
    names = [_plain(name.removeprefix("keyload_")) for name in _operations()]
    texts = [_plain(text) for text in (*(entry["query"] for entry in QUERIES), *UNRELATED)]
    assert not [(name, text) for name in names for text in texts if name in text or "keyload" in text]
