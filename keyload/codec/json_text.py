"""JSON text members: what is accepted, exact numbers, canonical text and equality (CON-22..27, DOC-5..9).

A tree made here has its numbers in normal form: an int for a whole number below 10^34, else a Decimal without
surplus zeros. Equal values then have equal trees and equal canonical text.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast

import msgspec

from keyload.codec import kernels, places, strict_json
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.limits import (
    JSON_TEXT_MAX_BYTES,
    JSON_TEXT_MAX_DEPTH,
    NUMBER_MAX_DIGITS,
    NUMBER_MAX_EXPONENT,
    NUMBER_MIN_EXPONENT,
)

_EXACT = decimal.Context(
    prec=NUMBER_MAX_DIGITS,
    Emin=NUMBER_MIN_EXPONENT,
    Emax=NUMBER_MAX_EXPONENT,
    traps=[decimal.Inexact, decimal.Overflow, decimal.Subnormal, decimal.InvalidOperation],
)
_PLAIN_MIN, _PLAIN_MAX = -6, NUMBER_MAX_DIGITS - 1  # scientific exponents that canonical text writes plain


_INEXACT = "A number has too many digits or an exponent out of range."
_EXPECTED = "at most 34 significant digits and an exponent from -6144 to 6144"


def _normal(value: str | int | Decimal) -> int | Decimal | None:
    """The normal form of a number, None when it breaks the bounds of CON-23."""
    try:
        number = _EXACT.create_decimal(value).normalize(_EXACT)
    except decimal.DecimalException:
        return None
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):
        return None
    whole = exponent >= 0 and number.adjusted() <= _PLAIN_MAX
    return int(number) if whole else number


def _exact_text(text: str) -> int | Decimal:
    number = _normal(text)
    if number is None:
        strict_json.refuse_number(text, _INEXACT, _EXPECTED)
    return number


def _exact_whole(text: str) -> int | Decimal:
    return int(text) if len(text) <= NUMBER_MAX_DIGITS else _exact_text(text)


_SCAN = strict_json.make_scanner(_exact_whole, _exact_text, fast=not kernels.SCALAR)


def check(text: str, object_only: bool = False) -> Any:
    """The tree of a JSON text, numbers in normal form. A failure's `path` is the place inside the text.

    ResourceExhausted above 1 MiB of UTF-8. Validation when it is not one JSON value, is nested deeper than
    32, names a member twice, holds a lone surrogate or a number out of bounds, or is no object though
    `object_only`.
    """
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        place = places.place_at(text, error.start)
        raise strict_json.invalid(
            "The JSON text holds a lone surrogate.", "whole characters", place
        ) from error
    if len(data) > JSON_TEXT_MAX_BYTES:
        raise KeyLoadError(
            ErrorCode.RESOURCE_EXHAUSTED,
            "The JSON text is too long.",
            path="",
            expected=f"at most {JSON_TEXT_MAX_BYTES} bytes of UTF-8",
        )
    strict_json.check_shape(data, JSON_TEXT_MAX_DEPTH)
    tree: Any = strict_json.scan(text, _SCAN, _SCAN)
    strict_json.check_surrogates(text)
    if object_only and tree.__class__ is not dict:
        raise strict_json.invalid("The JSON text is no object.", "JSON text of an object", "")
    return tree


def exact(tree: Any) -> Any:
    """A tree of `strict_json.parse` with its numbers in normal form.

    Validation when a number breaks the bounds of CON-23, with the place inside the tree as `path`.
    """
    return _exact_tree(tree, ())


def _exact_tree(tree: Any, steps: tuple[str, ...]) -> Any:
    match tree:
        case dict():
            members = cast(dict[str, Any], tree).items()
            return {name: _exact_tree(value, (*steps, name)) for name, value in members}
        case list():
            items = enumerate(cast(list[Any], tree))
            return [_exact_tree(value, (*steps, str(place))) for place, value in items]
        case bool() | str() | None:
            return tree
        case _:
            number = _normal(tree)
            if number is None:
                raise strict_json.invalid(_INEXACT, _EXPECTED, places.pointer_of(steps))
            return number


# --- canonical text ----------------------------------------------------------------------------------------

_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_ESCAPES = str.maketrans({chr(code): f"\\u{code:04x}" for code in range(0x20)} | _SHORT_ESCAPES)


def number_text(value: int | Decimal) -> str:
    """Canonical text of a number in normal form: plain for exponents -6..33, else `1.5e-7`, `1e34`."""
    if isinstance(value, int):
        return str(value)
    if _PLAIN_MIN <= value.adjusted() <= _PLAIN_MAX:
        return format(value, "f")
    digits = "".join(map(str, value.as_tuple().digits))
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{'-' if value < 0 else ''}{digits[0]}{fraction}e{value.adjusted()}"


def _written(tree: Any) -> str:
    match tree:
        case None:
            return "null"
        case bool():
            return "true" if tree else "false"
        case str():
            return f'"{tree.translate(_ESCAPES)}"'
        case dict():
            members = sorted(cast(dict[str, Any], tree).items(), key=lambda member: member[0].encode("utf-8"))
            return "{" + ",".join(f"{_written(name)}:{_written(value)}" for name, value in members) + "}"
        case list():
            return "[" + ",".join(map(_written, cast(list[Any], tree))) + "]"
        case _:
            return number_text(tree)


def reference_canonical(tree: Any) -> bytes:
    """The same as `canonical`, written value by value."""
    return _written(tree).encode("utf-8")


_ENCODER = msgspec.json.Encoder(order="sorted", decimal_format="number")
_EXPONENT = re.compile(rb"\dE")


def fast_canonical(tree: Any) -> bytes:
    """The same as `canonical`: the encoder's spelling differs for numbers with an exponent only."""
    data = _ENCODER.encode(tree)
    return data if _EXPONENT.search(data) is None else reference_canonical(tree)


canonical: Callable[[Any], bytes] = (
    fast_canonical if kernels.register("canonical json", "msgspec") else reference_canonical
)
"""`canonical(tree) -> bytes`: canonical JSON text (CON-27) of a tree with numbers in normal form."""


def equal(first: Any, second: Any) -> bool:
    """Whether two trees with numbers in normal form are the same JSON value (CON-25)."""
    return canonical(first) == canonical(second)
