"""Likeness of texts letter by letter: runs of three to five characters, over the edges of words too (GTW-20).

A misspelt word, another form of it or another order of words changes few of the runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from keyload.gateway.lexical.analysis import runs
from keyload.gateway.lexical.postings import Floats, Integers

SIZES = (3, 4, 5)
BUCKETS = 1 << 16  # runs are told apart by a hash: few meet, and no table of texts is kept
COMMON = 0.25  # runs in more of the units than this say nothing
MAX_CHARS = 1024  # of a query
_FACTOR = np.uint32(0x9E3779B1)

Hashes = npt.NDArray[np.uint32]


class Grams:
    """An immutable index over texts; each belongs to an owner, and an owner is as near as its nearest text."""

    def __init__(self, texts: Sequence[str], owners: Integers, owner_count: int) -> None:
        self._owners = owners
        self._owner_count = owner_count
        units, grams = _grams(texts)
        cells = np.unique(grams.astype(np.int64) * max(len(texts), 1) + units)
        grams, units = np.divmod(cells, max(len(texts), 1))
        pairs = np.unique(grams * max(owner_count, 1) + owners[units]) if len(texts) else cells
        holders = np.bincount(pairs // max(owner_count, 1), minlength=BUCKETS)
        self._square: Floats = (
            np.log1p((owner_count - holders + 0.5) / (holders + 0.5)).astype(np.float32) ** 2
        )
        self._unknown = float(np.log1p((owner_count + 0.5) / 0.5)) ** 2 * 0.3
        sums = np.bincount(units, self._square[grams], minlength=len(texts))
        self._norm: Floats = np.sqrt(np.maximum(sums, 1e-6)).astype(np.float32)
        rare = np.bincount(grams, minlength=BUCKETS)[grams] <= max(8, COMMON * len(texts))
        self._units = units[rare].astype(np.uint16 if len(texts) < 1 << 16 else np.int32)
        self._starts = np.searchsorted(grams[rare], np.arange(BUCKETS + 1)).astype(np.int32)

    def likeness(self, text: str) -> Floats:
        """For each owner 0..1, how much its nearest text is like this one: the cosine of the runs of both."""
        best = np.zeros(self._owner_count, dtype=np.float32)
        if not len(self._norm):
            return best
        grams = np.unique(_grams([text[:MAX_CHARS]])[1])
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


def _grams(texts: Sequence[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The runs of some texts as numbers of texts and of buckets."""
    plain = [f"_{'_'.join(runs(text))}_" for text in texts]
    codes = np.frombuffer("".join(plain).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    number = np.repeat(np.arange(len(plain)), [len(text) for text in plain])
    units: list[npt.NDArray[np.int64]] = []
    grams: list[npt.NDArray[np.int64]] = []
    hashed: Hashes = codes * _FACTOR
    for size in range(2, SIZES[-1] + 1):
        if len(codes) < size:
            break
        hashed = (hashed[:-1] ^ (hashed[:-1] >> np.uint32(15))) * _FACTOR + codes[size - 1 :]
        if size in SIZES:
            inside = number[size - 1 :] == number[: len(number) - size + 1]
            units.append(number[size - 1 :][inside])
            mixed = (hashed ^ (hashed >> np.uint32(16))) * _FACTOR
            grams.append((mixed >> np.uint32(16))[inside].astype(np.int64))
    empty = np.zeros(0, dtype=np.int64)
    return np.concatenate([empty, *units]), np.concatenate([empty, *grams])
