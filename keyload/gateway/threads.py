"""Functions that are not asynchronous run in threads of their own, so that one that never returns stands in
nobody's way: neither in that of other functions, nor of the builds and look-ups in the pool of the loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

_Outcome = tuple[Any, Exception | None]


async def in_thread(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """What a function returns. Raises what it raises, RuntimeError for what only ends programs and threads.

    A thread cannot be stopped, so whoever is cancelled waits for it before the cancellation goes on.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[_Outcome] = loop.create_future()

    def work() -> None:
        outcome = _outcome(function, values)
        with suppress(RuntimeError):  # the loop has been closed, and nobody waits any more
            loop.call_soon_threadsafe(ended.set_result, outcome)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="gateway tool", daemon=True).start()
    try:
        result, error = await asyncio.shield(ended)
    except asyncio.CancelledError:
        await asyncio.wait([ended])
        raise
    if error is not None:
        raise error
    return result


def _outcome(function: Callable[..., Any], values: Mapping[str, Any]) -> _Outcome:
    """What a function returned or raised; nothing may be raised into the thread itself."""
    try:
        return function(**values), None
    except Exception as error:
        return None, error
    except BaseException as error:
        return None, RuntimeError(f"The function ended with {type(error).__name__}.")
