"""Untyped MessagePack for stored rows: what was packed comes back, with tuples as lists.

Values are None, bool, int of 64 bits, float, str, bytes, lists and dicts of these. Bytes that are not exactly
one such value are Corruption: they come from disk or from a peer, never from a caller.
"""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keyload.codec import kernels  # first: it sets what msgpack reads when it is imported

# isort: split
import msgpack

from keyload.contract.errors import ErrorCode, KeyLoadError

_IN_C = not str(vars(msgpack)["Packer"].__module__).endswith("fallback")
kernels.note("messagepack", "c" if _IN_C else kernels.REFERENCE)

_packb: Callable[..., bytes] = msgpack.packb  # pyright: ignore
_unpackb: Callable[..., Any] = msgpack.unpackb  # pyright: ignore

_MAX_BYTES = 64 << 20  # far above a full batch (8 MiB); stops a damaged length from asking for gigabytes


def pack(value: Any) -> bytes:
    """MessagePack of `value`. Validation for an integer outside 64 bits, a lone surrogate, a foreign type."""
    try:
        return _packb(value, use_bin_type=True)
    except (OverflowError, TypeError, ValueError, RecursionError) as error:
        raise KeyLoadError(ErrorCode.VALIDATION, "A value cannot be stored.") from error


def unpack(data: bytes) -> Any:
    """The value packed in `data`; Corruption when it is not exactly one value, is too large or too deep."""
    if len(data) > _MAX_BYTES:
        raise KeyLoadError(ErrorCode.CORRUPTION, "A stored value is too large.")
    try:
        return _unpackb(data, raw=False, strict_map_key=False, ext_hook=_refuse, timestamp=0)
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
        raise KeyLoadError(ErrorCode.CORRUPTION, "A stored value is damaged.") from error


def _refuse(code: int, _data: bytes) -> Any:
    raise ValueError(f"extension type {code} is not used")
