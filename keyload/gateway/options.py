"""Options of one gateway: bounds, times, ranking, and the parts a host may plug in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from keyload.gateway.embeddings import EmbeddingGenerator, EmbeddingStore
from keyload.gateway.sources import Source

Strategy = Literal["auto", "embeddings", "tokenizer", "graph"]
QueryNormalization = Literal["translate_when_available", "disabled"]
Normalizer = Callable[[str], "str | Awaitable[str]"]
GeneratorResolver = Callable[[], "EmbeddingGenerator | None"]


class GatewayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """All that can be chosen; hosts may set lower bounds (GTW-13, GTW-39).

    `embedding_generator` is the dedicated one and wins over `general_embedding_generator`; both are asked
    anew at each operation and may answer None (GTW-26). `normalize` rewrites a search text (GTW-31).
    `load_seconds` is the time one source has to connect and list its tools, `close_seconds` the time that
    running calls and connections have when the gateway closes. With `warm_up`, `async with` builds the
    index in the background (GTW-11).
    """

    sources: tuple[Source, ...] = ()
    strict_sources: bool = False
    load_seconds: float = 30.0
    close_seconds: float = 10.0
    warm_up: bool = False

    max_tools: int = 8192
    max_search_chars: int = 8192
    max_metadata_bytes: int = 16 * 1024 * 1024
    descriptor_text_limit: int = 4096

    strategy: Strategy = "auto"
    low_confidence: float = 0.25
    embedding_generator: GeneratorResolver | None = None
    general_embedding_generator: GeneratorResolver | None = None
    embedding_store: EmbeddingStore | None = None
    normalize: Normalizer | None = None
    query_normalization: QueryNormalization = "translate_when_available"

    def __post_init__(self) -> None:
        bounds = (self.max_tools, self.max_search_chars, self.max_metadata_bytes, self.descriptor_text_limit)
        if min(bounds) < 1:
            raise ValueError("bounds are at least 1")
        if min(self.load_seconds, self.close_seconds) <= 0:
            raise ValueError("times are above 0 seconds")
