"""The shape of one mutation kind: the base of its record and the rule declared beside it."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, ClassVar

import msgspec
from msgspec.structs import force_setattr

from keyload.contract.base import Member, Record
from keyload.contract.operation import RequiredGrant


class MutationRecord(Record, frozen=True, kw_only=True, tag_field="kind"):
    """Base of the mutations of a batch: written with `kind` first, then `resource` (CON-15, CON-16).

    `resource` repeats the attribute that `resource_attribute` leads to (dots for steps); left empty it is
    filled with it.
    """

    resource_attribute: ClassVar[str] = "collection"

    resource: Annotated[
        str,
        Member(
            format="identifier",
            meaning="Equals collection; may be left out on input, another value is Validation.",
        ),
    ] = ""

    def __post_init__(self) -> None:
        """Give `resource` its value; a decoder refuses another one before."""
        if not self.resource:
            force_setattr(self, "resource", attrgetter(self.resource_attribute)(self))


class ReceiptRule(msgspec.Struct, frozen=True, kw_only=True):
    """What `id` and `revision` of the mutation's receipt mean (CMD-13)."""

    id: str
    revision: str


class MutationRule(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One mutation kind, in the words of docs/contract section 2.

    `record` is its tagged record; `resource_from` names the member that `resource` repeats.
    """

    kind: str
    feature: str
    record: type[MutationRecord]
    description: str
    aliases: tuple[str, ...]
    required_grants: tuple[RequiredGrant, ...]
    resource_from: str
    receipt: ReceiptRule
    filterable: bool
    allowed_in_effects: bool
    expands: bool
