"""Options of one gateway: bounds, times, ranking, and the parts a host may plug in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, get_args

import msgspec

from keyload.gateway.embeddings import EmbeddingGenerator, EmbeddingStore
from keyload.gateway.sources import Source

Strategy = Literal["auto", "embeddings", "tokenizer", "graph"]
QueryNormalization = Literal["translate_when_available", "disabled"]
Normalizer = Callable[[str], "str | Awaitable[str]"]
GeneratorResolver = Callable[[], "EmbeddingGenerator | None"]
Generator = EmbeddingGenerator | GeneratorResolver

MOST = {"max_tools": 8192, "max_search_chars": 8192, "max_metadata_bytes": 16 * 1024 * 1024}
"""Bounds that hosts may only lower (GTW-39)."""


class GatewayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """All that can be chosen; hosts may set lower bounds (GTW-13, GTW-39).

    `embedding_generator` is the dedicated one and wins over `general_embedding_generator`; a function in
    its place is asked anew at each operation and may answer None (GTW-26). `normalize` rewrites a search
    text (GTW-31). `load_seconds` is the time one source has to connect and list its tools; one that failed
    is tried again at the next build, and after `retry_seconds` by a call, which does not wait for it.
    `close_seconds` is the time that running calls and connections have when the gateway closes. With
    `warm_up`, `async with` builds the index in the background (GTW-11). Raises ValueError for a value that
    cannot be meant.
    """

    sources: tuple[Source, ...] = ()
    strict_sources: bool = False
    load_seconds: float = 30.0
    retry_seconds: float = 30.0
    close_seconds: float = 10.0
    warm_up: bool = False

    max_tools: int = MOST["max_tools"]
    max_search_chars: int = MOST["max_search_chars"]
    max_metadata_bytes: int = MOST["max_metadata_bytes"]
    descriptor_text_limit: int = 4096

    strategy: Strategy = "auto"
    low_confidence: float = 0.25
    embedding_generator: Generator | None = None
    general_embedding_generator: Generator | None = None
    embedding_store: EmbeddingStore | None = None
    normalize: Normalizer | None = None
    query_normalization: QueryNormalization = "translate_when_available"

    def __post_init__(self) -> None:
        bounds = (self.max_tools, self.max_search_chars, self.max_metadata_bytes, self.descriptor_text_limit)
        if min(bounds) < 1:
            raise ValueError("bounds are at least 1")
        for name, most in MOST.items():
            if getattr(self, name) > most:
                raise ValueError(f"{name} is at most {most}")
        if min(self.load_seconds, self.retry_seconds, self.close_seconds) <= 0:
            raise ValueError("times are above 0 seconds")
        if self.strategy not in get_args(Strategy):
            raise ValueError(f"the strategy is one of {', '.join(get_args(Strategy))}")
        if self.query_normalization not in get_args(QueryNormalization):
            raise ValueError(f"query_normalization is one of {', '.join(get_args(QueryNormalization))}")
        if not 0 <= self.low_confidence <= 1:
            raise ValueError("low_confidence lies in 0..1")
        for generator in (self.embedding_generator, self.general_embedding_generator):
            if isinstance(generator, type):
                raise ValueError("a generator is an object, or a function that gives one, and not a class")
