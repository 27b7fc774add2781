"""The words of a JSON Schema: names and descriptions of its properties, for the index (GTW-13)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, cast

_MAX_NODES = 2048
_BRANCHES = ("anyOf", "oneOf", "allOf", "prefixItems")


def argument_texts(schema: Mapping[str, Any], limit: int) -> tuple[tuple[str, str], ...]:
    """Pairs of property name and description, outer properties first, of at most `limit` characters together.

    Local references are followed once each; the walk is bounded, so that a recursive schema ends.
    """
    texts: list[tuple[str, str]] = []
    for name, description in _properties(schema):
        limit -= len(name) + len(description)
        if limit < 0:
            break
        texts.append((name, description))
    return tuple(texts)


def _properties(root: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
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
            for name, member in cast("Mapping[str, Any]", properties).items():
                yield name, _description(member)
                queue.append(member)
        queue.append(node.get("items"))
        queue.append(node.get("additionalProperties"))
        for branch in _BRANCHES:
            queue.extend(_list(node.get(branch)))


def _resolve(root: Mapping[str, Any], reference: str) -> Any:
    """The target of a local JSON pointer reference, None for any other."""
    node: Any = root
    for step in reference.removeprefix("#/").split("/"):
        if not isinstance(node, Mapping):
            return None
        node = cast("Mapping[str, Any]", node).get(step.replace("~1", "/").replace("~0", "~"))
    return node


def _description(member: Any) -> str:
    text = cast("Mapping[str, Any]", member).get("description") if isinstance(member, Mapping) else None
    return text if isinstance(text, str) else ""


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
