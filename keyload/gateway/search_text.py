"""The search text: what a caller says, joined, bounded, and rewritten by the host's hook (GTW-14, GTW-31)."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Mapping
from typing import Any, cast

from keyload.gateway.diagnostics import QUERY_NORMALIZATION_FAILED, QUERY_NORMALIZED, Diagnostic
from keyload.gateway.errors import SearchTextTooLong
from keyload.gateway.options import GatewayOptions


def joined(query: str, summary: str, context: Mapping[str, Any], limit: int) -> str:
    """Query, summary and the values of the context, a line each; blank ones are left out.

    Raises SearchTextTooLong above `limit` characters.
    """
    parts = [text.strip() for text in (query, summary) if text.strip()]
    size = sum(map(len, parts)) + max(0, len(parts) - 1)
    queue: deque[Any] = deque([context])
    while queue and size <= limit:
        value = queue.popleft()
        if isinstance(value, Mapping):
            queue.extendleft(reversed(list(cast("Mapping[Any, Any]", value).values())))
        elif isinstance(value, list | tuple | set | frozenset):
            queue.extendleft(reversed(list(cast("list[Any]", value))))
        elif isinstance(value, str | int | float) and not isinstance(value, bool) and str(value).strip():
            parts.append(str(value).strip())
            size += len(parts[-1]) + (len(parts) > 1)
    if size > limit:
        raise SearchTextTooLong(f"A search text has at most {limit} characters.")
    return "\n".join(parts)


async def normalized(text: str, options: GatewayOptions) -> tuple[str, tuple[Diagnostic, ...]]:
    """The text as the hook rewrites it, or as it came when there is no usable answer (GTW-32)."""
    hook = options.normalize
    if hook is None or options.query_normalization == "disabled" or not text:
        return text, ()
    try:
        answer: Any = hook(text)
        if inspect.isawaitable(answer):
            answer = await answer
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
