"""The log: JSON lines on standard error with closed categories (SEC-40, CLI-13).

A line holds an instant, a level, a category of this module and numbers or names of the program itself: never a
payload, key, token, path, header, exception text or caller.
"""

from __future__ import annotations

import sys
import threading
import traceback
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import PurePath
from types import TracebackType
from typing import TextIO

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
    WRITE_TIMEOUT = "write-timeout"
    BODY_TIMEOUT = "body-timeout"
    BARRIER_LOST = "barrier-lost"


_lock = threading.Lock()
_encoder = msgspec.json.Encoder()


def event(category: Category, *, stream: TextIO | None = None, **members: int | str | bool) -> None:
    """Write one line; `members` are counts, numbers and closed names only."""
    _write("info", category, members, stream)


def failure(category: Category, error: BaseException, *, stream: TextIO | None = None) -> None:
    """Write one line about an unexpected exception: its class and the place, never its text (HTTP-17)."""
    members: dict[str, int | str | bool] = {"kind": type(error).__name__, "at": _place(error.__traceback__)}
    _write("error", category, members, stream)


def _write(
    level: str, category: Category, members: dict[str, int | str | bool], stream: TextIO | None
) -> None:
    instant = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = _encoder.encode({"at": instant, "level": level, "category": category, "members": members})
    out = stream or sys.stderr
    with _lock:
        out.write(line.decode() + "\n")
        out.flush()


def _place(trace: TracebackType | None) -> str:
    frames = traceback.extract_tb(trace)
    if not frames:
        return "unknown"
    return f"{PurePath(frames[-1].filename).name}:{frames[-1].lineno}"
