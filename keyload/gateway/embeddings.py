"""Embeddings: what a generator and a store look like, and a store in memory (GTW-26, GTW-28, GTW-29)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol, cast

import msgspec

from keyload.gateway.errors import EmbeddingError

Vector = Sequence[float]


class EmbeddingKey(msgspec.Struct, frozen=True):
    """What a vector belongs to: SHA-256 of the descriptor in hexadecimal, and the generator's fingerprint."""

    descriptor: str
    fingerprint: str


class EmbeddingGenerator(Protocol):
    """Turns texts into vectors of one length."""

    @property
    def fingerprint(self) -> str:
        """Provider, model and version: equal fingerprints give comparable vectors."""
        ...

    def embed(self, texts: Sequence[str]) -> Sequence[Vector] | Awaitable[Sequence[Vector]]:
        """A vector for each text, in order; a plain or an asynchronous function."""
        ...


def named(generator: EmbeddingGenerator) -> str:
    """The fingerprint of a generator. Raises EmbeddingError for one that is not a text."""
    fingerprint = cast("object", generator.fingerprint)
    if not isinstance(fingerprint, str):
        raise EmbeddingError("The fingerprint of the generator is not a text.")
    return fingerprint


class EmbeddingStore(Protocol):
    """Keeps tool vectors over rebuilds and restarts; plain or asynchronous functions."""

    def get(
        self, keys: Sequence[EmbeddingKey]
    ) -> Mapping[EmbeddingKey, Vector] | Awaitable[Mapping[EmbeddingKey, Vector]]:
        """The vectors it has; unknown keys are left out."""
        ...

    def put(self, items: Mapping[EmbeddingKey, Vector]) -> Awaitable[None] | None:
        """Keep vectors, replacing those of equal keys."""
        ...


class InMemoryEmbeddingStore:
    """A store for the life of the process (GTW-29)."""

    def __init__(self) -> None:
        self._vectors: dict[EmbeddingKey, Vector] = {}

    def __len__(self) -> int:
        return len(self._vectors)

    async def get(self, keys: Sequence[EmbeddingKey]) -> dict[EmbeddingKey, Vector]:
        """The vectors it has of these keys."""
        return {key: self._vectors[key] for key in keys if key in self._vectors}

    async def put(self, items: Mapping[EmbeddingKey, Vector]) -> None:
        """Keep vectors."""
        self._vectors.update(items)
