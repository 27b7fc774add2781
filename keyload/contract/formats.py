"""The scalars and the text formats that members name: meaning, schema fragment, bounds and error codes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from keyload.contract.errors import ErrorCode


class Scalar(msgspec.Struct, frozen=True):
    """A plain value type; `schema` is the JSON Schema fragment for its input."""

    name: str
    meaning: str
    schema: dict[str, Any]


class TextFormat(msgspec.Struct, frozen=True):
    """A rule for a text: UTF-8 bound or None, code of a text that breaks it and of one above the bound."""

    name: str
    meaning: str
    schema: dict[str, Any]
    max_bytes: int | None = None
    error: ErrorCode = ErrorCode.VALIDATION
    error_above: ErrorCode = ErrorCode.VALIDATION


_SCALARS = (
    Scalar("boolean", "true or false.", {"type": "boolean"}),
    Scalar(
        "int32",
        "Whole number from -2147483648 to 2147483647.",
        {
            "anyOf": [
                {"type": "integer", "minimum": -2147483648, "maximum": 2147483647},
                {"type": "string", "pattern": "^-?(0|[1-9][0-9]*)$"},
            ]
        },
    ),
    Scalar(
        "int64",
        "Whole number from -9223372036854775808 to 9223372036854775807.",
        {
            "anyOf": [
                {"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807},
                {"type": "string", "pattern": "^-?(0|[1-9][0-9]*)$"},
            ]
        },
    ),
    Scalar("float", "Finite 32-bit floating-point number.", {"type": "number"}),
    Scalar("double", "Finite 64-bit floating-point number.", {"type": "number"}),
    Scalar("string", "Text.", {"type": "string"}),
    Scalar(
        "guid",
        "Guid text with hyphens.",
        {
            "type": "string",
            "pattern": "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
        },
    ),
    Scalar(
        "timestamp",
        "Instant with 100-nanosecond resolution.",
        {
            "type": "string",
            "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,7})?"
            r"(Z|[+-][0-9]{2}:[0-9]{2})$",
        },
    ),
    Scalar(
        "duration",
        "Length of time with 100-nanosecond resolution.",
        {
            "type": "string",
            "pattern": r"^-?([0-9]+\.)?([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,7})?$",
        },
    ),
    Scalar(
        "base64",
        "Bytes as standard base64 with padding.",
        {
            "type": "string",
            "contentEncoding": "base64",
            "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
        },
    ),
    Scalar("json", "Any JSON value; as array item or map value also null.", {}),
)

SCALARS: Mapping[str, Scalar] = MappingProxyType({scalar.name: scalar for scalar in _SCALARS})
"""Scalars by name."""

_FORMATS = (
    TextFormat(
        "identifier",
        "1..256 UTF-8 bytes, not blank, without control characters.",
        {"type": "string", "minLength": 1, "maxLength": 256},
        max_bytes=256,
    ),
    TextFormat(
        "keyId",
        "Key id: 1..64 letters, digits, hyphens and underscores.",
        {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
        max_bytes=64,
    ),
    TextFormat(
        "jsonPointer",
        ("JSON Pointer of at most 1024 characters; empty = the whole value; only the escapes ~0 and ~1."),
        {"type": "string", "maxLength": 1024, "pattern": "^(/([^~/]|~[01])*)*$"},
    ),
    TextFormat(
        "fieldPointer",
        "JSON Pointer of 1..1024 characters without a * step.",
        {"type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^(/([^~/]|~[01])*)+$"},
    ),
    TextFormat(
        "policyPointer",
        "JSON Pointer of 1..1024 characters; a step * stands for any member or item.",
        {"type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^(/([^~/]|~[01])*)+$"},
    ),
    TextFormat(
        "queryPath",
        "A fieldPointer, a metadata path such as /@id or /@revision, or *.",
        {"type": "string", "minLength": 1, "maxLength": 1024},
    ),
    TextFormat(
        "jsonObject",
        "JSON text whose value is an object.",
        {"type": "string"},
        max_bytes=1048576,
        error_above=ErrorCode.RESOURCE_EXHAUSTED,
    ),
    TextFormat(
        "jsonText",
        "JSON text of any value.",
        {"type": "string"},
        max_bytes=1048576,
        error_above=ErrorCode.RESOURCE_EXHAUSTED,
    ),
    TextFormat(
        "opaqueToken",
        "Base64url text without padding made by the server.",
        {"type": "string", "minLength": 1, "maxLength": 16384, "pattern": "^[A-Za-z0-9_-]+$"},
        max_bytes=16384,
        error=ErrorCode.TOKEN_INVALIDATED,
        error_above=ErrorCode.TOKEN_INVALIDATED,
    ),
    TextFormat(
        "transferToken",
        "As opaqueToken, but as long as a batch.",
        {"type": "string", "minLength": 1, "maxLength": 8388608, "pattern": "^[A-Za-z0-9_-]+$"},
        max_bytes=8388608,
        error=ErrorCode.TOKEN_INVALIDATED,
        error_above=ErrorCode.TOKEN_INVALIDATED,
    ),
    TextFormat(
        "sha256Hex",
        "64 lower-case hex digits.",
        {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        max_bytes=64,
    ),
    TextFormat(
        "sqlText",
        "Query text.",
        {"type": "string", "minLength": 1},
        max_bytes=65536,
        error_above=ErrorCode.BUDGET_EXCEEDED,
    ),
    TextFormat(
        "searchText",
        "Words to look for; may be empty.",
        {"type": "string"},
        max_bytes=65536,
        error_above=ErrorCode.BUDGET_EXCEEDED,
    ),
    TextFormat(
        "failureCode",
        "Label: a letter, then up to 63 letters, digits, dots, hyphens and underscores.",
        {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9._-]{0,63}$"},
        max_bytes=64,
    ),
    TextFormat(
        "idPrefix",
        ("0..128 UTF-8 bytes without control characters; prefix and id together must be an identifier."),
        {"type": "string", "maxLength": 128},
        max_bytes=128,
    ),
    TextFormat(
        "parameterName",
        "A letter or underscore, then up to 127 letters, digits and underscores.",
        {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,127}$"},
        max_bytes=128,
    ),
    TextFormat("mutationKind", "Kind of a mutation that is filterable.", {"type": "string"}),
    TextFormat(
        "gatewayQuery",
        "1..2048 UTF-8 bytes, not blank.",
        {"type": "string", "minLength": 1, "maxLength": 2048},
        max_bytes=2048,
    ),
)

FORMATS: Mapping[str, TextFormat] = MappingProxyType({form.name: form for form in _FORMATS})
"""Text formats by name."""
