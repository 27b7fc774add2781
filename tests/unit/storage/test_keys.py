"""The stored form of keys and values."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import logical_form, pack_writes, stored_form, unpack_writes
from keyload.storage.keys import LONG_KEY_BYTES, SHORT_KEY_BYTES, physical_key
from tests.unit.storage import support


@pytest.mark.covers("STO-21")
@pytest.mark.parametrize("length", [1, 479, 480, SHORT_KEY_BYTES])
def test_short_keys_are_stored_as_they_are(length: int) -> None:
    assert physical_key(b"k" * length) == b"k" * length


@pytest.mark.covers("STO-21")
@pytest.mark.parametrize("length", [SHORT_KEY_BYTES + 1, LONG_KEY_BYTES + 1, 5000])
def test_long_keys_are_stored_under_prefix_and_hash(length: int) -> None:
    place = physical_key(b"k" * length)
    assert len(place) == LONG_KEY_BYTES
    assert place.startswith(b"k" * 479)
    assert place != physical_key(b"k" * (length + 1))


@pytest.mark.covers("STO-21", "STO-16")
@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.dictionaries(support.keys(), st.none() | support.values()))
def test_the_stored_form_is_undone_exactly(writes: dict[bytes, bytes | None]) -> None:
    stored = unpack_writes(pack_writes(stored_form(writes)))
    back = [logical_form(place, value) for place, value in stored]
    assert back == [(physical_key(key) if value is None else key, value) for key, value in writes.items()]


@pytest.mark.covers("STO-16")
@pytest.mark.parametrize("key", [b"key", b"k" * 600])
def test_every_wrong_byte_of_a_stored_value_is_noticed(key: bytes) -> None:
    ((place, value),) = stored_form({key: b"value"})
    assert value is not None
    for offset in range(len(value)):
        wrong = bytearray(value)
        wrong[offset] ^= 0x40
        with pytest.raises(KeyLoadError) as caught:
            logical_form(place, bytes(wrong))
        assert caught.value.code == ErrorCode.CORRUPTION
    for length in range(len(value)):
        with pytest.raises(KeyLoadError, match="Corruption"):
            logical_form(place, value[:length])


@pytest.mark.covers("STO-16")
def test_a_value_under_another_key_is_noticed() -> None:
    ((_, value),) = stored_form({b"key": b"value"})
    with pytest.raises(KeyLoadError, match="Corruption"):
        logical_form(b"other", value)


def test_the_empty_key_is_refused() -> None:
    with pytest.raises(KeyLoadError, match="Validation"):
        stored_form({b"": b"value"})


@pytest.mark.covers("STO-4")
@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80", b"\x91\x92\xa1a\xc0", b"\x91\x91\xc4\x01a"])
def test_what_is_no_write_set_is_corruption(data: bytes) -> None:
    with pytest.raises(KeyLoadError, match="Corruption"):
        unpack_writes(data)
