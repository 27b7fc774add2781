"""The arrays of the index against slow, obvious models."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyload.gateway.lexical.grams import Grams
from keyload.gateway.lexical.postings import Postings, counted, distinct

UNITS, TERMS, SLOTS = 5, 7, 4
CELLS = st.dictionaries(
    st.tuples(st.integers(0, UNITS - 1), st.integers(0, TERMS - 1)), st.sampled_from([0.25, 0.5, 1.0])
)
ROWS = st.lists(
    st.tuples(st.integers(0, SLOTS - 1), st.integers(0, TERMS - 1), st.sampled_from([0.5, 1.0])), max_size=12
)


def postings(cells: dict[tuple[int, int], float]) -> Postings:
    units = np.array([unit for unit, _ in cells], dtype=np.int32)
    terms = np.array([term for _, term in cells], dtype=np.int32)
    return Postings(units, terms, np.array(list(cells.values()), dtype=np.float32), UNITS, TERMS)


@pytest.mark.covers("GTW-20")
@settings(derandomize=True, deadline=None)
@given(CELLS, ROWS)
def test_a_slot_counts_with_its_best_term(
    cells: dict[tuple[int, int], float], rows: list[tuple[int, int, float]]
) -> None:
    expected = np.zeros((SLOTS, UNITS))
    for slot, term, weight in rows:
        for unit in range(UNITS):
            expected[slot, unit] = max(expected[slot, unit], weight * cells.get((unit, term), 0.0))
    slots = np.array([row[0] for row in rows], dtype=np.int32)
    terms = np.array([row[1] for row in rows], dtype=np.int32)
    weights = np.array([row[2] for row in rows], dtype=np.float32)
    assert np.allclose(postings(cells).match(slots, terms, weights, SLOTS), expected)


@settings(derandomize=True, deadline=None)
@given(CELLS)
def test_the_mass_of_a_unit_is_that_of_its_terms(cells: dict[tuple[int, int], float]) -> None:
    by_term = np.arange(TERMS, dtype=np.float32)
    expected = [sum(term for unit, term in cells if unit == number) for number in range(UNITS)]
    assert postings(cells).mass(by_term).tolist() == expected


@settings(derandomize=True, deadline=None)
@given(st.lists(st.lists(st.integers(0, TERMS - 1), max_size=6), max_size=6))
def test_terms_are_counted_by_unit(texts: list[list[int]]) -> None:
    owners = np.array([number % UNITS for number in range(len(texts))], dtype=np.int32)
    flat = [term for text in texts for term in text]
    sizes = np.array([len(text) for text in texts], dtype=np.int32)
    units, terms, times = counted(owners, sizes, np.array(flat, dtype=np.int32), TERMS)
    expected: dict[tuple[int, int], int] = {}
    for owner, text in zip(owners.tolist(), texts, strict=True):
        for term in text:
            expected[owner, term] = expected.get((owner, term), 0) + 1
    found = zip(zip(units.tolist(), terms.tolist(), strict=True), times.tolist(), strict=True)
    assert dict(found) == expected


def test_distinct_numbers_and_where_they_begin() -> None:
    values, starts = distinct(np.array([1, 1, 4, 9, 9]))
    assert (values.tolist(), starts.tolist()) == ([1, 4, 9], [0, 2, 3])
    assert [array.tolist() for array in distinct(np.zeros(0, dtype=np.int64))] == [[], []]


def grams(texts: list[str]) -> Grams:
    return Grams(texts, np.arange(len(texts), dtype=np.int32), len(texts))


@pytest.mark.covers("GTW-20")
def test_a_text_is_like_itself_and_nearly_like_itself_misspelt() -> None:
    index = grams(["upload a large file", "cancel a meeting", "read the weather"])
    same = index.likeness(["upload", "a", "large", "file"])
    near = index.likeness(["uplaod", "a", "lrge", "file"])
    other = index.likeness(["zzz", "qqq"])
    assert same[0] == pytest.approx(1.0, abs=1e-3)
    assert same[0] > near[0] > 0.3 > near[1]
    assert other.tolist() == [0.0, 0.0, 0.0]
    assert index.likeness([]).max() <= 1.0


def test_an_index_over_nothing_finds_nothing() -> None:
    assert grams([]).likeness(["anything"]).tolist() == []
    nobody = Grams([], np.zeros(0, dtype=np.int32), 2)
    assert nobody.likeness(["anything"]).tolist() == [0.0, 0.0]
