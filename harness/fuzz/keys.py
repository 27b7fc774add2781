"""The target of tuple keys."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any

import msgspec

from harness.fuzz.source import Source, attempt
from keyload.codec.tuples import MISSING, Timestamp, fast_pack, reference_pack, unpack
from keyload.contract.errors import ErrorCode, KeyLoadError

SCAN_END = b"\xff"
"""A scan of the keys that begin with a tuple ends before its bytes and this one."""

_RANKS = (msgspec.UnsetType, type(None), bool, int, Decimal, float, Timestamp, str, bytes)


def keys(data: bytes) -> None:
    """Bytes are damaged or the one key of their parts, by both ways of packing; keys compare as tuples do,
    and a scan finds exactly those that begin with a tuple."""
    source = Source(data)
    texts = [source.block() for _ in range(2)]
    found = [_parts(text) for text in (*texts, source.rest())]
    tuples = [parts for parts in found if parts is not None]
    for left in tuples:
        for right in tuples:
            one, other = fast_pack(left), fast_pack(right)
            assert (one < other) == (_order(left) < _order(right))
            within = one <= other < one + SCAN_END
            assert within == (_order(right)[: len(left)] == _order(left))


def _parts(packed: bytes) -> tuple[Any, ...] | None:
    parts = attempt(lambda: unpack(packed), KeyLoadError)
    if isinstance(parts, KeyLoadError):
        assert parts.code is ErrorCode.CORRUPTION
        return None
    assert fast_pack(parts) == reference_pack(parts) == packed
    return parts


def _order(parts: tuple[Any, ...]) -> list[tuple[int, Any]]:
    """Something that Python compares as keys have to: kinds in order, then values."""
    return [(_RANKS.index(type(part)), _value(part)) for part in parts]


def _value(part: Any) -> Any:
    match part:
        case None | msgspec.UNSET:
            return 0
        case str():
            return part.encode("utf-8")
        case Timestamp():
            return part.ticks
        case _:
            return part


def keys_seeds() -> Iterator[bytes]:
    """Keys of every kind of part, side by side with a neighbour."""
    small = (MISSING, None, False, True, 0, 1, -1, 1023, 1024, -(2**64), 2**127, Decimal("1.5"))
    large = (Decimal("-0.001"), Decimal("1e40"), 0.0, -1.5, 1e300, Timestamp(-1), Timestamp(2**63 - 1))
    texts = ("", "a", "a\0b", "é", b"", b"\0\xff", b"\xff\0")
    for values in (small, large, texts):
        for left, right in pairwise(values):
            first, second = fast_pack((left,)), fast_pack((left, right))
            yield bytes((len(first),)) + first + bytes((len(second),)) + second + fast_pack((right,))
    yield b"\x00\x00" + b"\x40\x7f" + b"\xff" * 7
