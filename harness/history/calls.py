"""What a history consists of: calls of concurrent clients on documents, with start, end and answer.

Instants are nanoseconds of the monotonic clock of the one process that records. A history is kept as one JSON
object a line, so that a failed one can be read and judged again.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import msgspec

Value = tuple[int, ...]
"""What a document holds: its elements in order."""


class Kind(StrEnum):
    """What a call does to its document."""

    GET = "get"
    PUT = "put"
    PATCH = "patch"
    DELETE = "delete"


class Outcome(StrEnum):
    """What a call was told in the end."""

    DONE = "done"
    CONFLICT = "conflict"
    MISSING = "missing"
    UNKNOWN = "unknown"


class Attempt(msgspec.Struct, frozen=True):
    """One try: through which door of which node, when, and its answer or error code."""

    node: int
    door: str
    start: int
    end: int
    answer: str


class Call(msgspec.Struct, kw_only=True):
    """One call from its first try to its definite answer; `end` is None while the answer is open.

    `value` is what it writes and `expected` the revision it demands. `revision` and `found` are what it was
    told; a read of an absent document finds None. `position` is the commit position of a receipt. `answers`
    holds every different definite answer its command id was given: more than one is a violation.
    """

    client: int
    key: str
    kind: Kind
    start: int
    end: int | None = None
    outcome: Outcome = Outcome.UNKNOWN
    value: Value | None = None
    expected: int | None = None
    revision: int | None = None
    found: Value | None = None
    position: int | None = None
    command_id: str | None = None
    answers: list[str] = msgspec.field(default_factory=list)
    attempts: list[Attempt] = msgspec.field(default_factory=list)

    def __str__(self) -> str:
        asked = f"{self.kind}" if self.value is None else f"{self.kind} {list(self.value)}"
        demanded = "" if self.expected is None else f" expecting {self.expected}"
        told = f"{self.outcome}"
        if self.kind is Kind.GET and self.outcome is Outcome.DONE:
            told = "nothing" if self.found is None else f"revision {self.revision} {list(self.found)}"
        elif self.revision is not None:
            told = f"revision {self.revision}"
        until = "..." if self.end is None else f"{self.end / 1e9:.6f}"
        return f"client {self.client} {asked}{demanded} -> {told} [{self.start / 1e9:.6f}, {until}]"


def save(calls: Iterable[Call], path: Path) -> None:
    """Write a history, one line for each call."""
    with path.open("wb") as file:
        for call in calls:
            file.write(msgspec.json.encode(call) + b"\n")


def load(path: Path) -> list[Call]:
    """Read a history again."""
    return [msgspec.json.decode(line, type=Call) for line in path.read_bytes().splitlines()]


def by_key(calls: Iterable[Call]) -> dict[str, list[Call]]:
    """The calls on each document; a history is linearizable when those of each document are."""
    found: dict[str, list[Call]] = {}
    for call in calls:
        found.setdefault(call.key, []).append(call)
    return found
