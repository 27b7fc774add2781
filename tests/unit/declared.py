"""Requests made from the declarations: whole ones with every member, and one fault at a time in them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, NamedTuple

from keyload.codec.declarations import Declared, members, scalar_name, tag
from keyload.contract.base import Choice, Record
from keyload.contract.formats import FORMATS

GUID = "7d9b4c3e-0000-4000-8000-00000000000a"
MARKER = "Marker7319"
_VALUES: dict[str, Any] = {
    "boolean": True,
    "float": 1,
    "double": 1,
    "guid": GUID,
    "timestamp": "2026-02-03T04:05:06Z",
    "duration": "00:00:01",
    "flags": "All",
    "json": {"member": 1},
}
_TEXTS = {
    "jsonObject": f'{{"a":"{MARKER}"}}',
    "jsonText": f'"{MARKER}"',
    "sha256Hex": "a" * 64,
    "mutationKind": "putDocument",
}
_BAD_JSON = ('{"a":{"b~/":[1,NaN]}}', "/a/b~0~1/1"), ('{"a":[{"c":1,"c":2}]}', "/a/0/c"), ('{"a":}', "/a")


class Fault(NamedTuple):
    """A tree with one fault, the pointer of the fault, and what is wrong."""

    tree: Any
    path: str
    what: str


def whole(kind: type[Record]) -> dict[str, Any]:
    """A valid tree with every member; texts hold `MARKER` where their form lets them."""
    variant = tag(kind)
    tree = {} if variant is None else {variant[0]: variant[1]}
    return tree | {member.name: _whole_member(member) for member in members(kind)}


def _whole_member(member: Declared) -> Any:
    if member.mark.direction == "output":
        return MARKER
    if member.container == "array":
        return [_whole_value(member, member.mark.item_format)] * max(member.mark.min_items or 0, 1)
    if member.container == "map":
        return {MARKER: _whole_value(member, member.mark.item_format)}
    return _whole_value(member, member.mark.format)


def _whole_value(member: Declared, form: str | None) -> Any:
    kind, mark = member.kind, member.mark
    if isinstance(kind, tuple):
        return whole(kind[0])
    if issubclass(kind, Record):
        return whole(kind)
    if issubclass(kind, Choice):
        return str(next(iter(kind)))
    if mark.const is not None or mark.one_of is not None:
        return mark.const if mark.const is not None else mark.one_of[0]
    name = scalar_name(member)
    if name in ("int32", "int64"):
        return max(1, int(mark.min or 0))
    if name == "base64":
        return base64.b64encode(b"x" * max(mark.min_items or 0, 1)).decode()
    if name == "duration" and mark.min_duration is not None:
        return mark.min_duration
    if name == "string":
        return _TEXTS.get(form or "", f"/{MARKER}" if (form or "").endswith(("Pointer", "Path")) else MARKER)
    return _VALUES[name]


def faults(kind: type[Record]) -> Iterator[Fault]:
    """Each member, at every depth: missing, null, unknown, misspelt, of wrong type, out of range."""
    tree = whole(kind)
    yield Fault(tree | {"surprise": 1}, "/surprise", "unknown")
    yield Fault(MARKER, "", "wrong type")
    for member in members(kind):
        rest = {name: value for name, value in tree.items() if name != member.name}
        misspelt = member.name + member.name[-1]
        yield Fault({misspelt: tree[member.name], **rest}, f"/{misspelt}", f"misspelt {member.name}")
        if member.required:
            yield Fault(rest, f"/{member.name}", "missing")
        if not member.nullable and member.mark.direction != "output":
            yield Fault({**rest, member.name: None}, f"/{member.name}", "null")
        for fault in _member_faults(member):
            yield Fault({**rest, member.name: fault.tree}, f"/{member.name}{fault.path}", fault.what)


def _member_faults(member: Declared) -> Iterator[Fault]:
    if member.mark.direction == "output":
        yield Fault(7, "", "wrong type")
        return
    if member.container is None:
        yield from _value_faults(member, member.mark.format)
        return
    array = member.container == "array"
    yield Fault({} if array else [], "", "wrong type")
    yield from _count_faults(member)
    for fault in _value_faults(member, member.mark.item_format):
        least = _whole_member(member)
        wrong = [fault.tree, *least[1:]] if array else {"name": fault.tree}
        yield Fault(wrong, ("/0" if array else "/name") + fault.path, fault.what)


def _count_faults(member: Declared) -> Iterator[Fault]:
    mark, array = member.mark, member.container == "array"
    item = _whole_value(member, mark.item_format)
    for count in [(mark.min_items or 0) - 1, *([] if mark.max_items is None else [mark.max_items + 1])]:
        if count >= 0:
            yield Fault([item] * count if array else {f"n{n}": item for n in range(count)}, "", "count")
    if mark.unique_items:
        yield Fault([item, item], "/1", "repeated")
    if mark.key_format is not None:
        yield Fault({"": item}, "/", "key")


def _value_faults(member: Declared, form: str | None) -> Iterator[Fault]:
    kind = member.kind
    if isinstance(kind, tuple):
        yield from _union_faults(kind)
    elif isinstance(kind, type) and issubclass(kind, Record):
        yield from faults(kind)
    elif isinstance(kind, type) and issubclass(kind, Choice):
        name = str(next(iter(kind)))
        for wrong in (7, name.lower(), name + "s", {}):
            yield Fault(wrong, "", "enum")
    else:
        for wrong in _wrong_scalars(member, form):
            yield Fault(wrong, "", "scalar")
        if form in ("jsonText", "jsonObject"):
            for text, path in _BAD_JSON:
                yield Fault(text, path, "json text")


def _union_faults(variants: tuple[type[Record], ...]) -> Iterator[Fault]:
    for variant in variants:
        named = tag(variant)
        assert named is not None
        tree = whole(variant)
        for wrong in (named[1] + "x", 7, None):
            yield Fault({**tree, named[0]: wrong}, f"/{named[0]}", "kind")
        yield Fault({name: tree[name] for name in tree if name != named[0]}, f"/{named[0]}", "kind")
        yield from (fault for fault in faults(variant) if fault.path != f"/{named[0]}")


def _wrong_scalars(member: Declared, form: str | None) -> list[Any]:
    mark, name = member.mark, scalar_name(member)
    if mark.const is not None or mark.one_of is not None:
        return [["x"], "Unlisted", -1]
    match name:
        case "json":
            return []
        case "boolean":
            return ["true", 1, [], {}]
        case "int32" | "int64":
            low, high = (-(2**31), 2**31 - 1) if name == "int32" else (-(2**63), 2**63 - 1)
            bounds = [low if mark.min is None else mark.min, high if mark.max is None else mark.max]
            return [True, "1.0", "01", [], {}, low - 1, high + 1, bounds[0] - 1, bounds[1] + 1]
        case "float" | "double":
            return ["1", True, [], *([] if mark.min is None else [mark.min - 1])]
        case "string":
            return [7, [], {}, *_wrong_texts(form)]
        case "guid":
            zero = ["00000000-0000-0000-0000-000000000000"] if mark.not_empty else []
            return [7, "", GUID[1:], GUID.replace("-", ""), *zero]
        case "base64":
            return [7, "a", "ab=="]
        case _:
            return [7, "", "x", []]


def _wrong_texts(form: str | None) -> list[str]:
    if form is None:
        return []
    rule = FORMATS[form]
    wrong = [] if rule.max_bytes is None else ["x" * (rule.max_bytes + 1)]
    if form in (
        "identifier",
        "keyId",
        "fieldPointer",
        "policyPointer",
        "sha256Hex",
        "jsonObject",
        "jsonText",
    ):
        wrong.append("")
    if form in ("fieldPointer", "policyPointer", "jsonPointer"):
        wrong += ["name", "/~2"]
    return [*wrong, "\ud800"]


__all__ = ["GUID", "MARKER", "Fault", "faults", "whole"]
