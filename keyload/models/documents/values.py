"""JSON values as components of index keys (DOC-21, DOC-22)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from keyload.codec.instants import parse_instant
from keyload.codec.tuples import MISSING as MISSING_PART
from keyload.codec.tuples import Part, Timestamp


def key_part(value: Any, *, timestamp: bool) -> Part:
    """The key component of a value; the missing one for an object, an array or nothing at all.

    Every number becomes a decimal, so that numbers equal in value have one key whatever their spelling.
    `timestamp` marks a column that compares by instant (REL-19).
    """
    if value is None or isinstance(value, bool | Decimal):
        return value
    if isinstance(value, int):
        return Decimal(value)
    if isinstance(value, str):
        return Timestamp(parse_instant(value)) if timestamp else value
    return MISSING_PART
