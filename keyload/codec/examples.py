"""Valid requests made from the declarations alone: the example of a refusal.

An example repeats nothing of a caller's values but what the contract itself lists: kinds, enum names, allowed
texts, true and false.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import Any, cast

from keyload.codec import instants
from keyload.codec.declarations import Declared, members, scalar_name, tag
from keyload.contract.base import Choice, Member, Record
from keyload.contract.operation import Operation

_SCALARS: dict[str, Any] = {
    "boolean": False,
    "guid": "00000000-0000-4000-8000-000000000001",
    "timestamp": "2026-01-01T00:00:00+00:00",
    "flags": "None",
    "json": {},
}
_TEXTS = {
    "jsonObject": "{}",
    "jsonText": "{}",
    "jsonPointer": "/name",
    "fieldPointer": "/name",
    "policyPointer": "/name",
    "queryPath": "/name",
    "sha256Hex": "0" * 64,
    "mutationKind": "putDocument",
    "gatewayQuery": "read a document",
}
_NOTHING: dict[str, Any] = {}


@cache
def skeleton(kind: Any) -> Any:
    """The smallest valid request of a type as a JSON tree: its required members only. Not to be changed."""
    return True if kind is bool else likeness(kind, None)


def likeness(kind: type[Record], given: Any) -> dict[str, Any]:
    """A valid tree of a record type with the members that `given` has, as far as they are declared, and the
    required ones; the values are examples.
    """
    members_given = cast("dict[str, Any]", given) if isinstance(given, dict) else _NOTHING
    variant = tag(kind)
    tree: dict[str, Any] = {} if variant is None else {variant[0]: variant[1]}
    for member in members(kind):
        if member.required or (member.name in members_given and member.mark.direction != "output"):
            tree[member.name] = _value(member, members_given.get(member.name))
    return tree


def example_arguments(operation: Operation, request: Any = None) -> dict[str, Any]:
    """A valid argument envelope of an operation: with `request`, or with the smallest one."""
    tree: dict[str, Any] = {"commandId": _SCALARS["guid"]} if operation.outer_command_id else {}
    if operation.request is not None:
        tree["request"] = skeleton(operation.request) if request is None else request
    return tree


def _value(member: Declared, given: Any) -> Any:
    if member.nullable and given is None:
        return None
    if member.container == "map":
        return {}
    if member.container == "array":
        items = cast("list[Any]", given) if isinstance(given, list) else []
        least = member.mark.min_items or 0
        item = _item(member, items[0] if items else None, member.mark.item_format)
        return [item] * (least or min(len(items), 1))
    return _item(member, given, member.mark.format)


def _item(member: Declared, given: Any, form: str | None) -> Any:
    kind = member.kind
    if isinstance(kind, tuple):
        return _variant(cast("tuple[type[Record], ...]", kind), given)
    if isinstance(kind, type) and issubclass(kind, Record):
        return likeness(kind, given)
    if isinstance(kind, type) and issubclass(kind, Choice):
        return _listed([str(name) for name in kind], given)
    mark = member.mark
    if mark.const is not None:
        return mark.const
    if mark.one_of is not None:
        return _listed(list(mark.one_of), given)
    return _scalar(scalar_name(member), mark, form, given)


def _variant(variants: tuple[type[Record], ...], given: Any) -> dict[str, Any]:
    for variant in variants:
        named = tag(variant)
        if named is not None and isinstance(given, dict) and given.get(named[0]) == named[1]:  # pyright: ignore[reportUnknownMemberType]
            return likeness(variant, given)
    return likeness(variants[0], None)


def _listed(allowed: list[Any], given: Any) -> Any:
    return given if isinstance(given, str) and given in allowed else allowed[0]


def _scalar(name: str, mark: Member, form: str | None, given: Any) -> Any:
    match name:
        case "boolean":
            return given is True
        case "int32" | "int64" | "float" | "double":
            least = 1 if mark.min is None else max(mark.min, 1)
            number = least if mark.max is None else min(least, mark.max)
            return int(number) if name.startswith("int") else float(number)
        case "duration":
            return _duration(mark)
        case "base64":
            return base64.b64encode(bytes(mark.min_items or 0)).decode("ascii")
        case "string":
            return _TEXTS.get(form or "", "name")
        case _:
            return _SCALARS[name]


def _duration(mark: Member) -> str:
    second = instants.parse_duration("00:00:01")
    least = second if mark.min_duration is None else instants.parse_duration(mark.min_duration)
    most = least if mark.max_duration is None else instants.parse_duration(mark.max_duration)
    return instants.duration_text(min(max(least, second), most))
