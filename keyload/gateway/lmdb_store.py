"""`LmdbEmbeddingStore`: tool vectors that survive restarts, in an LMDB environment of its own (GTW-28)."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import lmdb
import numpy

from keyload.gateway.embeddings import EmbeddingKey, Vector

MAP_BYTES = 1024 * 1024 * 1024
_CHECK_BYTES = 8


class LmdbEmbeddingStore:
    """A directory with one environment, which one process opens once; close it when the gateway is closed.

    A vector is stored as little-endian float32 behind the first bytes of their SHA-256; one that does not
    match is left out as if it were not there, so that it is made anew.
    """

    def __init__(self, directory: Path | str, map_bytes: int = MAP_BYTES) -> None:
        Path(directory).mkdir(parents=True, exist_ok=True)
        self._environment: Any = lmdb.open(str(directory), map_size=map_bytes, max_dbs=0, readahead=False)
        self._lock = threading.Lock()  # closing an environment in use never returns
        self._closed = False

    def __enter__(self) -> LmdbEmbeddingStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def get(self, keys: Sequence[EmbeddingKey]) -> dict[EmbeddingKey, Vector]:
        """The vectors it has of these keys."""
        return await asyncio.to_thread(self._read, keys)

    async def put(self, items: Mapping[EmbeddingKey, Vector]) -> None:
        """Keep vectors: all of them, on disk when this returns, or none."""
        await asyncio.to_thread(self._write, items)

    def close(self) -> None:
        """Close the environment once the present access has ended; it may be called twice. Later accesses
        raise RuntimeError."""
        with self._lock:
            self._closed = True
            self._environment.close()

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Generator[Any]:
        with self._lock:
            if self._closed:
                raise RuntimeError("The embedding store is closed.")
            with self._environment.begin(write=write) as transaction:
                yield transaction

    def _read(self, keys: Sequence[EmbeddingKey]) -> dict[EmbeddingKey, Vector]:
        found: dict[EmbeddingKey, Vector] = {}
        with self._transaction() as transaction:
            for key in keys:
                value = cast("bytes | None", transaction.get(_packed(key)))
                if value is None or _check(value[_CHECK_BYTES:]) != value[:_CHECK_BYTES]:
                    continue
                found[key] = numpy.frombuffer(value, dtype="<f4", offset=_CHECK_BYTES).tolist()
        return found

    def _write(self, items: Mapping[EmbeddingKey, Vector]) -> None:
        with self._transaction(write=True) as transaction:
            for key, vector in items.items():
                data = numpy.asarray(vector, dtype="<f4").tobytes()
                transaction.put(_packed(key), _check(data) + data)


def _packed(key: EmbeddingKey) -> bytes:
    """A key of fixed length, whatever the fingerprint's."""
    return hashlib.sha256(f"{key.descriptor}\n{key.fingerprint}".encode()).digest()


def _check(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:_CHECK_BYTES]
