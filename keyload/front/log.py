"""The log: JSON lines on standard error with closed categories (SEC-40, CLI-13).

A line holds an instant, a level, a category of this module and numbers or names of the program itself: never
a payload, key, token, path, header, exception text or caller.
"""

from __future__ import annotations

import sys
import traceback
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import PurePath
from types import TracebackType

import msgspec


class Category(StrEnum):
    """Everything the front may say."""

    SERVING = "serving"
    STOPPED = "stopped"
    WORKER_ATTACHED = "worker-attached"
    WORKER_DETACHED = "worker-detached"
    WORKER_READY = "worker-ready"
    WORKER_FAULT = "worker-fault"
    LINK_FRAME_INVALID = "link-frame-invalid"
    LINK_MESSAGE_UNEXPECTED = "link-message-unexpected"
    CATALOG_INVALID = "catalog-invalid"
    REQUEST_FAILED = "request-failed"
    CONNECTION_FAILED = "connection-failed"
    CONNECTION_REFUSED = "connection-refused"
    WRITE_TIMEOUT = "write-timeout"
    BODY_TIMEOUT = "body-timeout"
    BARRIER_LOST = "barrier-lost"


_PROCESS = "front"
_encoder = msgspec.json.Encoder()


def event(category: StrEnum, **members: int | str) -> None:
    """Write one line; `members` are counts, numbers and closed names only."""
    instant = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = _encoder.encode({"at": instant, "process": _PROCESS, "category": category, **members})
    sys.stderr.write(line.decode() + "\n")
    sys.stderr.flush()


def failure(category: Category, error: BaseException) -> None:
    """Write one line about an unexpected exception: its class and the place, never its text (HTTP-17)."""
    event(category, kind=type(error).__name__, place=_place(error.__traceback__))


def _place(trace: TracebackType | None) -> str:
    frames = traceback.extract_tb(trace)
    if not frames:
        return "unknown"
    return f"{PurePath(frames[-1].filename).name}:{frames[-1].lineno}"
