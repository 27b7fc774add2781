"""Diagnostics: what went wrong without stopping the call, in codes a host can act on (GTW-38)."""

from __future__ import annotations

from typing import Final, cast

import msgspec

SOURCE_LOAD_FAILED: Final = "source_load_failed"
DUPLICATE_TOOL: Final = "duplicate_tool"
QUERY_NORMALIZED: Final = "query_normalized"
QUERY_NORMALIZATION_FAILED: Final = "query_normalization_failed"
LEXICAL_FALLBACK: Final = "lexical_fallback"
VECTOR_SEARCH_FAILED: Final = "vector_search_failed"
EMBEDDING_FAILED: Final = "embedding_failed"
EMBEDDING_STORE_FAILED: Final = "embedding_store_failed"

CODES: Final = (
    SOURCE_LOAD_FAILED,
    DUPLICATE_TOOL,
    QUERY_NORMALIZED,
    QUERY_NORMALIZATION_FAILED,
    LEXICAL_FALLBACK,
    VECTOR_SEARCH_FAILED,
    EMBEDDING_FAILED,
    EMBEDDING_STORE_FAILED,
)
MAX_NAME_CHARS = 128


class Diagnostic(msgspec.Struct, frozen=True):
    """A code of `CODES`, a text for people without secrets or arguments, and the source it is about."""

    code: str
    message: str
    source_id: str = ""


def shown(name: str) -> str:
    """A name that someone else chose, as it may stand in a message: printable and short."""
    text = "".join(char if char.isprintable() else "?" for char in name[:MAX_NAME_CHARS])
    return text + ("..." if len(name) > MAX_NAME_CHARS else "")


def first_cause(error: BaseException) -> BaseException:
    """The first single exception inside nested groups."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
