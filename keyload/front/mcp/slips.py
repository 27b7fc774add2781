"""The usual slips of a call through `gateway_tool_invoke`, and the call that was meant (MCP-16, MCP-18).

Nothing here is executed: a call of another form stays refused, and its refusal shows the form that would do.
What is shown consists of declarations and examples, never of the caller's values (SEC-40).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, cast

from keyload.codec import strict_json
from keyload.codec.declarations import members
from keyload.codec.examples import example_arguments, likeness, skeleton
from keyload.contract.base import Record
from keyload.contract.errors import KeyLoadError
from keyload.contract.operations import Operation

MAX_TEXT = 65_536  # characters of a text that is looked into
_MAX_LAYERS = 5
_PREFIX = "keyload"
_PLACE = ("arguments", "request")
_WRAPPERS = ("arguments", "request", "params", "parameters", "input", "args", "body")
_NAMES = ("toolid", "toolname", "tool", "name", "operation", "operationname")
_SEPARATORS = re.compile(r"[^a-z0-9]+")

Operations = Mapping[str, Operation]


class Slip(NamedTuple):
    """What was expected, in one sentence, and the arguments that `gateway_tool_invoke` would have taken."""

    expected: str
    example: dict[str, Any]


class _Layer(NamedTuple):
    """An object of the call, the member names that lead to it, and whether it was written as JSON text."""

    path: tuple[str, ...]
    tree: dict[str, Any]
    as_text: bool


def meant(text: str, names: Iterable[str]) -> str | None:
    """The name that was meant: in other case or spelling, with something before or behind it.

    None when it is none of `names` or could be two.
    """
    plain = _SEPARATORS.sub("_", text[:512].lower()).strip("_")
    bare = plain.replace("_", "")
    found = [
        name
        for name in names
        if name.replace("_", "") in (bare, _PREFIX + bare) or f"_{name}_" in f"_{plain}_"
    ]
    longest = max(found, key=len, default=None)
    return None if longest is None or any(name not in longest for name in found) else longest


def nearest(text: str, names: Iterable[str]) -> str | None:
    """The name that a misspelt one is nearest to, if any is near."""
    return next(iter(get_close_matches(text[:512].lower(), list(names), 1, 0.8)), None)


def find(arguments: Any, operations: Operations) -> Slip | None:
    """The slip in the arguments of `gateway_tool_invoke`; None when they have the right form, or when what
    was meant cannot be told.
    """
    layers = list(_layers((), arguments))
    if not layers:
        return None
    operation, wishes = _target(layers, operations)
    if operation is None:
        return None
    given = layers[0].tree.get("arguments")
    if isinstance(given, str):
        wishes.append("arguments as an object instead of a text")
    request, more = _request(layers, operation)
    wishes += more
    wishes += _command_id(layers, operation)
    if not wishes:
        return None
    expected = "the call of the example, with your values: " + ", ".join(wishes)
    example = {"toolId": operation.name, "arguments": example_arguments(operation, request)}
    return Slip(expected, example)


def _layers(path: tuple[str, ...], value: Any) -> Iterator[_Layer]:
    """The objects of a call from the outside in, through members that usually wrap a request."""
    as_text = isinstance(value, str)
    if as_text and len(value) <= MAX_TEXT:
        try:
            value = strict_json.parse(value.encode("utf-8", "replace"))
        except KeyLoadError:
            return
    if not isinstance(value, dict):
        return
    tree = cast("dict[str, Any]", value)
    yield _Layer(path, tree, as_text)
    if len(path) < _MAX_LAYERS:
        for name in _WRAPPERS:
            if name in tree:
                yield from _layers((*path, name), tree[name])


def _target(layers: list[_Layer], operations: Operations) -> tuple[Operation | None, list[str]]:
    given = layers[0].tree.get("toolId")
    if isinstance(given, str):
        if given in operations:
            return operations[given], []
        name = meant(given, operations)
        return (None, []) if name is None else (operations[name], [f"toolId exactly {name}"])
    found = {
        operation
        for layer in layers
        for name, value in layer.tree.items()
        if isinstance(value, str) and _SEPARATORS.sub("", name.lower()) in _NAMES
        if (operation := meant(value, operations)) is not None
    }
    if len(found) != 1:
        return None, []
    (operation,) = found
    return operations[operation], [f"toolId {operation} beside arguments"]


def _request(layers: list[_Layer], operation: Operation) -> tuple[Any, list[str]]:
    """An example with the members that the caller gave, and what is wrong with their place."""
    kind = operation.request
    if kind is None:
        used = any(layer.path and layer.tree for layer in layers)
        return None, ["no members in arguments"] if used else []
    if kind is bool:
        return _switch(layers, operation)
    layer, fits = _best(layers, kind)
    if not fits:
        return _content(layers, kind)
    wishes = [] if layer.path == _PLACE else ["the members of the request inside arguments.request"]
    if layer.path == _PLACE and layer.as_text:
        wishes.append("request as an object instead of a text")
    return likeness(kind, layer.tree), wishes


def _best(layers: list[_Layer], kind: type[Record]) -> tuple[_Layer, int]:
    """The object that has most members of a type, the outermost of equals, and how many."""
    names = {member.name for member in members(kind)}
    best = max(layers, key=lambda layer: len(names & layer.tree.keys()))
    return best, len(names & best.tree.keys())


def _content(layers: list[_Layer], kind: type[Record]) -> tuple[Any, list[str]]:
    """The case that the content of the one record a request consists of was given in its place."""
    required = [member for member in members(kind) if member.required]
    if len(required) == 1 and isinstance(required[0].kind, type) and issubclass(required[0].kind, Record):
        name = required[0].name
        layer, fits = _best(layers, required[0].kind)
        if fits:
            wish = f"the members of {name} inside arguments.request.{name}"
            return likeness(kind, {name: layer.tree}), [wish]
    return skeleton(kind), []


def _switch(layers: list[_Layer], operation: Operation) -> tuple[bool, list[str]]:
    for layer in layers:
        for name in ("request", operation.http_query):
            value = layer.tree.get(name or "")
            if isinstance(value, bool):
                right = (*layer.path, name) == _PLACE
                return value, [] if right else ["true or false as arguments.request"]
    return True, []


def _command_id(layers: list[_Layer], operation: Operation) -> list[str]:
    places = {layer.path for layer in layers if "commandId" in layer.tree}
    if operation.outer_command_id:
        return [] if places <= {("arguments",)} else ["commandId in arguments, beside request"]
    if operation.write_identity == "request.commandId":
        return [] if places <= {_PLACE} else ["commandId inside arguments.request"]
    return []
