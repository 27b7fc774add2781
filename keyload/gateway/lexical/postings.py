"""Sparse postings in arrays: which units (tools, phrases) a term stands in, and how much it counts there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]


class Postings:
    """Immutable: for each term the units it stands in, one after the other, with a weight each."""

    def __init__(self, units: Integers, terms: Integers, weights: Floats, unit_count: int, term_count: int) -> None:
        order = np.argsort(terms, kind="stable")
        self.unit_count = unit_count
        self._units = np.ascontiguousarray(units[order])
        self._weights = np.ascontiguousarray(weights[order])
        self._starts = np.searchsorted(terms[order], np.arange(term_count + 1)).astype(np.int32)

    @property
    def holders(self) -> Integers:
        """For each term the number of units it stands in."""
        return np.diff(self._starts)

    def match(
        self, slots: Integers, terms: Integers, weights: Floats, slot_count: int
    ) -> tuple[Floats, Floats]:
        """For each slot of a query and each unit the best of the slot's terms that stand in the unit.

        A slot is a word of the query with the terms that may stand for it, row `i` of the three arrays being one
        of them. Gives two matrices, slots by units: with the weights of the postings, and without them.
        """
        first = self._starts[terms]
        counts = self._starts[terms + 1] - first
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        at = np.arange(total, dtype=np.int32) + np.repeat(first - (ends - counts), counts)
        cells = np.repeat(slots * self.unit_count, counts) + self._units[at]
        given = np.repeat(weights, counts)
        impact = np.zeros(slot_count * self.unit_count, dtype=np.float32)
        presence = np.zeros_like(impact)
        np.maximum.at(impact, cells, given * self._weights[at])
        np.maximum.at(presence, cells, given)
        shape = (slot_count, self.unit_count)
        return impact.reshape(shape), presence.reshape(shape)


def weighted(rows: Sequence[tuple[int, Sequence[int]]], unit_count: int, term_count: int) -> Postings:
    """Postings of weight 1 from rows of unit and its terms."""
    units = np.repeat(
        np.array([unit for unit, _ in rows], dtype=np.int64), [len(terms) for _, terms in rows]
    )
    terms = np.array([term for _, row in rows for term in row], dtype=np.int64)
    cells = np.unique(units * term_count + terms)
    return Postings(
        (cells // term_count).astype(np.int32),
        (cells % term_count).astype(np.int32),
        np.ones(len(cells), dtype=np.float32),
        unit_count,
        term_count,
    )
