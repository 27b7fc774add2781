"""Unique and composite indexes, changed in the same commit as the document (DOC-20..DOC-24)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from keyload.codec.tuples import MISSING, Part, pack
from keyload.contract.catalog import IndexDefinition
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.models.documents.keys import index_prefix
from keyload.models.documents.values import key_part
from keyload.models.pointers import Steps, steps_of, value_at
from keyload.storage.txn import Txn


class IndexPlan(msgspec.Struct, frozen=True):
    """An index definition with its paths taken apart; `timestamps` tells which fields compare by instant."""

    name: str
    fields: tuple[Steps, ...]
    timestamps: tuple[bool, ...]
    unique: bool
    include_null: bool
    include_missing: bool


def plan_index(definition: IndexDefinition, timestamp_columns: frozenset[str]) -> IndexPlan:
    """The form of an index that writes and reads take."""
    fields = tuple(steps_of(field) for field in definition.fields)
    return IndexPlan(
        name=definition.name,
        fields=fields,
        timestamps=tuple(len(steps) == 1 and steps[0] in timestamp_columns for steps in fields),
        unique=definition.unique,
        include_null=definition.include_null,
        include_missing=definition.include_missing,
    )


def entry_parts(plan: IndexPlan, tree: Any) -> tuple[Part, ...] | None:
    """The key components of a document's entry, None when it has none (DOC-21)."""
    parts: list[Part] = []
    for steps, timestamp in zip(plan.fields, plan.timestamps, strict=True):
        part = key_part(value_at(tree, steps), timestamp=timestamp)
        if (part is MISSING and not plan.include_missing) or (part is None and not plan.include_null):
            return None
        parts.append(part)
    return tuple(parts)


def _entry_key(
    plan: IndexPlan, number: int, collection: str, parts: tuple[Part, ...], document_id: str
) -> bytes:
    prefix = index_prefix(number, collection, plan.name)
    return prefix + pack(parts if plan.unique else (*parts, document_id))


def entry_keys(
    plans: tuple[IndexPlan, ...], number: int, collection: str, tree: Any, document_id: str
) -> Iterator[tuple[IndexPlan, bytes]]:
    """Index and key of every entry of a document; the value of an entry is the document id."""
    for plan in plans:
        parts = entry_parts(plan, tree)
        if parts is not None:
            yield plan, _entry_key(plan, number, collection, parts, document_id)


def replace_entries(
    txn: Txn,
    plans: tuple[IndexPlan, ...],
    number: int,
    collection: str,
    document_id: str,
    old: Any,
    new: Any,
) -> int:
    """Turn the entries of the old tree into those of the new one; None stands for no live document. Returns
    the bytes of the keys written.

    A unique key of another live document is `Conflict` (DOC-23).
    """
    former = {} if old is None else _by_key(entry_keys(plans, number, collection, old, document_id))
    wanted = {} if new is None else _by_key(entry_keys(plans, number, collection, new, document_id))
    value = document_id.encode()
    written = 0
    for key, plan in wanted.items():
        if key in former:
            continue
        if plan.unique and txn.get(key) is not None:
            raise KeyLoadError(ErrorCode.CONFLICT, "Another document holds the same key of a unique index.")
        txn.put(key, value)
        written += len(key)
    for key in former:
        if key not in wanted:
            txn.delete(key)
            written += len(key)
    return written


def _by_key(entries: Iterator[tuple[IndexPlan, bytes]]) -> dict[bytes, IndexPlan]:
    return {key: plan for plan, key in entries}
