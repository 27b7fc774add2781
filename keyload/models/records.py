"""Stored values: MessagePack of array-like structs, and `Corruption` when one cannot be read back.

Members are only ever added at the end and with a default, so that older values stay readable.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from keyload.contract.errors import ErrorCode, KeyLoadError

T = TypeVar("T")

_ENCODE = msgspec.msgpack.Encoder().encode


def pack_record(value: object) -> bytes:
    """MessagePack of a stored record."""
    return _ENCODE(value)


class Stored(Generic[T]):
    """Encoder and decoder of one kind of stored record; `name` is the closed category told on damage."""

    __slots__ = ("_decode", "encode", "name")

    def __init__(self, kind: type[T], name: str) -> None:
        self.name = name
        self.encode = _ENCODE
        self._decode = msgspec.msgpack.Decoder(kind).decode

    def decode(self, data: bytes) -> T:
        """The record; `Corruption` when the bytes are not one (STO-16)."""
        try:
            return self._decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise KeyLoadError(ErrorCode.CORRUPTION, f"A stored {self.name} cannot be read.") from error
