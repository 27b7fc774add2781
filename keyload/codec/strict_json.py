"""One strict pass over JSON from outside (HTTP-7, MCP-7, CON-3..5).

The result is a tree of dict, list, str, bool, None, int and Decimal: a number written without fraction and
exponent is an int, any other number a Decimal of exactly the written value and spelling. (An integer of more
digits than Python converts is a Decimal too; no integer member can hold it.)
"""

from __future__ import annotations

import json
import json.decoder
import json.scanner
import re
from array import array
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from itertools import accumulate
from typing import Any, NoReturn, cast

from keyload.codec import kernels, places
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.limits import REQUEST_MAX_DEPTH

Scan = Callable[[str, int], tuple[Any, int]]


def invalid(detail: str, expected: str, path: str | None = None) -> KeyLoadError:
    """A Validation failure of the form of the text; `path` is the pointer of the place inside it."""
    return KeyLoadError(ErrorCode.VALIDATION, detail, path=path, expected=expected)


def parse(data: bytes, max_depth: int = REQUEST_MAX_DEPTH, max_tokens: int | None = None) -> Any:
    """The tree of one JSON value in UTF-8.

    Validation, with place, byte offset or the member concerned, for: bytes that are not UTF-8, a byte order
    mark, anything RFC 8259 does not allow, NaN and infinity, an object that names a member twice, a lone
    surrogate escape, more than `max_depth` levels of arrays and objects, more than `max_tokens` values, names
    and punctuation marks.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: min(error.start, places.MAX_LOOKED_AT)].decode("utf-8", "ignore")
        place = places.place_at(before, len(before)) if error.start <= places.MAX_LOOKED_AT else ""
        raise invalid(f"The text is not UTF-8 at byte {error.start}.", "text in UTF-8", place) from error
    if text.startswith("\ufeff"):
        raise invalid("The text begins with a byte order mark.", "UTF-8 without byte order mark", "")
    check_shape(data, max_depth, max_tokens)
    tree = scan(text, _SCAN, _SCAN_LONG)
    check_surrogates(text)
    return tree


# --- scanning ----------------------------------------------------------------------------------------------


def scan(text: str, scanner: Scan, long_scanner: Scan) -> Any:
    """The tree of `text`; `long_scanner` takes over when `scanner` meets an integer too long for it."""
    try:
        return _scan_whole(text, scanner)
    except _Misplaced as fault:
        raise invalid(fault.detail, fault.expected, places.place_where(text, fault.wrong)) from None
    except json.JSONDecodeError as error:
        in_string = error.msg.startswith(("Invalid", "Unterminated"))
        raise _not_json(text, _string_fault(text) if in_string else error.pos) from error
    except ValueError:
        return scan(text, long_scanner, long_scanner)
    except RecursionError as error:
        raise _too_deep(text, REQUEST_MAX_DEPTH) from error


class _Misplaced(Exception):
    """What a hook of the scanner refuses without knowing where it stands; `wrong` finds it again."""

    def __init__(self, detail: str, expected: str, wrong: Callable[[places.Token], bool]) -> None:
        super().__init__(detail)
        self.detail = detail
        self.expected = expected
        self.wrong = wrong


def refuse_number(spelling: str, detail: str, expected: str) -> NoReturn:
    """Refuse a number inside a hook of the scanner; the place of its spelling is told."""
    raise _Misplaced(detail, expected, lambda token: token.text == spelling)


def _scan_whole(text: str, scanner: Scan) -> Any:
    start = _skip_space(text, 0)
    try:
        tree, end = scanner(text, start)
    except StopIteration as stop:
        raise json.JSONDecodeError("value expected", text, stop.value) from None
    end = _skip_space(text, end)
    if end != len(text):
        raise json.JSONDecodeError("end expected", text, end)
    return tree


_SPACE = re.compile(r"[ \t\n\r]*")


def _skip_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    assert match is not None
    return match.end()


_GOOD_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+("?)')


def _string_fault(text: str) -> int:
    """Where the first string that is wrong goes wrong; the scanners in C and Python say this differently."""
    return next((match.end() for match in _GOOD_STRING.finditer(text) if not match[1]), len(text))


def _not_json(text: str, place: int) -> KeyLoadError:
    offset = len(text[:place].encode("utf-8"))
    expected = "one JSON value as in RFC 8259"
    return invalid(f"The text is not JSON at byte {offset}.", expected, places.place_at(text, place))


def make_scanner(parse_int: Callable[[str], Any], parse_float: Callable[[str], Any], fast: bool) -> Scan:
    """A function from text and start to tree and end, with these readings of numbers.

    The fast form is the standard library's scanner in C, the reference form the one in Python.
    """
    decoder: Any = json.JSONDecoder(
        object_pairs_hook=_object,
        parse_int=parse_int,
        parse_float=parse_float,
        parse_constant=_refuse_constant,
    )
    if fast:
        return decoder.scan_once
    return _reference_scanner(decoder)


def _reference_scanner(decoder: Any) -> Scan:
    """The standard library's scanner in Python, kept to ASCII digits as the one in C is."""
    plain: Any = json.decoder
    scanner: Any = json.scanner
    decoder.parse_object = plain.JSONObject
    decoder.parse_array = plain.JSONArray
    decoder.parse_string = _reference_string
    wide = scanner.NUMBER_RE
    scanner.NUMBER_RE = re.compile(wide.pattern, (wide.flags & ~re.UNICODE) | re.ASCII)
    try:
        return scanner.py_make_scanner(decoder)
    finally:
        scanner.NUMBER_RE = wide


def _reference_string(text: str, start: int, strict: bool = True) -> tuple[str, int]:
    """A string behind its quote, as the standard library reads it in Python; that takes signs, spaces and
    underscores for hexadecimal digits of an escape, and the one in C does not."""
    found, end = cast("Any", json.decoder).py_scanstring(text, start, strict)
    if _GOOD_STRING.fullmatch(text, start - 1, end) is None:
        raise json.JSONDecodeError("Invalid escape", text, start)
    return found, end


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                detail = f"A member occurs twice in one object: {shown(name)}."
                raise _Misplaced(detail, "unique member names", lambda token: token.repeated)
            seen.add(name)
    return tree


def shown(name: str) -> str:
    """A member name as it may stand in a detail: ASCII, quoted, at most some 60 characters."""
    short = name if len(name) <= 60 else name[:57] + "..."
    return json.dumps(short)


def _refuse_constant(name: str) -> NoReturn:
    refuse_number(name, f"{name} is not a JSON number.", "a finite number")


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        refuse_number(text, "The exponent of a number is out of all bounds.", "a finite number")


def _whole(text: str) -> int | Decimal:
    try:
        return int(text)
    except ValueError:  # more digits than Python converts
        return _decimal(text)


_IN_C = vars(json.scanner)["c_make_scanner"] is not None
_FAST = kernels.register("json", "c" if _IN_C else kernels.REFERENCE)
_SCAN = make_scanner(int, _decimal, _FAST)
_SCAN_LONG = make_scanner(_whole, _decimal, _FAST)

# --- shape and surrogates ----------------------------------------------------------------------------------

_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # as signed bytes: one level in, one level out
_SPACES = b" \t\n\r"
_NOT_MARKS = bytes(byte for byte in range(256) if byte not in b'[]{}:,"')
_STRIDE = 4_096


def check_shape(data: bytes, max_depth: int, max_tokens: int | None = None) -> None:
    """Refuse with Validation what is nested deeper or has more tokens than allowed, before it is scanned.

    Costs next to nothing for a text that has no more brackets, or bytes, than levels or tokens are allowed.
    """
    most_tokens = len(data) if max_tokens is None else max_tokens
    may_be_deep = data.count(b"[") + data.count(b"{") > max_depth
    if not may_be_deep and len(data) <= most_tokens:
        return
    whole = _without_escapes(data)
    if whole.count(b'"') - 1 > most_tokens:  # two a string, which is a token with a mark before it
        raise _too_many(most_tokens)
    marks = _marks(whole)
    if len(data) > most_tokens and _has_more_tokens(whole, marks, most_tokens):
        raise _too_many(most_tokens)
    if may_be_deep and _is_deeper(marks, max_depth):
        raise _too_deep(data.decode("utf-8"), max_depth)


def _is_deeper(marks: bytes, most: int) -> bool:
    """Whether a text with these marks has more levels than `most`."""
    steps = array("b", marks.translate(_STEPS, b":,"))
    depth = 0
    for start in range(0, len(steps), _STRIDE):
        depths = list(accumulate(steps[start : start + _STRIDE], initial=depth))
        if max(depths) > most:
            return True
        depth = depths[-1]
    return False


def _too_many(most: int) -> KeyLoadError:
    return invalid("The text has too many values.", f"at most {most} values, names and marks", "")


def _has_more_tokens(whole: bytes, marks: bytes, most: int) -> bool:
    """Whether a text with these marks has more tokens than `most`; anything when it is no JSON.

    Tokens are values, names and marks. Only marks are counted: every comma and colon has a value behind it,
    every pair of brackets is two marks and has a value in it unless it is empty, and there is one value
    around all.
    """
    pairs = marks.count(b"[") + marks.count(b"{")
    tokens = 1 + 2 * (marks.count(b",") + marks.count(b":") + pairs)
    if not most < tokens <= most + pairs:
        return tokens > most
    bare = b"v".join(whole.split(b'"')[::2]).translate(None, _SPACES)
    return tokens - bare.count(b"[]") - bare.count(b"{}") > most


def _marks(whole: bytes) -> bytes:
    """The brackets, colons and commas that are not in the strings of a text without escaped quotes."""
    marks = whole.translate(None, _NOT_MARKS).replace(b'""', b"")
    if b'"' in marks:  # what is left are strings with marks inside
        marks = b"".join(marks.split(b'"')[::2])
    return marks


def _without_escapes(data: bytes) -> bytes:
    """The text with no quote in it but those around strings."""
    return data.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in data else data


def _too_deep(text: str, max_depth: int) -> KeyLoadError:
    def first(token: places.Token) -> bool:
        return token.text in ("[", "{") and len(token.frames) >= max_depth

    expected = f"at most {max_depth} levels of arrays and objects"
    return invalid("The text is nested too deep.", expected, places.place_where(text, first))


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def check_surrogates(text: str) -> None:
    """Refuse with Validation the escape of half a surrogate pair. `text` is known to be JSON."""
    if _SURROGATE.search(text) is None:
        return
    high_end = -1  # where a high surrogate ended that waits for its low half
    for match in _ESCAPE.finditer(text):
        unit = int(match[1], 16) if match[1] else 0
        waits = high_end == match.start()
        low = 0xDC00 <= unit <= 0xDFFF
        if waits != low or (high_end >= 0 and not waits):
            raise _lone(text, match.start())
        high_end = match.end() if 0xD800 <= unit <= 0xDBFF else -1
    if high_end >= 0:
        raise _lone(text, high_end)


def _lone(text: str, place: int) -> KeyLoadError:
    offset = len(text[:place].encode("utf-8"))
    detail = f"A surrogate escape stands alone near byte {offset}."
    return invalid(detail, "whole characters", places.place_at(text, place))
