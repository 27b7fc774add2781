"""Likeness of texts letter by letter: runs of three to five characters, over the edges of words too (GTW-20).

A misspelt word, another form of it or another order of words changes few of the runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keyload.gateway.lexical.postings import Floats, Integers, Numbers, distinct

SIZES = (3, 4, 5)
BUCKETS = 1 << 16  # runs are told apart by a hash: few meet, and no table of texts is kept
COMMON = 0.25  # runs in more of the units than this say nothing
LEAST_COMMON = 8
UNKNOWN = 0.3  # what a run counts that no text has: a misspelt word has many
MAX_WORDS = 128  # of a query
_FACTOR = np.uint32(0x9E3779B1)

Hashes = npt.NDArray[np.uint32]


class Grams:
    """An immutable index over texts; each belongs to an owner, who is as near as the nearest of them."""

    def __init__(self, texts: Sequence[Sequence[str]], owners: Integers, owner_count: int) -> None:
        """Texts are given as their words."""
        count = max(len(texts), 1)
        self._owners = owners
        self._owner_count = owner_count
        cells = distinct(np.sort(_cells(texts, count)))[0]
        grams = (cells // count).astype(np.int32)
        units = (cells % count).astype(np.uint16 if count < 1 << 16 else np.int32)
        holders = _holders(grams, units, owners, owner_count)
        idf = np.log1p((owner_count - holders + 0.5) / (holders + 0.5))
        self._square: Floats = (idf**2).astype(np.float32)
        self._unknown = UNKNOWN * float(np.log1p((owner_count + 0.5) / 0.5)) ** 2
        sums = np.bincount(units, self._square[grams], minlength=len(texts))
        self._norm: Floats = np.sqrt(np.maximum(sums, 1e-6)).astype(np.float32)
        rare = np.bincount(grams, minlength=BUCKETS)[grams] <= max(LEAST_COMMON, COMMON * count)
        self._units = units[rare]
        self._starts = np.searchsorted(grams[rare], np.arange(BUCKETS + 1)).astype(np.int32)

    def likeness(self, words: Sequence[str]) -> Floats:
        """For each owner 0..1, how much its nearest text is like these words: the cosine of their runs."""
        best = np.zeros(self._owner_count, dtype=np.float32)
        if not len(self._norm):
            return best
        grams = distinct(np.sort(_cells([words[:MAX_WORDS]], 1)))[0]
        first = self._starts[grams]
        counts = self._starts[grams + 1] - first
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        at = np.arange(total, dtype=np.int32) + np.repeat(first - (ends - counts), counts)
        weights = np.repeat(self._square[grams], counts)
        sums = np.bincount(self._units[at], weights, minlength=len(self._norm))
        norm = float(np.sqrt(np.where(counts > 0, self._square[grams], self._unknown).sum())) or 1.0
        np.maximum.at(best, self._owners, np.minimum(sums / (norm * self._norm), 1.0).astype(np.float32))
        return best


def _holders(grams: Integers, units: npt.NDArray[Any], owners: Integers, owner_count: int) -> Integers:
    """For each bucket the number of owners that have a run of it."""
    count = max(owner_count, 1)
    pairs = distinct(np.sort(grams.astype(np.int64) * count + owners[units]))[0] if len(units) else grams
    return np.bincount(pairs // count, minlength=BUCKETS).astype(np.int32)


def _cells(texts: Sequence[Sequence[str]], count: int) -> Numbers:
    """A number for each run in each of the texts, buckets first."""
    plain = [f"_{'_'.join(words)}_" for words in texts]
    codes = np.frombuffer("".join(plain).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    number = np.repeat(np.arange(len(plain), dtype=np.int32), [len(text) for text in plain])
    found: list[Numbers] = []
    hashed: Hashes = codes * _FACTOR
    for size in range(2, SIZES[-1] + 1):
        if len(codes) < size:
            break
        hashed = (hashed[:-1] ^ (hashed[:-1] >> np.uint32(15))) * _FACTOR + codes[size - 1 :]
        if size in SIZES:
            inside = number[size - 1 :] == number[: len(number) - size + 1]
            mixed = ((hashed ^ (hashed >> np.uint32(16))) * _FACTOR)[inside] >> np.uint32(16)
            found.append(mixed.astype(np.int64) * count + number[size - 1 :][inside])
    return np.concatenate([np.zeros(0, dtype=np.int64), *found])
