"""The one exception inside decoding: a fault that learns its place on the way out."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from keyload.contract.errors import ErrorCode, KeyLoadError

_MAX_POINTER = 512  # characters of a pointer that are repeated to the caller


class Fault(Exception):
    """A value that breaks its declaration. Each level that it passes adds its step at the front."""

    def __init__(self, detail: str, expected: str, code: str = ErrorCode.VALIDATION) -> None:
        super().__init__(detail)
        self.detail = detail
        self.expected = expected
        self.code = ErrorCode(code)
        self.steps: list[str] = []

    def error(self, path: str) -> KeyLoadError:
        """The failure to answer with; `path` is the pointer of the decoded value itself."""
        steps = (step.replace("~", "~0").replace("/", "~1") for step in reversed(self.steps))
        pointer = path + "".join(f"/{step}" for step in steps)
        shown = pointer.encode("utf-8", "replace").decode("utf-8")[:_MAX_POINTER]
        return KeyLoadError(self.code, self.detail, path=shown, expected=self.expected)


def one_of(names: Iterable[str], wrong: str = "") -> str:
    """What was expected where a name was wanted: all of them, or the nearest first."""
    allowed = list(names)
    near = get_close_matches(wrong[:64], allowed, 1)
    if near == allowed:
        return near[0]
    return (f"{near[0]}, or another " if near else "") + "one of " + ", ".join(allowed)


def kind_of(value: object) -> str:
    """The JSON type of a value, for people."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a text"
        case dict():
            return "an object"
        case list():
            return "an array"
        case _:
            return "a number"
