"""Where in a JSON text something stands, as a JSON pointer: asked only about a text that was refused.

The walk reads marks and strings, not grammar, so it also names places in texts that are no JSON. It looks at
a bounded beginning of the text; what stands behind that has the place of the whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator

MAX_LOOKED_AT = 65_536
"""Characters that are walked: a hostile text must not cost more to explain than to refuse."""

_MAX_POINTER = 512
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[][{},:]|[^][{},:"\s]+', re.DOTALL)
_OPENING, _CLOSING = "{[", "}]"


def pointer_of(steps: Iterable[str]) -> str:
    """The pointer text of steps (RFC 6901)."""
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def shown(pointer: str) -> str:
    """A pointer as it may be told: whole characters, at most 512 of them."""
    return pointer[:_MAX_POINTER].encode("utf-8", "replace").decode("utf-8")


class Token:
    """One mark, string or literal: where it ends, what is open around it, and whether it is a member name
    that its object has already.
    """

    __slots__ = ("end", "frames", "repeated", "text")

    def __init__(self, match: re.Match[str], frames: list[_Frame]) -> None:
        self.text = match[0]
        self.end = match.end()
        self.frames = frames
        self.repeated = False

    @property
    def pointer(self) -> str:
        """The pointer of the value that the token belongs to, while it is the present one of the walk."""
        return shown(pointer_of(frame.step for frame in self.frames if frame.step is not None))


class _Frame:
    """One open object or array; `step` leads to the present member or item."""

    __slots__ = ("count", "names", "step")

    def __init__(self, is_object: bool) -> None:
        self.names: set[str] | None = set() if is_object else None
        self.count = 0
        self.step: str | None = None if is_object else "0"


def place_where(text: str, wrong: Callable[[Token], bool]) -> str:
    """The pointer of the first token that is `wrong`; empty, the whole text, when none is found."""
    return next((token.pointer for token in _tokens(text) if wrong(token)), "")


def place_at(text: str, offset: int) -> str:
    """The pointer of what stands at a character of the text."""
    token = None
    if offset <= MAX_LOOKED_AT:
        for token in _tokens(text):
            if token.end > offset:
                break
    return "" if token is None else token.pointer


def _tokens(text: str) -> Iterator[Token]:
    frames: list[_Frame] = []
    for match in _TOKEN.finditer(text, 0, MAX_LOOKED_AT):
        token = Token(match, frames)
        mark = token.text
        top = frames[-1] if frames else None
        if mark[0] == '"' and top is not None and top.names is not None and top.step is None:
            top.step = _unescaped(mark)
            token.repeated = top.step in top.names
            top.names.add(top.step)
        elif mark == "," and top is not None:
            top.count += 1
            top.step = None if top.names is not None else str(top.count)
        yield token
        if mark in _OPENING:
            frames.append(_Frame(mark == "{"))
        elif mark in _CLOSING and frames:
            frames.pop()


def _unescaped(text: str) -> str:
    try:
        return json.loads(text, strict=False)
    except ValueError:
        return text.strip('"')
