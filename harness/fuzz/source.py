"""Draws small values from the bytes of an input, so that an input can stand for structured data, and tells
outcomes apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")
_Error = TypeVar("_Error", bound=Exception)


def attempt(call: Callable[[], _Item], refusal: type[_Error]) -> _Item | _Error:
    """What a call returns, or the refusal that it raises; any other exception is a finding."""
    try:
        return call()
    except refusal as error:
        return error


class Source:
    """What is left of an input; behind its end everything is zero or empty."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes not drawn yet."""
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        """At most so many bytes."""
        part = self._data[self._at : self._at + size]
        self._at += len(part)
        return part

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(self.left)

    def number(self, size: int = 1) -> int:
        """An unsigned number of so many bytes."""
        return int.from_bytes(self.take(size), "big")

    def below(self, limit: int) -> int:
        """A number below a limit of at most 65,536."""
        return self.number(2) % limit

    def pick(self, items: Sequence[_Item]) -> _Item:
        """One of the items."""
        return items[self.number() % len(items)]

    def block(self) -> bytes:
        """Bytes with their length before them."""
        return self.take(self.number())
