"""CRC-32 (the polynomial of zlib and Ethernet) over stored and sent bytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from keyload.codec import kernels

_POLYNOMIAL = 0xEDB88320


def _table_entry(byte: int) -> int:
    value = byte
    for _ in range(8):
        value = (value >> 1) ^ _POLYNOMIAL if value & 1 else value >> 1
    return value


_TABLE = tuple(_table_entry(byte) for byte in range(256))


def reference_crc32(data: bytes | bytearray | memoryview, value: int = 0) -> int:
    """The same as `crc32`, one table step per byte."""
    value ^= 0xFFFFFFFF
    for byte in memoryview(data).cast("B"):
        value = _TABLE[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


crc32: Callable[..., int] = zlib.crc32 if kernels.register("checksum", "zlib") else reference_crc32
"""`crc32(data, value=0) -> int`: unsigned 32-bit checksum; `value` continues an earlier one."""
