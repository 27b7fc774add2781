"""The one exception inside decoding: a fault that learns its place on the way out."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from keyload.codec.places import pointer_of, shown
from keyload.contract.errors import ErrorCode, KeyLoadError


class Fault(Exception):
    """A value that breaks its declaration. Each level that it passes adds its step at the front.

    `inner` is the pointer of the place inside the value, when that is JSON text: the path goes on in there.
    """

    def __init__(
        self, detail: str, expected: str, code: str = ErrorCode.VALIDATION, inner: str | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.expected = expected
        self.code = ErrorCode(code)
        self.inner = inner or ""
        self.steps: list[str] = []

    def error(self, path: str) -> KeyLoadError:
        """The failure to answer with; `path` is the pointer of the decoded value itself."""
        pointer = path + pointer_of(reversed(self.steps)) + self.inner
        return KeyLoadError(self.code, self.detail, path=shown(pointer), expected=self.expected)


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
