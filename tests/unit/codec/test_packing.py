"""Untyped MessagePack for stored rows, in C and in Python."""

from __future__ import annotations

from typing import Any

import msgpack
import msgpack.fallback
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyload.codec import packing
from keyload.contract.errors import ErrorCode
from tests.unit.codec.support import bounded, refusal, refused, texts, trees

values = trees(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | texts
    | st.binary(max_size=8)
)


@bounded
@given(values)
def test_a_packed_value_comes_back(value: Any) -> None:
    assert packing.unpack(packing.pack(value)) == value


@pytest.mark.covers("TST-6", "TST-8")
@bounded
@given(values)
def test_both_forms_give_the_same_bytes(value: Any) -> None:
    assert msgpack.fallback.Packer(use_bin_type=True).pack(value) == packing.pack(value)
    unpacker = msgpack.fallback.Unpacker(raw=False, strict_map_key=False)
    unpacker.feed(packing.pack(value))
    assert unpacker.unpack() == value


@bounded
@given(st.binary(max_size=30))
def test_any_bytes_are_a_value_or_corruption(data: bytes) -> None:
    assert refused(lambda: packing.unpack(data)) in (None, ErrorCode.CORRUPTION)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x01\x02",
        b"\xdd\xff\xff\xff\xff",
        b"\xd4\x01\x00",
        b"\xa1\xff",
        b"\x91" * 2000,
        b"\x81\x90\x01",
    ],
)
def test_damaged_bytes_are_corruption(data: bytes) -> None:
    refusal(lambda: packing.unpack(data), ErrorCode.CORRUPTION)


@pytest.mark.parametrize("value", [1 << 64, object(), "\ud800", {1, 2}])
def test_a_foreign_value_is_refused(value: Any) -> None:
    refusal(lambda: packing.pack(value))
