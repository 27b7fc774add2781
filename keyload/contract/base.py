"""The base of every contract type and the constraint marks its members carry.

A contract type is a frozen `msgspec.Struct` whose attributes are snake_case and whose JSON names are
camelCase. Constraints stand in `Annotated` marks, so that decoding (`keyload.codec.decoding`) and JSON Schema
(`keyload.codec.schema`) both derive from one declaration.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A contract object type; its docstring is the type's description."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """Constraints and meaning of one member, in the words of docs/contract section 2.

    `error_below`, `error_above` and `error_other` name the code of a breach when it is not Validation.
    `direction` "output" marks a member the server computes: on input any text or null is accepted and
    dropped. `exact` False leaves the numbers of a json member as they were parsed (else CON-23 holds): the
    tree will be decoded again by another declaration. Members that are omitted when null are declared `T |
    msgspec.UnsetType = msgspec.UNSET`.
    """

    meaning: str = ""
    scalar: str | None = None
    format: str | None = None
    item_format: str | None = None
    key_format: str | None = None
    min: int | float | None = None
    max: int | float | None = None
    const: Any = None
    one_of: tuple[Any, ...] | None = None
    not_empty: bool = False
    min_items: int | None = None
    max_items: int | None = None
    unique_items: bool = False
    min_duration: str | None = None
    max_duration: str | None = None
    direction: str = "both"
    exact: bool = True
    error_below: str | None = None
    error_above: str | None = None
    error_other: str | None = None


class Choice(StrEnum):
    """An enum of the contract: a member has its PascalCase name on the wire and a meaning (CON-9)."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Choice:
        """Make the member `name`; the enum machinery passes the pair that stands in the class body."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.meaning = meaning
        return member
