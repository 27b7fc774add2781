"""Repaired spellings: words a few edits away are found, whatever their letters (GTW-20)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from keyload.gateway.lexical.repair import SHORT, WHOLE, Repairer

LETTERS = st.one_of(st.sampled_from("abcdeéàбヴ"), st.characters(categories=("L",)))
WORDS = st.text(LETTERS, min_size=4, max_size=12).filter(str.isalpha)
EDITS = st.lists(st.tuples(st.sampled_from("+-=x"), st.integers(0, 12), LETTERS), max_size=3)


def edited(word: str, edits: list[tuple[str, int, str]]) -> str:
    for edit, place, letter in edits:
        at = place % len(word)
        match edit:
            case "+":
                word = word[:at] + letter + word[at:]
            case "-":
                word = word[:at] + word[at + 1 :] or letter
            case "=":
                word = word[:at] + letter + word[at + 1 :]
            case _:
                word = word[:at] + word[at : at + 2][::-1] + word[at + 2 :]
    return word


@pytest.mark.covers("GTW-20")
@settings(deadline=None, max_examples=500)
@given(WORDS, EDITS, st.lists(WORDS, max_size=8))
def test_a_word_is_repaired_exactly_when_it_is_near_enough(
    known: str, edits: list[tuple[str, int, str]], others: list[str]
) -> None:
    word = edited(known, edits)
    most = 1 if len(word) <= SHORT else 2
    near = {other for other in (known, *others) if OSA.distance(word, other) <= most}
    if len(word) <= WHOLE:
        near = {other for other in near if len(other) != len(word) or sorted(other) == sorted(word)}
    repaired = {found for found, _ in Repairer((known, *others)).repair(word)}
    if len(word) < 4 or not word.isalpha():
        return
    assert bool(repaired) == bool(near)
    assert repaired <= near
