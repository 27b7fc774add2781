"""Key tuples: order, inverses, bounds, and both forms."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keyload.codec import tuples
from keyload.codec.tuples import MISSING, Timestamp
from keyload.contract.errors import ErrorCode
from tests.unit.codec.support import bounded, refusal, refused, texts

decimals = st.builds(
    lambda sign, digits, exponent: Decimal((sign, tuple(map(int, str(digits))), exponent)),
    st.integers(0, 1),
    st.integers(0, 10**34 - 1) | st.integers(0, 200),
    st.integers(-6144, 6110) | st.integers(-3, 3),
)
parts = (
    st.just(MISSING)
    | st.none()
    | st.booleans()
    | st.integers(-(10**34), 10**34)
    | st.integers(-300, 1100)
    | decimals
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**63), 2**63 - 1).map(Timestamp)
    | texts
    | st.text("\x00\x01ab", max_size=4)
    | st.binary(max_size=6)
)
keys = st.lists(parts, max_size=5).map(tuple)

RANKS: tuple[type, ...] = (type(MISSING), type(None), bool, int, Decimal, float, Timestamp, str, bytes)


def logical(key: tuple[Any, ...]) -> list[tuple[int, Any]]:
    """A value that sorts as the key shall."""
    order: list[tuple[int, Any]] = []
    for part in key:
        rank = RANKS.index(type(part))
        value = part.encode() if isinstance(part, str) else 0 if rank < 2 else part
        order.append((rank, value))
    return order


@pytest.mark.covers("STO-20", "STO-21")
@bounded
@given(keys, keys)
def test_bytes_sort_as_the_tuples_do(first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    one, two = tuples.pack(first), tuples.pack(second)
    assert (one < two) is (logical(first) < logical(second))
    assert (one == two) is (logical(first) == logical(second))


@pytest.mark.covers("STO-20")
@bounded
@given(decimals, decimals)
def test_decimals_sort_by_value(first: Decimal, second: Decimal) -> None:
    assert (tuples.pack((first,)) < tuples.pack((second,))) is (first < second)


@pytest.mark.covers("STO-21")
@bounded
@given(keys)
def test_unpacking_is_the_inverse(key: tuple[Any, ...]) -> None:
    found = tuples.unpack(tuples.pack(key))
    assert logical(found) == logical(key)
    assert tuples.pack(found) == tuples.pack(key)


@pytest.mark.covers("TST-6", "TST-8")
@bounded
@given(keys)
def test_both_forms_give_the_same_bytes(key: tuple[Any, ...]) -> None:
    assert tuples.fast_pack(key) == tuples.reference_pack(key) == tuples.fast_pack(iter(key))


@pytest.mark.covers("STO-21")
@bounded
@given(keys, keys)
def test_a_prefix_packs_to_a_prefix(first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    assert tuples.pack(first + second) == tuples.pack(first) + tuples.pack(second)


@pytest.mark.covers("STO-22")
@bounded
@given(st.binary(max_size=30) | keys.map(tuples.pack).map(lambda data: data[:-1] + b"\x07"))
@example(b"\x40\x7f" + b"\xff" * 7)  # a zero below zero
def test_any_bytes_are_the_key_of_their_parts_or_corruption(data: bytes) -> None:
    code = refused(lambda: tuples.unpack(data))
    assert code in (None, ErrorCode.CORRUPTION)
    assert code is not None or tuples.pack(tuples.unpack(data)) == data


@pytest.mark.covers("STO-22", "TST-5")
def test_bounds_of_a_key() -> None:
    packed = tuples.pack((None,) * 256)
    assert tuples.unpack(packed) == (None,) * 256
    for pack in (tuples.fast_pack, tuples.reference_pack):
        refusal(lambda pack=pack: pack((None,) * 257), ErrorCode.RESOURCE_EXHAUSTED)
        for part in (
            math.nan,
            math.inf,
            Decimal("NaN"),
            Decimal("Infinity"),
            "\ud800",
            1 << 128,
            Decimal("1e40000"),
        ):
            refusal(lambda pack=pack, part=part: pack((part,)))
        refusal(lambda pack=pack: pack(([],)))
        refusal(lambda pack=pack: pack((Timestamp(1 << 63),)))
    refusal(lambda: tuples.unpack(packed + packed[:1]), ErrorCode.CORRUPTION)


def test_keys_are_short() -> None:
    assert len(tuples.pack(("orders", 7, "o-1"))) == 8 + 2 + 5
