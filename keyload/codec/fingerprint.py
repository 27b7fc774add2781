"""Fingerprints: SHA-256 of what a command means, to tell a repeat from another command (CMD-17, CON-59).

Hashed is the JSON text of operation, partition and decoded request: members sorted, defaults written out,
computed members left out, each JSON text replaced by its canonical form (in a list of one, to differ from
null).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import msgspec

from keyload.codec import json_text
from keyload.codec.declarations import Declared, members, tag
from keyload.codec.identity import PartitionKey
from keyload.codec.text_formats import Texts
from keyload.contract.base import Record

_ENCODE = msgspec.json.Encoder(order="sorted").encode

Shape = Callable[[Any, Texts], Any]
"""Makes of a value, with the canonical texts at hand, what is hashed."""


def fingerprint(
    operation_name: str, partition: PartitionKey | None, request: Any, texts: Texts | None = None
) -> bytes:
    """The 32 bytes of a decoded request in its scope.

    `texts` is what decoding left behind; a JSON text that is not in it is read again.
    """
    tree = _shape(type(request))(request, texts or {}) if isinstance(request, Record) else request
    return hashlib.sha256(_ENCODE((operation_name, partition, tree))).digest()


@cache
def _shape(record: type[Record]) -> Shape:
    variant = tag(record)
    fixed: dict[str, Any] = {} if variant is None else {variant[0]: variant[1]}
    slots = [
        (member.name, member.attribute, _member(member))
        for member in members(record)
        if member.mark.direction != "output"
    ]

    def shape(value: Any, texts: Texts) -> dict[str, Any]:
        tree = fixed.copy()
        for name, attribute, shape_value in slots:
            item = getattr(value, attribute)
            tree[name] = item if shape_value is None or item is None else shape_value(item, texts)
        return tree

    return shape


def _member(member: Declared) -> Shape | None:
    """None where the value is hashed as it is."""
    one = _item(member)
    if member.omitted:
        return _or_null(one or _same)
    if one is None or member.container is None:
        return one
    if member.container == "array":
        return lambda value, texts: [one(item, texts) for item in value]
    return lambda value, texts: {name: one(item, texts) for name, item in value.items()}


def _item(member: Declared) -> Shape | None:
    kind, form = member.kind, member.mark.format or member.mark.item_format
    if isinstance(kind, tuple):
        return lambda value, texts: _shape(cast(type[Record], type(value)))(value, texts)
    if isinstance(kind, type) and issubclass(kind, Record):
        return _shape(kind)
    if kind is Any:
        return lambda value, _: msgspec.Raw(json_text.canonical(value))
    return _json_text if form in ("jsonObject", "jsonText") else None


def _json_text(value: str, texts: Texts) -> Any:
    canonical = texts.get(value)
    if canonical is None:
        canonical = json_text.canonical(json_text.check(value))
    return (msgspec.Raw(canonical),)


def _same(value: Any, _: Texts) -> Any:
    return value


def _or_null(shape: Shape) -> Shape:
    return lambda value, texts: None if value is msgspec.UNSET else shape(value, texts)
