"""JSON Schema (draft 2020-12) of requests, results and tool envelopes, derived from the declarations.

Record types and enums stand once under `$defs`. Input schemas accept what decoding accepts in shape; what a
schema cannot say (byte bounds, rules across members) stands in the descriptions. Schemas are made once: write
them out, do not change them.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, cast

from msgspec import NODEFAULT, json

from keyload.codec.declarations import Declared, members, scalar_name, tag
from keyload.contract import capabilities
from keyload.contract.base import Choice, Member, Record
from keyload.contract.formats import FORMATS, SCALARS
from keyload.contract.gateway import ToolFailure, ToolSuccess
from keyload.contract.operation import Operation

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def input_schema(operation: Operation) -> Schema:
    """Schema of the argument envelope (CON-39)."""
    builder = Builder(output=False)
    properties: Schema = {}
    if operation.outer_command_id:
        guid = builder.scalar("guid", Member(), None)
        properties["commandId"] = {**guid, "description": "Write identity: a guid other than zero."}
    if operation.request is not None:
        properties["request"] = builder.kind(operation.request)
    if operation.request_meaning is not None:
        properties["request"] = {**properties["request"], "description": operation.request_meaning}
    return builder.document(_object(properties, list(operation.arguments)))


@cache
def output_schema(operation: Operation) -> Schema:
    """Schema of the structured content of a call of the operation (CON-41, CON-42)."""
    return tool_output_schema(operation.result, operation.result_is_array, operation.result_nullable)


@cache
def tool_output_schema(kind: Any, array: bool = False, nullable: bool = False) -> Schema:
    """Schema of the structured content of a tool call whose result is `kind`: success or failure."""
    builder = Builder(output=True)
    result = builder.result(kind, array=array, nullable=nullable)
    success = builder.record(ToolSuccess)
    described = {**result, "description": success["properties"]["result"]["description"]}
    success["properties"]["result"] = described
    return builder.document({"type": "object", "oneOf": [success, builder.record(ToolFailure)]})


@cache
def request_schema(kind: type[Record], strict_integers: bool = False) -> Schema:
    """Schema of a record type as input; `strict_integers` allows no integers written as text."""
    builder = Builder(output=False, quoted=not strict_integers)
    return builder.document(builder.record(kind))


@cache
def result_schema(kind: type[Record]) -> Schema:
    """Schema of a record type as output: every member is written, numbers are plain (CON-7, CON-17)."""
    builder = Builder(output=True)
    return builder.document(builder.record(kind))


class Builder:
    """Collects the definitions that one schema document refers to.

    `location` is where the document keeps them, `suffix` what is added to the names of record types, so that
    one document can hold their forms for input and for output.
    """

    def __init__(
        self, *, output: bool, quoted: bool = True, location: str = "#/$defs/", suffix: str = ""
    ) -> None:
        self.output = output
        self.quoted = quoted and not output
        self.location = location
        self.suffix = suffix
        self.definitions: dict[str, Schema] = {}

    def document(self, schema: Schema) -> Schema:
        """The finished document."""
        whole = {"$schema": DIALECT, **schema}
        if self.definitions:
            whole["$defs"] = dict(sorted(self.definitions.items()))
        return whole

    def kind(self, kind: Any) -> Schema:
        """Schema of `bool` or of a reference to a record type."""
        return dict(SCALARS["boolean"].schema) if kind is bool else self.reference(kind)

    def reference(self, kind: type[Record] | type[Choice]) -> Schema:
        """A reference to the definition of a type, which is made at its first use."""
        enum = issubclass(kind, Choice)
        name = kind.__name__ if enum else kind.__name__ + self.suffix
        if name not in self.definitions:
            self.definitions[name] = {}  # stands here while the type refers to itself
            self.definitions[name] = _choice(kind) if enum else self.record(kind)
        return {"$ref": self.location + name}

    def result(self, kind: Any, *, array: bool, nullable: bool) -> Schema:
        """Schema of the result of an operation."""
        schema = self.kind(kind)
        if array:
            schema = {"type": "array", "items": schema}
        return _or_null(schema) if nullable else schema

    def record(self, record: type[Record]) -> Schema:
        """Schema of an object type, closed to other members."""
        properties: Schema = {}
        required: list[str] = []
        variant = tag(record)
        if variant is not None:
            properties[variant[0]] = {"const": variant[1]}
            required.append(variant[0])
        for member in members(record):
            properties[member.name] = self.member(member)
            if not member.omitted if self.output else member.required:
                required.append(member.name)
        return {"description": inspect.getdoc(record), **_object(properties, required)}

    def member(self, member: Declared) -> Schema:
        """Schema of one member with its meaning and default."""
        if member.mark.direction == "output" and not self.output:
            schema: Schema = {"type": ["string", "null"]}
        else:
            schema = self.contained(member)
            if member.nullable and not (self.output and member.omitted):
                schema = _or_null(schema)
        schema = {**schema, "description": member.mark.meaning}
        if not self.output and _has_default(member):
            schema["default"] = json.decode(json.encode(member.default))
        return schema

    def contained(self, member: Declared) -> Schema:
        """Schema of the value, the array or the map."""
        mark = member.mark
        if member.container is None:
            return self.value(member, mark.format)
        item = self.value(member, mark.item_format)
        if member.container == "array":
            bounds = {"minItems": mark.min_items, "maxItems": mark.max_items}
            unique = {"uniqueItems": True} if mark.unique_items else {}
            return {"type": "array", "items": item, **_present(bounds), **unique}
        bounds = {"minProperties": mark.min_items, "maxProperties": mark.max_items}
        names = {} if mark.key_format is None else {"propertyNames": dict(FORMATS[mark.key_format].schema)}
        return {"type": "object", "additionalProperties": item, **_present(bounds), **names}

    def value(self, member: Declared, form: str | None) -> Schema:
        """Schema of the value or item alone."""
        kind = member.kind
        if isinstance(kind, tuple):
            return {"oneOf": [self.reference(variant) for variant in cast(tuple[type[Record], ...], kind)]}
        if isinstance(kind, type) and issubclass(kind, Record | Choice):
            return self.reference(kind)
        return self.scalar(scalar_name(member), member.mark, form)

    def scalar(self, name: str, mark: Member, form: str | None) -> Schema:
        """Schema of a scalar with the bounds of its member."""
        if mark.const is not None:
            return {"const": mark.const}
        if mark.one_of is not None:
            return {"enum": list(mark.one_of)}
        if name == "flags":
            return flags_schema()
        if form is not None:
            return dict(FORMATS[form].schema)
        schema = SCALARS[name].schema
        bounds = _present({"minimum": mark.min, "maximum": mark.max})
        if name not in ("int32", "int64"):
            return {**schema, **bounds}
        number, quoted = schema["anyOf"]
        number = {**number, **bounds}
        return {"anyOf": [number, quoted]} if self.quoted else number


def flags_schema() -> Schema:
    """Schema of a set of capabilities (CON-10)."""
    return {"type": "string", "pattern": _FLAGS}


_NAMES = "|".join([capabilities.ALL, capabilities.NONE, *(flag.name for flag in capabilities.CAPABILITIES)])
_FLAGS = f"^ *({_NAMES})( *, *({_NAMES}))* *$"


def _choice(kind: type[Choice]) -> Schema:
    meanings = " ".join(f"{name.value}: {name.meaning}" for name in kind)
    names = [str(name) for name in kind]
    return {"type": "string", "enum": names, "description": f"{kind.__doc__} {meanings}"}


def _object(properties: Schema, required: list[str]) -> Schema:
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    return schema


def _or_null(schema: Schema) -> Schema:
    return schema if schema == {} else {"anyOf": [schema, {"type": "null"}]}


def _has_default(member: Declared) -> bool:
    """Whether an absent member has a value that a reader of the schema should know."""
    if member.default is NODEFAULT or member.omitted:
        return False
    return not (member.attribute == "resource" and member.default == "")


def _present(bounds: dict[str, Any]) -> Schema:
    return {name: value for name, value in bounds.items() if value is not None}
