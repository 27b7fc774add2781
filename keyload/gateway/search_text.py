"""The search text: what a caller says, joined, bounded, and rewritten by the host's hook (GTW-14, GTW-31)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, cast

from keyload.gateway.diagnostics import QUERY_NORMALIZATION_FAILED, QUERY_NORMALIZED, Diagnostic
from keyload.gateway.errors import SearchTextTooLong
from keyload.gateway.failures import settled
from keyload.gateway.options import GatewayOptions

MAX_CONTEXT_VALUES = 65_536


def joined(query: str, summary: str, context: Mapping[str, Any], limit: int) -> str:
    """Query, summary and the values of the context, a line each; blank ones are left out.

    Raises SearchTextTooLong above `limit` characters, and for a context of more than 65,536 values;
    TypeError when query or summary is no text.
    """
    if not isinstance(query, str) or not isinstance(summary, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError("query and context_summary are texts")
    parts = [text.strip() for text in (query, summary) if text.strip()]
    size = sum(map(len, parts)) + max(0, len(parts) - 1)
    queue: deque[Any] = deque([context])
    left = MAX_CONTEXT_VALUES
    while queue and size <= limit:
        value = queue.popleft()
        left -= 1
        if left < 0:  # one that holds itself has no end
            raise SearchTextTooLong(f"The context of a search holds at most {MAX_CONTEXT_VALUES} values.")
        if isinstance(value, Mapping):
            queue.extendleft(reversed(list(cast("Mapping[Any, Any]", value).values())))
        elif isinstance(value, list | tuple | set | frozenset):
            queue.extendleft(reversed(list(cast("list[Any]", value))))
        elif text := _shown(value, limit):
            parts.append(text)
            size += len(text) + (len(parts) > 1)
    if size > limit:
        raise SearchTextTooLong(f"A search text has at most {limit} characters.")
    return "\n".join(parts)


def _shown(value: Any, limit: int) -> str:
    """A text or a number as it counts in the search; nothing for anything else."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    try:
        return str(value)
    except ValueError:  # Python writes no number of more than some thousand digits
        raise SearchTextTooLong(f"A search text has at most {limit} characters.") from None


async def normalized(text: str, options: GatewayOptions) -> tuple[str, tuple[Diagnostic, ...]]:
    """The text as the hook rewrites it, or as it came when there is no usable answer (GTW-32)."""
    hook = options.normalize
    if hook is None or options.query_normalization == "disabled" or not text:
        return text, ()
    try:
        answer: Any = await settled(hook(text))
    except Exception as error:
        return text, (_failed(f"it raised {type(error).__name__}"),)
    if not isinstance(answer, str) or not answer.strip():
        return text, (_failed("its answer is empty"),)
    if len(answer) > options.max_search_chars:
        return text, (_failed("its answer is too long"),)
    answer = answer.strip()
    if answer == text:
        return text, ()
    return answer, (Diagnostic(QUERY_NORMALIZED, "The search text was rewritten before ranking."),)


def _failed(why: str) -> Diagnostic:
    return Diagnostic(QUERY_NORMALIZATION_FAILED, f"The search text is used as it came: {why}.")
