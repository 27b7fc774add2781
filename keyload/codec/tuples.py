"""Order-preserving key encoding: the bytes of packed tuples compare as the tuples do (STO-20..22).

Components by rank: missing < null < false < true < integer < decimal < float < timestamp < text < bytes; the
kinds of number never compare with each other by value. A tuple sorts before every longer one that begins with
it, and its bytes are a prefix of the longer one's, so `pack(prefix)` starts a scan.

Each component is one tag byte and a body that tells its own end:

* integer: the tag holds sign and byte count, the body the magnitude big-endian (inverted when negative);
* decimal: 2 bytes of biased exponent, digit pairs as 1..100, then 0 (inverted when negative);
* float: IEEE 754 bits made comparable; timestamp: signed ticks with the sign bit flipped (8 bytes each);
* text and bytes: content with 00 written as 00 FF, then 00.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import msgspec

from keyload.codec import kernels
from keyload.contract.errors import ErrorCode, KeyLoadError

MISSING = msgspec.UNSET
"""The component of an absent member."""

MAX_COMPONENTS = 256


class Timestamp(msgspec.Struct, frozen=True, order=True):
    """An instant as a key component, in ticks; a bare int is an integer component."""

    ticks: int


Part = msgspec.UnsetType | None | bool | int | Decimal | float | Timestamp | str | bytes

_T_MISSING, _T_NULL, _T_FALSE, _T_TRUE = 0x02, 0x03, 0x04, 0x05
_T_ZERO = 0x20  # integers of n bytes: zero - n when negative, zero + n when positive
_INT_BYTES = 16  # 34 decimal digits need 15
_T_DECIMAL_NEGATIVE, _T_DECIMAL_ZERO, _T_DECIMAL_POSITIVE = 0x38, 0x39, 0x3A
_T_FLOAT, _T_TIMESTAMP, _T_TEXT, _T_BYTES = 0x40, 0x44, 0x48, 0x4C  # all tags stay below FF
_EXPONENT_BIAS = 0x8000
_SIGN_BIT = 1 << 63
_INVERT = bytes(255 - byte for byte in range(256))


def _refused(detail: str) -> KeyLoadError:
    return KeyLoadError(ErrorCode.VALIDATION, detail)


def _pack_int(value: int) -> bytes:
    magnitude = abs(value)
    size = (magnitude.bit_length() + 7) // 8
    if size > _INT_BYTES:
        raise _refused("An integer is too large for a key.")
    body = magnitude.to_bytes(size, "big")
    if value < 0:
        return bytes((_T_ZERO - size,)) + body.translate(_INVERT)
    return bytes((_T_ZERO + size,)) + body


def _pack_decimal(value: Decimal) -> bytes:
    if not value.is_finite():
        raise _refused("A key holds no infinity and no NaN.")
    if not value:
        return bytes((_T_DECIMAL_ZERO,))
    exponent = value.adjusted() + _EXPONENT_BIAS
    if not 0 <= exponent <= 0xFFFF:
        raise _refused("A number is too large or too small for a key.")
    digits = "".join(map(str, value.as_tuple().digits)).rstrip("0")
    digits += "0" * (len(digits) % 2)
    pairs = bytes(int(digits[place : place + 2]) + 1 for place in range(0, len(digits), 2))
    body = exponent.to_bytes(2, "big") + pairs + b"\x00"
    if value < 0:
        return bytes((_T_DECIMAL_NEGATIVE,)) + body.translate(_INVERT)
    return bytes((_T_DECIMAL_POSITIVE,)) + body


def _pack_float(value: float) -> bytes:
    if not math.isfinite(value):
        raise _refused("A key holds no infinity and no NaN.")
    (bits,) = struct.unpack(">Q", struct.pack(">d", value + 0.0))  # + 0.0 makes -0.0 zero
    bits = bits ^ 0xFFFFFFFFFFFFFFFF if bits & _SIGN_BIT else bits | _SIGN_BIT
    return bytes((_T_FLOAT,)) + bits.to_bytes(8, "big")


def _pack_timestamp(value: Timestamp) -> bytes:
    ticks = value.ticks + _SIGN_BIT
    if not 0 <= ticks < 1 << 64:
        raise _refused("A timestamp is out of range.")
    return bytes((_T_TIMESTAMP,)) + ticks.to_bytes(8, "big")


def _pack_text(value: str) -> bytes:
    try:
        data = value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _refused("A text holds a lone surrogate.") from error
    return bytes((_T_TEXT,)) + data.replace(b"\x00", b"\x00\xff") + b"\x00"


def _pack_bytes(value: bytes) -> bytes:
    return bytes((_T_BYTES,)) + value.replace(b"\x00", b"\x00\xff") + b"\x00"


_PACKERS: dict[type, Callable[[Any], bytes]] = {
    type(MISSING): lambda _: bytes((_T_MISSING,)),
    type(None): lambda _: bytes((_T_NULL,)),
    bool: lambda value: bytes((_T_TRUE if value else _T_FALSE,)),
    int: _pack_int,
    Decimal: _pack_decimal,
    float: _pack_float,
    Timestamp: _pack_timestamp,
    str: _pack_text,
    bytes: _pack_bytes,
}


def _pack_any(part: Any) -> bytes:
    packer = _PACKERS.get(part.__class__)
    if packer is None:
        raise _refused("A value of this type cannot be part of a key.")
    return packer(part)


def _joined(packed: list[bytes]) -> bytes:
    if len(packed) > MAX_COMPONENTS:
        raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, "A key has more than 256 components.")
    return b"".join(packed)


def reference_pack(parts: Iterable[Part]) -> bytes:
    """The same as `pack`, every component by its own packer."""
    return _joined([_pack_any(part) for part in parts])


_SMALL_INTS = {value: _pack_int(value) for value in range(1024)}


def fast_pack(parts: Iterable[Any]) -> bytes:
    """The same as `pack`, with short cuts for plain texts and small counts, which most keys consist of."""
    packed: list[bytes] = []
    for part in parts:
        kind = part.__class__
        if kind is str and part.isascii() and "\x00" not in part:
            packed.append(b"\x48%b\x00" % part.encode("ascii"))
        elif kind is int and part in _SMALL_INTS:
            packed.append(_SMALL_INTS[part])
        else:
            packed.append(_pack_any(part))
    return _joined(packed)


pack: Callable[[Iterable[Part]], bytes] = (
    fast_pack if kernels.register("key encoding", "short cuts") else reference_pack
)
"""`pack(parts) -> bytes`. Validation for NaN, infinity, a lone surrogate or a number out of reach;
ResourceExhausted above 256 components."""


def unpack(data: bytes) -> tuple[Any, ...]:
    """The parts of a packed key; decimals come back without surplus zeros. Corruption for any other bytes."""
    parts: list[Any] = []
    place = 0
    try:
        while place < len(data):
            part, place = _unpack_one(data, place)
            parts.append(part)
    except (ValueError, IndexError, struct.error) as error:
        raise KeyLoadError(ErrorCode.CORRUPTION, "A stored key is damaged.") from error
    if len(parts) > MAX_COMPONENTS:
        raise KeyLoadError(ErrorCode.CORRUPTION, "A stored key has more than 256 components.")
    return tuple(parts)


_CONSTANTS: dict[int, Any] = {
    _T_MISSING: MISSING,
    _T_NULL: None,
    _T_FALSE: False,
    _T_TRUE: True,
    _T_DECIMAL_ZERO: Decimal(0),
}


def _unpack_one(data: bytes, place: int) -> tuple[Any, int]:
    """The part that begins at `place` and the place after it; ValueError or IndexError when damaged."""
    tag = data[place]
    place += 1
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], place
    if _T_ZERO - _INT_BYTES <= tag <= _T_ZERO + _INT_BYTES:
        return _unpack_int(tag - _T_ZERO, data, place)
    match tag:
        case 0x38 | 0x3A:
            return _unpack_decimal(tag == _T_DECIMAL_NEGATIVE, data, place)
        case 0x40:
            bits = int.from_bytes(_take(data, place, 8), "big")
            bits = bits ^ _SIGN_BIT if bits & _SIGN_BIT else bits ^ 0xFFFFFFFFFFFFFFFF
            (value,) = struct.unpack(">d", bits.to_bytes(8, "big"))
            if not math.isfinite(value) or bits == _SIGN_BIT:
                raise ValueError("not a finite number, or a zero below zero")
            return value, place + 8
        case 0x44:
            return Timestamp(int.from_bytes(_take(data, place, 8), "big") - _SIGN_BIT), place + 8
        case 0x48:
            content, place = _unpack_content(data, place)
            return content.decode("utf-8"), place
        case 0x4C:
            return _unpack_content(data, place)
        case _:
            raise ValueError("unknown tag")


def _take(data: bytes, place: int, size: int) -> bytes:
    body = data[place : place + size]
    if len(body) != size:
        raise ValueError("cut short")
    return body


def _unpack_int(size: int, data: bytes, place: int) -> tuple[int, int]:
    body = _take(data, place, abs(size))
    magnitude = int.from_bytes(body.translate(_INVERT) if size < 0 else body, "big")
    if (magnitude.bit_length() + 7) // 8 != abs(size):
        raise ValueError("surplus bytes")
    return (-magnitude if size < 0 else magnitude), place + abs(size)


def _unpack_decimal(negative: bool, data: bytes, place: int) -> tuple[Decimal, int]:
    end = data.index(b"\xff" if negative else b"\x00", place + 2)
    body = data[place:end].translate(_INVERT) if negative else data[place:end]
    pairs = body[2:]
    if not pairs or pairs[0] <= 10 or pairs[-1] == 1 or max(pairs) > 100:
        raise ValueError("not a digit pair")
    digits = "".join(f"{pair - 1:02d}" for pair in pairs).rstrip("0")
    exponent = int.from_bytes(body[:2], "big") - _EXPONENT_BIAS - len(digits) + 1
    return Decimal((int(negative), tuple(map(int, digits)), exponent)), end + 1


def _unpack_content(data: bytes, place: int) -> tuple[bytes, int]:
    """Content up to the 00 that no FF follows."""
    end = data.index(b"\x00", place)
    while data[end + 1 : end + 2] == b"\xff":
        end = data.index(b"\x00", end + 2)
    return data[place:end].replace(b"\x00\xff", b"\x00"), end + 1
