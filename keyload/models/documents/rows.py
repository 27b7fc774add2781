"""Typed rows: the closed, typed form that a relational schema demands of a document (REL-7..REL-15)."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import msgspec

from keyload.codec import instants
from keyload.codec.faults import one_of
from keyload.codec.places import pointer_of, shown
from keyload.contract.catalog import RelationalColumnType, RelationalSchema
from keyload.contract.errors import ErrorCode, KeyLoadError

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,7})?(Z|\+00:00)", re.ASCII)
_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1


class RowPlan(msgspec.Struct, frozen=True):
    """A relational schema in the form the checks take: columns by name."""

    primary_key: str
    types: dict[str, RelationalColumnType]
    required: tuple[str, ...]


def plan_rows(schema: RelationalSchema) -> RowPlan:
    """The form of a schema that writes take."""
    return RowPlan(
        primary_key=schema.primary_key,
        types={column.name: column.type for column in schema.columns},
        required=tuple(column.name for column in schema.columns if not column.nullable),
    )


def timestamp_columns(schema: RelationalSchema) -> frozenset[str]:
    """The columns that compare by instant (REL-19)."""
    return frozenset(
        column.name for column in schema.columns if column.type == RelationalColumnType.UTC_TIMESTAMP
    )


def check_value(plan: RowPlan, column: str, value: Any, path: str) -> None:
    """`Validation` unless the column exists and a value that is not null has its type (REL-7, REL-8,
    REL-11); `path` is the place of the value in the mutation.
    """
    kind = plan.types.get(column)
    if kind is None:
        detail = "The row holds a member that is no column of the collection."
        _refuse(detail, path, one_of(plan.types, column))
    elif value is not None and not _fits(kind, value):
        _refuse("A column of the row holds a value of another type.", path, f"null or {_EXPECTED[kind]}")


def check_row(plan: RowPlan, row: dict[str, Any], document_id: str, path: str) -> None:
    """`Validation` unless the whole row has the form of the schema and the primary key of the document."""
    for column, value in row.items():
        check_value(plan, column, value, path + pointer_of((column,)))
    for column in plan.required:
        if row.get(column) is None:
            detail = "A column that may not be null has no value."
            _refuse(detail, path + pointer_of((column,)), _EXPECTED[plan.types[column]])
    if row[plan.primary_key] != document_id:
        place = path + pointer_of((plan.primary_key,))
        _refuse("The primary key of the row differs from the document id.", place, "the id of the document")


_EXPECTED = {
    RelationalColumnType.BOOLEAN: "true or false",
    RelationalColumnType.TEXT: "a text",
    RelationalColumnType.UTC_TIMESTAMP: "a timestamp with offset zero, such as 2026-10-05T12:00:00Z",
    RelationalColumnType.FIXED_POINT: "a number",
    RelationalColumnType.WHOLE_NUMBER: f"a whole number from {_INT64_MIN} to {_INT64_MAX}",
}


def _fits(kind: RelationalColumnType, value: Any) -> bool:
    if kind == RelationalColumnType.BOOLEAN:
        return isinstance(value, bool)
    if kind == RelationalColumnType.TEXT:
        return isinstance(value, str)
    if kind == RelationalColumnType.UTC_TIMESTAMP:
        return isinstance(value, str) and _is_instant(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return False
    if kind == RelationalColumnType.FIXED_POINT:
        return True
    return isinstance(value, int) and _INT64_MIN <= value <= _INT64_MAX  # 5.0 and 5e0 are read as 5


def _is_instant(text: str) -> bool:
    if _TIMESTAMP.fullmatch(text) is None:
        return False
    try:
        instants.parse_instant(text)
    except (KeyLoadError, ValueError):
        return False
    return True


def _refuse(detail: str, path: str, expected: str) -> None:
    raise KeyLoadError(ErrorCode.VALIDATION, detail, path=shown(path), expected=expected)
