"""Tool vectors: made and kept while an index is built, compared when it is searched (GTW-26..30)."""

# pyright: reportUnknownMemberType=false
from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec
import numpy

from keyload.gateway.diagnostics import EMBEDDING_FAILED, EMBEDDING_STORE_FAILED, Diagnostic
from keyload.gateway.embeddings import EmbeddingGenerator, EmbeddingKey, EmbeddingStore, named
from keyload.gateway.errors import EmbeddingError
from keyload.gateway.failures import settled

BATCH = 128
MAX_DIMENSIONS = 65_536
Matrix = Any  # numpy.ndarray of float32, one row a text, every row of length 1 or all zeros


class VectorIndex(msgspec.Struct, frozen=True):
    """The vectors of one generation: row n of `matrix` belongs to `tool_ids[n]`."""

    fingerprint: str
    tool_ids: tuple[str, ...]
    matrix: Matrix

    def similarities(self, query: Matrix) -> dict[str, float]:
        """Cosine similarity of each tool to a vector of length 1, never below 0.

        Raises EmbeddingError when the vector has another length than those of the tools.
        """
        if query.shape[0] != self.matrix.shape[1]:
            raise EmbeddingError("The vector of the query has another length than those of the tools.")
        values = numpy.clip(self.matrix @ query, 0.0, 1.0)
        return dict(zip(self.tool_ids, cast("list[float]", values.tolist()), strict=True))


async def embedded(generator: EmbeddingGenerator, texts: Sequence[str]) -> Matrix:
    """Normalised vectors of texts. Raises EmbeddingError for a wrong count, a wrong length or a number
    that is not finite, and whatever the generator raises (GTW-27)."""
    rows: list[Any] = []
    for start in range(0, len(texts), BATCH):
        part = texts[start : start + BATCH]
        vectors = list(await settled(generator.embed(part)))
        if len(vectors) != len(part):
            raise EmbeddingError("The generator gave another number of vectors than of texts.")
        rows += vectors
    return normalised(rows)


def normalised(rows: Iterable[Any]) -> Matrix:
    """Vectors of equal length as rows of length 1. Raises EmbeddingError for anything else."""
    try:
        vectors = [numpy.asarray(row, dtype=numpy.float32) for row in rows]
    except (TypeError, ValueError, OverflowError):
        raise EmbeddingError("A vector is not a list of numbers.") from None
    if any(vector.ndim != 1 for vector in vectors):
        raise EmbeddingError("A vector is not a list of numbers.")
    lengths = {vector.shape[0] for vector in vectors}
    if len(lengths) != 1 or not 0 < min(lengths) <= MAX_DIMENSIONS:
        raise EmbeddingError("The vectors are empty or of different lengths.")
    matrix = numpy.stack(vectors)
    if not numpy.isfinite(matrix).all():
        raise EmbeddingError("A vector holds a number that is not finite.")
    norms = numpy.linalg.norm(matrix.astype(numpy.float64), axis=1, keepdims=True)
    norms[norms == 0.0] = 1.0
    return (matrix / norms).astype(numpy.float32)


async def build(
    descriptors: Mapping[str, str], generator: EmbeddingGenerator, store: EmbeddingStore | None
) -> tuple[VectorIndex | None, tuple[Diagnostic, ...]]:
    """Vectors for all descriptors by tool id: from the store, and made anew where it has none (GTW-28).

    A failing generator gives no vectors and `embedding_failed`; a failing store only costs time.
    """
    try:
        fingerprint = named(generator)
        keys = {tool_id: _key(text, fingerprint) for tool_id, text in descriptors.items()}
    except Exception as error:
        return None, (_failed(EMBEDDING_FAILED, "The embedding generator failed", error),)
    if not keys:
        return None, ()
    kept, diagnostics = await _kept(store, list(dict.fromkeys(keys.values())))
    texts = {key: descriptors[tool_id] for tool_id, key in keys.items() if key not in kept}
    try:
        if texts:
            made = await embedded(generator, list(texts.values()))
            fresh = {key: cast("list[float]", row.tolist()) for key, row in zip(texts, made, strict=True)}
            width = made.shape[1]
            if any(len(vector) != width for vector in kept.values()):
                # what was kept does not compare with what is made: make everything anew
                texts = {key: descriptors[tool_id] for tool_id, key in keys.items()}
                made = await embedded(generator, list(texts.values()))
                fresh = {key: cast("list[float]", row.tolist()) for key, row in zip(texts, made, strict=True)}
            diagnostics += await _put(store, fresh)
            kept = {**kept, **fresh}
        matrix = normalised(kept[key] for key in keys.values())
    except Exception as error:
        return None, (*diagnostics, _failed(EMBEDDING_FAILED, "The tools could not be embedded", error))
    return VectorIndex(fingerprint, tuple(keys), matrix), diagnostics


async def _kept(
    store: EmbeddingStore | None, keys: list[EmbeddingKey]
) -> tuple[dict[EmbeddingKey, list[float]], tuple[Diagnostic, ...]]:
    """What the store has of the keys, if that is a usable set of vectors."""
    if store is None:
        return {}, ()
    try:
        found = await settled(store.get(keys))
        kept = {key: found[key] for key in keys if key in found}
        if not kept:
            return {}, ()
        matrix = normalised(kept.values())
        return {key: row.tolist() for key, row in zip(kept, matrix, strict=True)}, ()
    except Exception as error:
        return {}, (_failed(EMBEDDING_STORE_FAILED, "The embedding store could not be read", error),)


async def _put(
    store: EmbeddingStore | None, vectors: Mapping[EmbeddingKey, list[float]]
) -> tuple[Diagnostic, ...]:
    if store is None:
        return ()
    try:
        await settled(store.put(vectors))
    except Exception as error:
        return (_failed(EMBEDDING_STORE_FAILED, "The embedding store could not be written", error),)
    return ()


def _key(text: str, fingerprint: str) -> EmbeddingKey:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return EmbeddingKey(digest, fingerprint)


def _failed(code: str, what: str, error: Exception) -> Diagnostic:
    why = str(error) if isinstance(error, EmbeddingError) else type(error).__name__
    return Diagnostic(code, f"{what}: {why}")
