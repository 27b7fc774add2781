"""Results: one line of JSON for each image or loss."""

from __future__ import annotations

import sys

import msgspec

from keyload.contract.errors import KeyLoadError

FAILURES = (AssertionError, BaseExceptionGroup, KeyError, KeyLoadError, OSError, TimeoutError)
"""What a trial that found something raises."""

_LONGEST_TEXT = 2000


def as_text(error: BaseException) -> str:
    """A failure for a result line."""
    return f"{type(error).__name__}: {error}"[:_LONGEST_TEXT]


def write_line(found: object) -> None:
    """One line of JSON on standard output."""
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    sys.stdout.flush()
