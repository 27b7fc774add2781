"""Sparse postings in arrays: which units (tools, phrases) a term stands in, and how much it counts there."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Postings:
    """Immutable: for each term the units it stands in, one after the other, with a weight each."""

    def __init__(
        self, units: Integers, terms: Integers, weights: Floats, unit_count: int, term_count: int
    ) -> None:
        order = np.argsort(terms, kind="stable")
        self.unit_count = unit_count
        self._terms = terms[order]
        self._units = units[order]
        self._weights = weights[order]
        self._starts = np.searchsorted(self._terms, np.arange(term_count + 1)).astype(np.int32)

    def cells(self) -> Numbers:
        """A number for each pair of term and unit that there is, terms first."""
        return self._terms.astype(np.int64) * self.unit_count + self._units

    def weights(self) -> Floats:
        """The weights of the cells."""
        return self._weights

    def mass(self, by_term: Floats) -> Floats:
        """For each unit the sum over its terms of what the term weighs."""
        sums = np.bincount(self._units, by_term[self._terms], minlength=self.unit_count)
        return np.asarray(sums, dtype=np.float32)

    def match(self, slots: Integers, terms: Integers, weights: Floats, slot_count: int) -> Floats:
        """A matrix, slots of a query by units: the best of a slot's terms that stand in the unit.

        A slot is a word of the query with the terms that may stand for it, row `i` of the three arrays being
        one of them; a term counts with its weight in the slot times its weight in the unit.
        """
        first = self._starts[terms]
        counts = self._starts[terms + 1] - first
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        at = np.arange(total, dtype=np.int32) + np.repeat(first - (ends - counts), counts)
        cells = np.repeat(slots * self.unit_count, counts) + self._units[at]
        best = np.zeros(slot_count * self.unit_count, dtype=np.float32)
        np.maximum.at(best, cells, np.repeat(weights, counts) * self._weights[at])
        return best.reshape(slot_count, self.unit_count)


def distinct(ordered: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Numbers]:
    """The different ones of some numbers in ascending order, and where each begins."""
    if not len(ordered):
        return ordered, np.zeros(0, dtype=np.int64)
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return ordered[starts], starts


def counted(
    units: Integers, sizes: Integers, terms: Integers, term_count: int
) -> tuple[Integers, Integers, Floats]:
    """Units, terms and how often each term stands in each unit, from texts that lie one after the other.

    Text `i` belongs to `units[i]` and has `sizes[i]` of the terms.
    """
    every = np.repeat(units.astype(np.int64), sizes)
    every *= term_count
    every += terms
    every.sort()
    count = len(every)
    cells, starts = distinct(every)
    del every  # each step makes room for the next: there are many
    times = np.diff(starts, append=count).astype(np.float32)
    del starts
    numbers = (cells % term_count).astype(np.int32)
    cells //= term_count
    return cells.astype(np.int32), numbers, times
