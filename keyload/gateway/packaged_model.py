"""`PackagedModel`: an embedding generator whose model comes with a wheel (the extra `vectors`, GTW-26).

The wheel of WordLlama carries a table of 32,000 token vectors and the tokenizer for it. Only these two files
are used: its own code, which could download others, is never imported. A text is the mean of the vectors of
its tokens, which works for English above all.
"""

# pyright: reportUnknownMemberType=false
from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy

from keyload.gateway.errors import EmbeddingError

PACKAGE = "wordllama"
WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
TENSOR = "embedding.weight"
MAX_TOKENS = 4096


class PackagedModel:
    """The model, read from disk once; it takes some 40 MB of memory.

    Raises EmbeddingError when the extra `vectors` is not installed.
    """

    def __init__(self) -> None:
        try:
            wheel = distribution(PACKAGE)
            weights, tokenizer = (
                Path(str(wheel.locate_file(f"{PACKAGE}/{name}"))) for name in (WEIGHTS, TOKENIZER)
            )
            self._tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(str(tokenizer))
            with import_module("safetensors").safe_open(str(weights), framework="numpy") as tensors:
                self._table: Any = tensors.get_tensor(TENSOR)
        except (PackageNotFoundError, ImportError, FileNotFoundError):
            raise EmbeddingError("The packaged model needs the extra `vectors` of the package.") from None
        self.fingerprint = f"{PACKAGE}/{wheel.version}/{Path(WEIGHTS).stem}"

    async def embed(self, texts: Sequence[str]) -> list[Any]:
        """A vector of 256 numbers for each text, made in a thread."""
        return await asyncio.to_thread(self._embed, list(texts))

    def _embed(self, texts: list[str]) -> list[Any]:
        found: list[Any] = []
        for encoding in self._tokenizer.encode_batch(texts, add_special_tokens=False):
            numbers = encoding.ids[:MAX_TOKENS]
            width = self._table.shape[1]
            empty = numpy.zeros(width, dtype=numpy.float32)
            found.append(self._table[numbers].astype(numpy.float32).mean(axis=0) if numbers else empty)
        return found
