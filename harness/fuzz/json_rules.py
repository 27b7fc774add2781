"""JSON from outside as the standard library reads it, and all other rules, slowly (CON-3..5, MCP-7)."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any


class Refused(Exception):
    """The text breaks a rule."""


def tree_of(data: bytes, max_depth: int, max_tokens: int) -> Any:
    """The tree; Refused when a rule is broken. Numbers are as `strict_json.parse` has them."""
    try:
        text = data.decode("utf-8")
        if text.startswith("\ufeff"):
            raise Refused("byte order mark")
        tree = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_no_constant,
        )
    except (ValueError, RecursionError) as error:
        raise Refused("not JSON") from error
    depth, tokens = _measure(tree)
    if depth > max_depth:
        raise Refused("too deep")
    if tokens > max_tokens:
        raise Refused("too many tokens")
    return tree


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise Refused("a name occurs twice")
    return dict(pairs)


def _whole(text: str) -> int | Decimal:
    try:
        return int(text)
    except ValueError:  # more digits than Python converts
        return Decimal(text)


def _finite(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise Refused("exponent out of all bounds") from error


def _no_constant(name: str) -> Any:
    raise Refused(name)


def _measure(tree: Any) -> tuple[int, int]:
    """Depth, and number of values, names and punctuation marks; Refused for a lone surrogate."""
    match tree:
        case str():
            if any("\ud800" <= char <= "\udfff" for char in tree):
                raise Refused("lone surrogate")
            return 0, 1
        case dict():
            parts = [_measure(name) for name in tree] + [_measure(value) for value in tree.values()]
            marks = 2 + max(0, 2 * len(tree) - 1)
        case list():
            parts = [_measure(value) for value in tree]
            marks = 2 + max(0, len(tree) - 1)
        case _:
            return 0, 1
    return 1 + max((depth for depth, _ in parts), default=0), marks + sum(tokens for _, tokens in parts)


def same(ours: Any, theirs: Any) -> bool:
    """Whether two trees are the same, spelling of numbers included."""
    if ours.__class__ is not theirs.__class__:
        return False
    match theirs:
        case dict():
            return list(ours) == list(theirs) and all(same(ours[name], theirs[name]) for name in theirs)
        case list():
            return len(ours) == len(theirs) and all(map(same, ours, theirs))
        case Decimal():
            return ours.as_tuple() == theirs.as_tuple()
        case _:
            return ours == theirs
