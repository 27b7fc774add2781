"""The words of a JSON Schema: names, descriptions and values of its properties, for the index (GTW-13)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, cast

from keyload.gateway.documents import Argument

_MAX_NODES = 2048
_MAX_VALUES = 32
_MAX_TEXT = 1024  # so that one long text leaves room for the other names
_BRANCHES = ("anyOf", "oneOf", "allOf", "prefixItems")


def schema_arguments(schema: Mapping[str, Any], limit: int) -> tuple[Argument, ...]:
    """The properties of a schema, outer ones first, of at most `limit` characters together.

    Local references are followed once each; the walk is bounded, so that a recursive schema ends.
    """
    found: list[Argument] = []
    for argument in _properties(schema):
        if len(argument.name) > limit:
            break
        text = argument.text[: min(_MAX_TEXT, limit - len(argument.name))]
        limit -= len(argument.name) + len(text)
        values: list[str] = []
        for value in argument.values:
            if len(value) > limit:
                break
            limit -= len(value)
            values.append(value)
        found.append(Argument(argument.name, text, tuple(values), argument.required))
    return tuple(found)


def required_names(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The names a call must give, as the outermost object of the schema says."""
    return tuple(name for name in _list(schema.get("required")) if isinstance(name, str))


def _properties(root: Mapping[str, Any]) -> Iterator[Argument]:
    queue: deque[Any] = deque([root])
    followed: set[str] = set()
    nodes = 0
    while queue and nodes < _MAX_NODES:
        nodes += 1
        node = queue.popleft()
        if not isinstance(node, Mapping):
            continue
        node = cast("Mapping[str, Any]", node)
        reference = node.get("$ref")
        if isinstance(reference, str) and reference not in followed:
            followed.add(reference)
            queue.append(_resolve(root, reference))
        properties = node.get("properties")
        if isinstance(properties, Mapping):
            required = set(required_names(node))
            for name, member in cast("Mapping[Any, Any]", properties).items():
                yield _argument(str(name), member, name in required)
                queue.append(member)
        queue.append(node.get("items"))
        queue.append(node.get("additionalProperties"))
        for branch in _BRANCHES:
            queue.extend(_list(node.get(branch)))


def _argument(name: str, member: Any, required: bool) -> Argument:
    if not isinstance(member, Mapping):
        return Argument(name, required=required)
    member = cast("Mapping[str, Any]", member)
    text = member.get("description")
    values = [*_list(member.get("enum")), member.get("const")]
    return Argument(
        name=name,
        text=text if isinstance(text, str) else "",
        values=tuple(value for value in values[:_MAX_VALUES] if isinstance(value, str)),
        required=required,
    )


def _resolve(root: Mapping[str, Any], reference: str) -> Any:
    """The target of a local JSON pointer reference, None for any other."""
    node: Any = root
    for step in reference.removeprefix("#/").split("/"):
        if not isinstance(node, Mapping):
            return None
        node = cast("Mapping[str, Any]", node).get(step.replace("~1", "/").replace("~0", "~"))
    return node


def _list(value: Any) -> list[Any]:
    return list(cast("list[Any]", value)) if isinstance(value, list | tuple) else []
