"""From a function to a tool: name, description and input schema, and how it is called (GTW-3, GTW-34)."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, cast, get_type_hints

import msgspec

from keyload.gateway.errors import RegistrationError
from keyload.gateway.meta_tools import MetaTool
from keyload.gateway.threads import in_thread
from keyload.gateway.tools import CallContext, Output, ToolRunner

_SECTION = re.compile(r"^\s*(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$")
_ENTRY = re.compile(r"^\s*\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s+(.*)$")
_FIELD = re.compile(r"^\s*:param\s+(?:\w+\s+)?(\w+):\s*(.*)$")
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_FILLED = ("query", "context_summary", "context")


class FunctionShape(msgspec.Struct, frozen=True):
    """What a function says about itself; `types` are those that its arguments are converted to."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    types: Mapping[str, Any]
    signature: inspect.Signature | None


def shape(function: Callable[..., Any]) -> FunctionShape:
    """Read a function. Raises RegistrationError when it cannot be called by the names of its arguments."""
    name = getattr(function, "__name__", "").replace("<lambda>", "")
    text, described = _docstring(inspect.getdoc(_target(function)) or "")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return FunctionShape(name, text, {"type": "object"}, {}, None)
    parameters = list(signature.parameters.values())
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            raise RegistrationError("The function of a tool takes its arguments by name.")
    hints = _hints(function)
    named = [parameter for parameter in parameters if parameter.kind in _BY_NAME]
    types = {parameter.name: _with_schema(hints.get(parameter.name, Any)) for parameter in named}
    schema = _schema(named, types, described)
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        schema["additionalProperties"] = False
    return FunctionShape(name, text, schema, types, signature)


def runner(
    function: Callable[..., Any], form: FunctionShape, required: tuple[str, ...], convert: bool
) -> ToolRunner:
    """How the function runs: an asynchronous one in the caller's task, any other in a thread.

    A thread cannot be stopped, so a cancelled call waits for it before the cancellation goes on.
    """
    needed = {name for name in _FILLED if name in required}
    if form.signature is not None:
        needed |= {
            name
            for name, parameter in form.signature.parameters.items()
            if name in _FILLED and parameter.kind in _BY_NAME and parameter.default is parameter.empty
        }
    asynchronous = _is_asynchronous(function)

    async def run(arguments: Mapping[str, Any], call: CallContext) -> Output:
        given = {"query": call.query, "context_summary": call.context_summary, "context": dict(call.context)}
        values = {name: given[name] for name in needed if name not in arguments} | dict(arguments)
        if form.signature is not None:
            form.signature.bind(**values)
        if convert:
            values = {name: _converted(name, value, form.types) for name, value in values.items()}
        result = function(**values) if asynchronous else await in_thread(function, values)
        return Output(await result if inspect.isawaitable(result) else result)

    return run


def gateway_behind(function: Callable[..., Any]) -> object | None:
    """The gateway whose meta tool a function is, if it is one (GTW-37)."""
    while True:
        if isinstance(function, functools.partial):
            function = cast("functools.partial[Any]", function).func
        elif hasattr(function, "__wrapped__") and inspect.isroutine(function):
            function = inspect.unwrap(function)
        else:
            break
    owner = getattr(function, "__self__", function)
    return owner.gateway if isinstance(owner, MetaTool) else None


def _is_asynchronous(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _converted(name: str, value: Any, types: Mapping[str, Any]) -> Any:
    try:
        return msgspec.convert(value, types.get(name, Any))
    except msgspec.ValidationError as error:
        raise ValueError(f"The argument {name!r} does not fit: {error}") from None


def _target(function: Callable[..., Any]) -> Callable[..., Any]:
    """What carries the docstring and the types: the function itself, also behind a partial or an object."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    return function if inspect.isroutine(function) else type(function).__call__


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(_target(function), include_extras=True)
    except Exception:  # annotations may be any expression, and fail as any expression does
        return {}


def _schema(
    parameters: list[inspect.Parameter], types: Mapping[str, Any], described: Mapping[str, str]
) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for parameter in parameters:
        (member,), parts = msgspec.json.schema_components(
            [types[parameter.name]], ref_template="#/$defs/{name}"
        )
        member, definitions = dict(member), {**definitions, **parts}
        if described.get(parameter.name):
            member.setdefault("description", described[parameter.name])
        if parameter.default is not parameter.empty and _is_plain(parameter.default):
            member["default"] = parameter.default
        properties[parameter.name] = member
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    required = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    if required:
        schema["required"] = required
    if definitions:
        schema["$defs"] = definitions
    return schema


def _with_schema(kind: Any) -> Any:
    """The type, or Any for one that JSON has no schema for: then the function gets what came."""
    try:
        msgspec.json.schema_components([kind])
    except Exception:  # among others what the annotations inside a type raise
        return Any
    return kind


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description, which ends where the first section begins, and the texts of the arguments."""
    description: list[str] = []
    described: dict[str, str] = {}
    section, entry = "", ""
    for line in text.splitlines():
        field = _FIELD.match(line)
        if (heading := _SECTION.match(line)) is not None:
            section, entry = heading[1], ""
        elif field is not None:
            section, entry = "Args", field[1]
            described[entry] = field[2].strip()
        elif not section:
            description.append(line.strip())
        elif section in ("Args", "Arguments", "Parameters"):
            if (found := _ENTRY.match(line)) is not None:
                entry = found[1]
                described[entry] = found[2].strip()
            elif entry and line.strip():
                described[entry] += " " + line.strip()
    paragraphs = "\n".join(description).strip()
    return re.sub(r"(?<!\n)\n(?!\n)", " ", paragraphs), described
