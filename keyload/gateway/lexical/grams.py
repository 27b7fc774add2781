"""Likeness of texts letter by letter: runs of four characters, over the edges of words too (GTW-20).

A misspelt word, another form of it or another order of words changes few of the runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keyload.gateway.lexical.postings import Floats, Integers, Numbers, distinct

SIZE = 4
COMMON = 0.25  # runs in more of the texts than this say nothing
LEAST_COMMON = 8
UNKNOWN = 0.3  # what a run counts that no text has: a misspelt word has many
MAX_WORDS = 128  # of a query
TEXTS_AT_ONCE = 512
RUNS_AT_ONCE = 8192
_FACTOR = np.uint32(0x9E3779B1)

Hashes = npt.NDArray[np.uint32]


class Grams:
    """An immutable index over texts; each belongs to an owner, who is as near as the nearest of them.

    A run is known by its hash of 31 bits, and holds the numbers of the texts that have it.
    """

    def __init__(self, texts: Sequence[str], owners: Integers, owner_count: int) -> None:
        """Texts are words with one space between."""
        count = max(len(texts), 1)
        self._owners = owners
        self._owner_count = owner_count
        cells = _all_cells(texts)
        hashes = (cells >> 32).astype(np.uint32)
        units = (cells & 0xFFFFFFFF).astype(np.uint16 if count < 1 << 16 else np.int32)
        del cells
        starts = distinct(hashes)[1]
        self._known: Hashes = hashes[starts]
        sizes = np.diff(starts, append=len(hashes))
        number = np.repeat(np.arange(len(starts), dtype=np.int32), sizes)
        holders = _holders(starts, units, owners, owner_count)
        idf = np.log1p((owner_count - holders + 0.5) / (holders + 0.5))
        self._square: Floats = (idf**2).astype(np.float32)
        self._unknown = UNKNOWN * float(np.log1p((owner_count + 0.5) / 0.5)) ** 2
        sums = np.zeros(len(texts), dtype=np.float32)
        np.add.at(sums, units, self._square[number])  # bincount would make two copies of all first
        self._norm: Floats = np.sqrt(np.maximum(sums, 1e-6)).astype(np.float32)
        rare = sizes <= max(LEAST_COMMON, COMMON * count)
        self._units = units[rare[number]]
        self._starts = np.concatenate(([0], np.cumsum(np.where(rare, sizes, 0)))).astype(np.int32)

    def likeness(self, words: Sequence[str]) -> Floats:
        """For each owner 0..1, how much its nearest text is like these words: the cosine of their runs."""
        best = np.zeros(self._owner_count, dtype=np.float32)
        if not len(self._known):
            return best
        asked = distinct(_cells([" ".join(words[:MAX_WORDS])]))[0] >> 32
        places = np.minimum(np.searchsorted(self._known, asked.astype(np.uint32)), len(self._known) - 1)
        known = places[self._known[places] == asked]
        first = self._starts[known]
        counts = self._starts[known + 1] - first
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        at = np.arange(total, dtype=np.int32) + np.repeat(first - (ends - counts), counts)
        square = self._square[known]
        sums = np.bincount(self._units[at], np.repeat(square, counts), minlength=len(self._norm))
        norm = float(np.sqrt(float(square.sum()) + self._unknown * (len(asked) - len(known)))) or 1.0
        np.maximum.at(best, self._owners, np.minimum(sums / (norm * self._norm), 1.0).astype(np.float32))
        return best


def _holders(starts: Numbers, units: npt.NDArray[Any], owners: Integers, owner_count: int) -> Integers:
    """For each run the number of owners that have it, counted some runs at a time: it takes less memory."""
    found = np.zeros(len(starts), dtype=np.int32)
    ends = np.append(starts[1:], len(units))
    for first in range(0, len(starts), RUNS_AT_ONCE):
        last = min(first + RUNS_AT_ONCE, len(starts))
        sizes = ends[first:last] - starts[first:last]
        pairs = np.repeat(np.arange(last - first, dtype=np.int64) * owner_count, sizes)
        pairs += owners[units[starts[first] : ends[last - 1]]]
        pairs.sort()
        found[first:last] = np.bincount(distinct(pairs)[0] // owner_count, minlength=last - first)
    return found


def _all_cells(texts: Sequence[str]) -> Numbers:
    """The different cells of many texts in order, hashed some texts at a time: it takes less memory."""
    parts = [np.zeros(0, dtype=np.int64)]
    for first in range(0, len(texts), TEXTS_AT_ONCE):
        part = distinct(_cells(texts[first : first + TEXTS_AT_ONCE]))[0]
        part += first
        parts.append(part)
    cells = np.concatenate(parts)
    cells.sort()
    return cells


def _cells(texts: Sequence[str]) -> Numbers:
    """The hash of each run in each of the texts, the number of the text in the lower half; in order."""
    plain = [f"_{text.replace(' ', '_')}_" for text in texts]
    codes = np.frombuffer("".join(plain).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    number = np.repeat(np.arange(len(plain), dtype=np.int32), [len(text) for text in plain])
    if len(codes) < SIZE:
        return np.zeros(0, dtype=np.int64)
    hashed: Hashes = codes * _FACTOR
    for step in range(1, SIZE):
        hashed = (hashed[:-1] ^ (hashed[:-1] >> np.uint32(15))) * _FACTOR + codes[step:]
    hashed = ((hashed ^ (hashed >> np.uint32(16))) * _FACTOR) >> np.uint32(1)
    last = number[SIZE - 1 :]
    inside = last == number[: len(last)]
    cells = hashed[inside].astype(np.int64)
    cells <<= 32
    cells |= last[inside]
    cells.sort()
    return cells
