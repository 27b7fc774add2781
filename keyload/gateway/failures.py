"""Telling failures of what was called from the end of the caller, whatever they are raised as (GTW-35)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import TypeVar, cast

_T = TypeVar("_T")
ANSWER_SECONDS = 60.0
"""Time that an asynchronous answer of a generator, a store or a hook has."""


def is_own(error: BaseException) -> bool:
    """Whether an exception is a failure of what was called: not a cancellation that somebody asked for, and
    not the end of the program or of the coroutine."""
    if isinstance(error, Exception):
        return True
    if isinstance(error, asyncio.CancelledError | BaseExceptionGroup):
        task = asyncio.current_task()
        return task is None or not task.cancelling()
    return not isinstance(error, KeyboardInterrupt | GeneratorExit)


def text_of(error: BaseException) -> str:
    """What an exception says, its kind when it says nothing or cannot say it."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return text or type(error).__name__


async def settled(value: _T | Awaitable[_T]) -> _T:
    """A value that may have to be awaited. Raises TimeoutError after ANSWER_SECONDS, and RuntimeError when
    it is cancelled by itself, so that nobody takes it for a cancellation of the caller."""
    if not inspect.isawaitable(value):
        return cast("_T", value)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await value
    except asyncio.CancelledError as error:
        if not is_own(error):
            raise
        raise RuntimeError("What was waited for has been cancelled.") from error
