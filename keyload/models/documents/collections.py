"""What writes and reads need to know of a collection, taken apart once per definition."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from keyload.contract.catalog import DocumentAuthority, ResourceDefinition, ResourceKind
from keyload.contract.errors import ErrorCode
from keyload.models.context import CommandContext, ReadContext, refuse
from keyload.models.documents.indexes import IndexPlan, plan_index
from keyload.models.documents.rows import RowPlan, plan_rows, timestamp_columns
from keyload.models.security.fields import FieldPolicy, compile_policies

_MAX_PLANS = 4096


class CollectionPlan(msgspec.Struct, frozen=True):
    """A collection's definition in the form of the checks; `plain` when no write has to look into the
    text."""

    definition: ResourceDefinition
    name: str
    domain: str
    from_events: bool
    policies: tuple[FieldPolicy, ...]
    indexes: tuple[IndexPlan, ...]
    rows: RowPlan | None
    plain: bool


_plans: dict[int, CollectionPlan] = {}


def plan_of(definition: ResourceDefinition) -> CollectionPlan:
    """The plan of a definition, kept for as long as the same definition object is asked for."""
    plan = _plans.get(id(definition))
    if plan is None or plan.definition is not definition:
        if len(_plans) >= _MAX_PLANS:
            _plans.clear()
        plan = _make_plan(definition)
        _plans[id(definition)] = plan
    return plan


def _make_plan(definition: ResourceDefinition) -> CollectionPlan:
    schema = None if definition.relational_schema is UNSET else definition.relational_schema
    timestamps = frozenset[str]() if schema is None else timestamp_columns(schema)
    policies = compile_policies(definition.field_policies)
    indexes = tuple(plan_index(index, timestamps) for index in definition.indexes)
    return CollectionPlan(
        definition=definition,
        name=definition.name,
        domain=definition.transaction_domain_id,
        from_events=definition.authority == DocumentAuthority.EVENT_STREAM,
        policies=policies,
        indexes=indexes,
        rows=None if schema is None else plan_rows(schema),
        plain=not policies and not indexes and schema is None,
    )


def open_collection(context: CommandContext | ReadContext, name: str, path: str) -> CollectionPlan:
    """The collection of that name in the partition of the call; `path` is the member that names it.

    `NotFound` when there is none, `Validation` when the resource is of another kind or transaction domain
    (CMD-5).
    """
    if context.partition is None:
        refuse(ErrorCode.VALIDATION, "Documents need a partition.", path, "a call with a partition")
    tenant, database, domain, _ = context.partition
    definition = context.catalog.resource(tenant, database, name)
    if definition is None:
        refuse(ErrorCode.NOT_FOUND, "The collection does not exist.", path)
    plan = plan_of(definition) if definition.kind == ResourceKind.COLLECTION else None
    if plan is None:
        detail = "The resource is no collection."
        refuse(ErrorCode.VALIDATION, detail, path, "the name of a resource of kind Collection")
    if plan.domain != domain:
        detail = "The collection belongs to another transaction domain."
        expected = "a collection of the transactionDomainId of the call's partition"
        refuse(ErrorCode.VALIDATION, detail, path, expected)
    return plan
