"""The stored form of keys and values (STO-16, STO-21).

Keys of at most 510 bytes are stored as they are. A longer key is stored under exactly 511 bytes, its first
479 bytes and its SHA-256, and stands in full before its value. Every value ends in a checksum over key
and value. The leader makes the stored form once; replicas put its bytes.

A write set is a list of (physical key, physical value), the value None for a delete.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from keyload.codec.checksums import crc32
from keyload.contract.errors import ErrorCode, KeyLoadError

WriteSet = list[tuple[bytes, bytes | None]]

SHORT_KEY_BYTES = 510
"""Longest key that is stored as it is; one below LMDB's limit, so that a length of 511 marks the others."""

LONG_KEY_BYTES = 511
"""Length of every physical key that ends in a hash."""

PREFIX_BYTES = 479
"""How much of a long key stands before its hash: 511 minus the 32 bytes of SHA-256."""

LENGTH_BYTES = 4
"""A long record begins with the length of its full key."""

CHECKSUM_BYTES = 4
"""Every record ends in the CRC-32 of physical key and value."""

_WHOLE = 0x2144DF1C
"""CRC-32 of anything that is followed by its own CRC-32, little-endian."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(WriteSet)


def physical_key(key: bytes) -> bytes:
    """Where a logical key is stored. Validation for the empty key."""
    if 0 < len(key) <= SHORT_KEY_BYTES:
        return key
    if not key:
        raise KeyLoadError(ErrorCode.VALIDATION, "A key is empty.")
    return key[:PREFIX_BYTES] + hashlib.sha256(key).digest()


def stored_form(writes: Mapping[bytes, bytes | None]) -> WriteSet:
    """Physical form of a transaction's writes, in their order."""
    result: WriteSet = []
    for key, value in writes.items():
        place = physical_key(key)
        if value is None:
            result.append((place, None))
            continue
        body = value if place is key else len(key).to_bytes(LENGTH_BYTES, "little") + key + value
        result.append((place, body + crc32(body, crc32(place)).to_bytes(CHECKSUM_BYTES, "little")))
    return result


def logical_form(place: bytes, stored: bytes | None) -> tuple[bytes, bytes | None]:
    """Undo `stored_form` for one write; Corruption when the checksum is wrong.

    The delete of a long key does not carry that key: its physical key is returned in its place.
    """
    if stored is None:
        return place, None
    if len(place) != LONG_KEY_BYTES:
        return place, checked_value(place, stored)
    key = long_key(place, stored)
    return key, checked_long_value(place, stored, key)


def checked_value(place: bytes, stored: bytes | memoryview) -> bytes:
    """Value of a short key; Corruption when the checksum is wrong (STO-16)."""
    if crc32(stored, crc32(place)) != _WHOLE or len(stored) < CHECKSUM_BYTES:
        raise damaged_record()
    return bytes(stored[:-CHECKSUM_BYTES])


def checked_long_value(place: bytes, stored: bytes | memoryview, key: bytes) -> bytes:
    """Value of the long key `key`; Corruption when the checksum or the key inside is wrong."""
    body = checked_value(place, stored)
    head = LENGTH_BYTES + len(key)
    if body[:LENGTH_BYTES] != len(key).to_bytes(LENGTH_BYTES, "little") or body[LENGTH_BYTES:head] != key:
        raise damaged_record()
    return body[head:]


def long_key_bytes(stored: bytes | memoryview) -> int:
    """Length of the full key in a long record."""
    return int.from_bytes(stored[:LENGTH_BYTES], "little")


def long_key(place: bytes, stored: bytes | memoryview) -> bytes:
    """Full key of a long record, proven by its hash alone; Corruption when it is not that of its place."""
    key = bytes(stored[LENGTH_BYTES : LENGTH_BYTES + long_key_bytes(stored)])
    if len(key) <= SHORT_KEY_BYTES or physical_key(key) != place:
        raise damaged_record()
    return key


def damaged_record() -> KeyLoadError:
    """The answer for a record that is not what was stored."""
    return KeyLoadError(ErrorCode.CORRUPTION, "A stored record does not match its key and checksum.")


def pack_writes(writes: WriteSet) -> bytes:
    """A write set as it stands in a log entry: MessagePack, a list of pairs."""
    return _encoder.encode(writes)


def unpack_writes(data: bytes) -> WriteSet:
    """The write set of a log entry; Corruption when it is none."""
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise KeyLoadError(ErrorCode.CORRUPTION, "A log entry does not hold a write set.") from error
