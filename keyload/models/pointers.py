"""JSON pointers (RFC 6901) as tuples of steps, and what they lead to inside a JSON tree."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, cast

Steps = tuple[str, ...]


class _Missing:
    """The value of a path that leads nowhere."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


@lru_cache(maxsize=8192)
def steps_of(pointer: str) -> Steps:
    """The steps of a pointer whose form has been checked; none for the whole value."""
    if not pointer:
        return ()
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/"))


def item_number(step: str) -> int | None:
    """The array position a step names, None when it names none: decimal digits without leading zeros."""
    if step.isascii() and step.isdigit() and (step == "0" or step[0] != "0") and len(step) < 8:
        return int(step)
    return None


def value_at(tree: Any, steps: Steps) -> Any:
    """The value a path leads to, through objects and array positions; `MISSING` when there is none."""
    for step in steps:
        if isinstance(tree, dict):
            tree = cast("dict[str, Any]", tree).get(step, MISSING)
        elif isinstance(tree, list):
            items = cast("list[Any]", tree)
            number = item_number(step)
            tree = MISSING if number is None or number >= len(items) else items[number]
        else:
            return MISSING
    return tree
