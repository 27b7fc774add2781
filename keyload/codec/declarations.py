"""What the declaration of a record says about each member, read once for decoding, schema and fingerprint."""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET, UnsetType

from keyload.contract.base import Member, Record


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """One member: JSON name, attribute, type of the value or item, container and what may be left out.

    `kind` is bool, int, float, str, bytes, `Any`, a `Record` or `Choice` class, or a tuple of tagged records
    (a union). `default` is the value of an absent member, NODEFAULT when there is none.
    """

    name: str
    attribute: str
    kind: Any
    container: str | None
    nullable: bool
    omitted: bool
    required: bool
    default: Any
    mark: Member


@cache
def members(record: type[Record]) -> tuple[Declared, ...]:
    """The members of a record type in the order of the declaration, without the tag of a union."""
    return tuple(_declared(field) for field in msgspec.structs.fields(record))


def _declared(field: msgspec.structs.FieldInfo) -> Declared:
    mark, kind = Member(), field.type
    if get_origin(kind) is Annotated:
        kind, *marks = get_args(kind)
        mark = next(value for value in marks if isinstance(value, Member))
    default = field.default
    if field.default_factory is not NODEFAULT:
        default = field.default_factory()  # pyright: ignore[reportCallIssue]
    options = _options(kind)
    omitted = default is UNSET
    nullable = omitted or NoneType in options
    plain = tuple(option for option in options if option not in (NoneType, UnsetType))
    kind, container = _contained(plain[0]) if len(plain) == 1 else (plain, None)
    return Declared(
        name=field.encode_name,
        attribute=field.name,
        kind=kind,
        container=container,
        nullable=nullable,
        omitted=omitted,
        required=field.required,
        default=default,
        mark=mark,
    )


def _options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _contained(kind: Any) -> tuple[Any, str | None]:
    """Type of the items and the container; a union of items is a tuple of its variants."""
    origin = get_origin(kind)
    if origin is tuple:
        item, container = get_args(kind)[0], "array"
    elif origin is dict:
        item, container = get_args(kind)[1], "map"
    else:
        return kind, None
    options = _options(item)
    return (options if len(options) > 1 else item), container


def tag(record: type[Record]) -> tuple[str, str] | None:
    """Discriminator and its value of a variant of a union, None for a plain record."""
    config = record.__struct_config__
    if config.tag is None:
        return None
    assert config.tag_field is not None
    return config.tag_field, str(config.tag)


def scalar_name(member: Declared) -> str:
    """Name of the scalar of a member that is no record, enum or union."""
    if member.mark.scalar is not None:
        return member.mark.scalar
    return "boolean" if member.kind is bool else "string"
