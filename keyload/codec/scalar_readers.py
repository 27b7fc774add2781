"""Readers of single values: from a value of a parsed tree to what a record holds (CON-7..14, CON-20).

A reader is called as `reader(value, texts)` and raises `Fault`. Readers are made once per member, from its
mark.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from keyload.codec import instants, json_text
from keyload.codec.faults import Fault, kind_of, one_of
from keyload.codec.text_formats import Texts, checker
from keyload.contract import capabilities
from keyload.contract.base import Choice, Member
from keyload.contract.errors import ErrorCode, KeyLoadError

Reader = Callable[[Any, Texts | None], Any]

_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_QUOTED = re.compile(r"-?(?:0|[1-9][0-9]{0,18})", re.ASCII)
_GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ZERO_GUID = "00000000-0000-0000-0000-000000000000"


def wrong_type(value: object, expected: str) -> Fault:
    """A value of another JSON type than the member has (CON-2)."""
    return Fault(f"The value is {kind_of(value)}.", expected)


def boolean() -> Reader:
    """true or false."""

    def read(value: Any, _: Texts | None) -> bool:
        if value is True or value is False:
            return value
        raise wrong_type(value, "true or false")

    return read


def integer(mark: Member, quoted: bool) -> Reader:
    """A whole number within its scalar and bounds; as text too when `quoted`."""
    low, high = _RANGES[mark.scalar or "int64"]
    least = low if mark.min is None else mark.min
    most = high if mark.max is None else mark.max
    expected = f"a whole number from {least} to {most}"
    check_other = _other(mark)

    def read(value: Any, _: Texts | None) -> int:
        if type(value) is str and quoted and _QUOTED.fullmatch(value):
            value = int(value)
        if type(value) is not int:
            raise wrong_type(value, expected)
        if not least <= value <= most:
            raise Fault("The number is out of range.", expected, _range_code(mark, value, low, high, least))
        check_other(value)
        return value

    return read


def _range_code(mark: Member, value: int, low: int, high: int, least: float) -> str:
    if not low <= value <= high:
        return ErrorCode.VALIDATION
    return (mark.error_below if value < least else mark.error_above) or ErrorCode.VALIDATION


def real(mark: Member) -> Reader:
    """A finite number of 64 bits; of 32 bits, rounded to nearest, when the scalar is float."""
    narrow = mark.scalar == "float"
    expected = f"a finite {'32' if narrow else '64'}-bit number" + _bounds(mark)
    check_other = _other(mark)

    def read(value: Any, _: Texts | None) -> float:
        if type(value) is not int and type(value) is not Decimal:
            raise wrong_type(value, expected)
        number = _float(value)
        if narrow and math.isfinite(number):
            number = _narrowed(number)
        if not math.isfinite(number):
            raise Fault("The number is not finite.", expected)
        if mark.min is not None and number < mark.min:
            raise Fault("The number is too small.", expected, mark.error_below or ErrorCode.VALIDATION)
        if mark.max is not None and number > mark.max:
            raise Fault("The number is too large.", expected, mark.error_above or ErrorCode.VALIDATION)
        check_other(number)
        return number

    return read


def _bounds(mark: Member) -> str:
    low = "" if mark.min is None else f", at least {mark.min}"
    return low + ("" if mark.max is None else f", at most {mark.max}")


def _float(value: int | Decimal) -> float:
    try:
        return float(value)
    except (OverflowError, ValueError):  # an int beyond the range, a signalling NaN
        return math.inf


def _narrowed(number: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.inf


def text(mark: Member, form: str | None) -> Reader:
    """A text, of a format if one is given."""
    check_form = None if form is None else checker(form, mark.error_above, mark.error_other)
    expected = "a text"
    check_other = _other(mark)

    def read(value: Any, texts: Texts | None) -> str:
        if type(value) is not str:
            raise wrong_type(value, expected)
        if check_form is not None:
            check_form(value, texts)
        check_other(value)
        return value

    return read


def _other(mark: Member) -> Callable[[Any], None]:
    """The check of `const` and `one_of`."""
    allowed = mark.one_of if mark.const is None else (mark.const,)
    if allowed is None:
        return _accept
    code = mark.error_other or ErrorCode.VALIDATION

    def check(value: Any) -> None:
        if value not in allowed:
            names = [str(name) for name in allowed]
            raise Fault("The value is not one of those allowed.", one_of(names, str(value)), code)

    return check


def _accept(_: Any) -> None:
    return None


def guid(mark: Member) -> Reader:
    """A guid with hyphens, in lower case afterwards."""
    expected = "a guid with hyphens" + (" other than zero" if mark.not_empty else "")

    def read(value: Any, _: Texts | None) -> str:
        if type(value) is not str:
            raise wrong_type(value, expected)
        lower = value.lower()
        if len(value) != 36 or _GUID.fullmatch(lower) is None:
            raise Fault("The text is not a guid.", expected)
        if mark.not_empty and lower == _ZERO_GUID:
            raise Fault("The guid is zero.", expected)
        return lower

    return read


def timestamp() -> Reader:
    """An instant as its canonical text."""
    return _converted(
        lambda value: instants.instant_text(instants.parse_instant(value)),
        "a timestamp with offset, such as 2026-10-05T12:00:00Z",
    )


def duration(mark: Member) -> Reader:
    """A duration as its canonical text, within its bounds."""
    least = None if mark.min_duration is None else instants.parse_duration(mark.min_duration)
    most = None if mark.max_duration is None else instants.parse_duration(mark.max_duration)
    expected = "a duration such as 1.02:03:04.5"
    expected += "" if least is None else f", at least {mark.min_duration}"
    expected += "" if most is None else f", at most {mark.max_duration}"

    def convert(value: str) -> str:
        ticks = instants.parse_duration(value)
        if least is not None and ticks < least:
            raise Fault("The duration is too short.", expected, mark.error_below or ErrorCode.VALIDATION)
        if most is not None and ticks > most:
            raise Fault("The duration is too long.", expected, mark.error_above or ErrorCode.VALIDATION)
        return instants.duration_text(ticks)

    return _converted(convert, expected)


def flags() -> Reader:
    """A set of capabilities as its canonical text."""
    names = [flag.name for flag in capabilities.CAPABILITIES]

    def read(value: Any, _: Texts | None) -> str:
        if type(value) is not str:
            raise wrong_type(value, "capability names joined by commas")
        try:
            return capabilities.canonical(value)
        except KeyLoadError as error:
            wrong = next((name for name in value[:4096].split(",") if name.strip(" ") not in names), "")
            expected = "All, None, or names joined by commas: " + one_of(names, wrong.strip(" "))
            raise Fault(error.detail, expected) from error

    return read


def _converted(convert: Callable[[str], str], expected: str) -> Reader:
    def read(value: Any, _: Texts | None) -> str:
        if type(value) is not str:
            raise wrong_type(value, expected)
        try:
            return convert(value)
        except KeyLoadError as error:
            raise Fault(error.detail, expected, error.code) from error

    return read


def binary(mark: Member) -> Reader:
    """Standard base64 with padding; `min_items` and `max_items` bound the bytes."""
    least, most = mark.min_items or 0, mark.max_items
    expected = "standard base64 with padding" + ("" if most is None else f" of {least} to {most} bytes")

    def read(value: Any, _: Texts | None) -> bytes:
        if type(value) is not str:
            raise wrong_type(value, expected)
        try:
            data = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Fault("The text is not base64.", expected) from error
        if base64.b64encode(data).decode("ascii") != value:
            raise Fault("The text is not base64.", expected)
        if len(data) < least:
            raise Fault("There are too few bytes.", expected, mark.error_below or ErrorCode.VALIDATION)
        if most is not None and len(data) > most:
            raise Fault("There are too many bytes.", expected, mark.error_above or ErrorCode.VALIDATION)
        return data

    return read


def json_value(mark: Member) -> Reader:
    """Any JSON value, with exact numbers (CON-23) where the member wants them."""
    if not mark.exact:
        return lambda value, _: value

    def read(value: Any, _: Texts | None) -> Any:
        try:
            return json_text.exact(value)
        except KeyLoadError as error:
            expected = error.expected or "any JSON value"
            raise Fault(error.detail, expected, error.code, error.path) from error

    return read


def choice(kind: type[Choice]) -> Reader:
    """The exact name of an enum member (CON-9)."""
    names = {str(member): member for member in kind}

    def read(value: Any, _: Texts | None) -> Choice:
        if type(value) is not str:
            raise wrong_type(value, one_of(names))
        member = names.get(value)
        if member is None:
            raise Fault("The name is unknown.", one_of(names, value))
        return member

    return read


def computed() -> Reader:
    """A member that the server computes: any text or null, dropped."""

    def read(value: Any, _: Texts | None) -> None:
        if value is not None and type(value) is not str:
            raise wrong_type(value, "a text or null; it is ignored")

    return read


def scalar(name: str, mark: Member, form: str | None, quoted: bool) -> Reader:
    """The reader of a scalar; `form` is the text format of the value or item."""
    match name:
        case "boolean":
            return boolean()
        case "int32" | "int64":
            return integer(mark, quoted)
        case "float" | "double":
            return real(mark)
        case "guid":
            return guid(mark)
        case "timestamp":
            return timestamp()
        case "duration":
            return duration(mark)
        case "base64":
            return binary(mark)
        case "flags":
            return flags()
        case "json":
            return json_value(mark)
        case _:
            return text(mark, form)
