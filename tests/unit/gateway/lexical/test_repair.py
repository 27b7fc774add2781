"""Misspelt words find the word that was meant."""

from __future__ import annotations

import pytest

from keyload.gateway.lexical.repair import Repairer

REPAIRER = Repairer(
    ["queue", "create", "save", "safe", "subscription", "document", "documents", "get", "fig"]
)


def nearest(word: str) -> str | None:
    found = REPAIRER.repair(word)
    return found[0][0] if found else None


@pytest.mark.covers("GTW-20")
@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("qeuue", "queue"),  # two letters swapped are one edit
        ("queu", "queue"),
        ("queuee", "queue"),
        ("quewe", "queue"),
        ("reate", "create"),
        ("qeuee", None),  # two edits are too many for five letters
        ("subscrptoin", "subscription"),  # but not for more than seven
        ("subskribtoin", None),
        ("gt", None),  # too short
        ("4ave", None),
    ],
)
def test_the_number_of_edits_depends_on_the_length(word: str, meant: str | None) -> None:
    assert nearest(word) == meant


def test_a_word_of_three_letters_may_only_miss_one() -> None:
    assert [known for known, _ in REPAIRER.repair("sve")] == ["save"]
    assert REPAIRER.repair("got") == []


def test_nearer_words_weigh_more_and_all_weigh_less_than_a_known_one() -> None:
    assert all(0 < weight < 1 for word in ("qeuue", "subscrptoin") for _, weight in REPAIRER.repair(word))
    one, two = REPAIRER.repair("subscriptoin"), REPAIRER.repair("subscrptoin")
    assert one[0][1] > two[0][1]


def test_of_two_words_as_near_the_common_one_comes_first() -> None:
    holders = {"save": 20.0, "safe": 1.0}
    repairer = Repairer(holders, lambda word: holders[word])
    assert next(known for known, _ in repairer.repair("sae")) == "save"


@pytest.mark.covers("GTW-20")
def test_beginnings_find_longer_words_and_longer_words_their_beginning() -> None:
    assert [known for known, _ in REPAIRER.prefix("docu")] == ["document", "documents"]
    assert [known for known, _ in REPAIRER.prefix("documentation")] == ["document"]
    assert REPAIRER.prefix("doc") == []
    assert REPAIRER.prefix("zzzzzz") == []
