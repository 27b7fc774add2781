"""The log: JSON lines on standard error with closed categories (SEC-40, CLI-13).

A line holds an instant, the process, a category of this module and numbers or names of the program itself:
never a payload, key, token, path, header, exception text or caller. The same line again within a second is
left out, so that a storm of one fault stays a trickle.
"""

from __future__ import annotations

import sys
import time
import traceback
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import PurePath
from types import TracebackType

import msgspec

PAUSE_SECONDS = 1.0
_REMEMBERED_LINES = 256


class Category(StrEnum):
    """Everything the processes of a node may say."""

    SERVING = "serving"
    STOPPED = "stopped"
    KERNELS = "kernels"
    WORKER_STARTED = "worker-started"
    WORKER_ENDED = "worker-ended"
    WORKER_KILLED = "worker-killed"
    WORKER_NOT_STARTED = "worker-not-started"
    WORKER_DAMAGED = "worker-damaged"
    WORKER_ATTACHED = "worker-attached"
    WORKER_DETACHED = "worker-detached"
    WORKER_READY = "worker-ready"
    WORKER_FAULT = "worker-fault"
    LINK_FRAME_INVALID = "link-frame-invalid"
    LINK_MESSAGE_UNEXPECTED = "link-message-unexpected"
    LINK_QUEUE_FULL = "link-queue-full"
    PEER_KEY_UNKNOWN = "peer-key-unknown"
    PEER_FRAME_MALFORMED = "peer-frame-malformed"
    PEER_PROTOCOL_DIFFERS = "peer-protocol-differs"
    PEER_GUARD_DIFFERS = "peer-guard-differs"
    PEER_SHARD_UNKNOWN = "peer-shard-unknown"
    PEER_MESSAGE_MALFORMED = "peer-message-malformed"
    PEER_SOURCE_DIFFERS = "peer-source-differs"
    MEMBERSHIP_CHANGED = "membership-changed"
    VOTERS_CHANGED = "voters-changed"
    CATALOG_INVALID = "catalog-invalid"
    COMMAND_FAILED = "command-failed"
    READ_FAILED = "read-failed"
    READER_NOT_STARTED = "reader-not-started"
    READER_ENDED = "reader-ended"
    READER_KILLED = "reader-killed"
    REQUEST_FAILED = "request-failed"
    CONNECTION_FAILED = "connection-failed"
    CONNECTION_REFUSED = "connection-refused"
    TOOL_FAILED = "tool-failed"
    WRITE_TIMEOUT = "write-timeout"
    BODY_TIMEOUT = "body-timeout"
    BARRIER_LOST = "barrier-lost"
    CHECKPOINT_NO_ROOM = "checkpoint-no-room"
    SNAPSHOT_TAKEN = "snapshot-taken"
    SNAPSHOT_BEGUN = "snapshot-begun"
    SNAPSHOT_INSTALLED = "snapshot-installed"
    SNAPSHOT_FAILED = "snapshot-failed"
    SNAPSHOT_REFUSED = "snapshot-refused"
    SNAPSHOT_NO_ROOM = "snapshot-no-room"
    STORE_REFUSED = "store-refused"
    DEFECT = "defect"


_encoder = msgspec.json.Encoder()
_process = "front"
_recent: dict[tuple[str, tuple[tuple[str, int | str], ...]], float] = {}


def name_process(process: str) -> None:
    """Say in each line from now on that this process wrote it, such as `worker-0`."""
    global _process
    _process = process


def event(category: Category, **members: int | str) -> None:
    """Write one line; `members` are counts, numbers and closed names only."""
    if _is_repeated(category, tuple(members.items())):
        return
    instant = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = _encoder.encode({"at": instant, "process": _process, "category": category, **members})
    sys.stderr.write(line.decode() + "\n")
    sys.stderr.flush()


def failure(category: Category, error: BaseException) -> None:
    """Write one line about an unexpected exception: its class and the place, never its text (HTTP-17)."""
    event(category, kind=type(error).__name__, place=_place(error.__traceback__))


def _is_repeated(category: str, members: tuple[tuple[str, int | str], ...]) -> bool:
    now = time.monotonic()
    last = _recent.get((category, members))
    if last is not None and now - last < PAUSE_SECONDS:
        return True
    if len(_recent) >= _REMEMBERED_LINES:
        _recent.clear()
    _recent[(category, members)] = now
    return False


def _place(trace: TracebackType | None) -> str:
    frames = traceback.extract_tb(trace)
    if not frames:
        return "unknown"
    return f"{PurePath(frames[-1].filename).name}:{frames[-1].lineno}"
