"""What makes a resource definition acceptable in itself (DOC-20, DOC-26, DOC-27, REL-1..REL-4, REL-18)."""

from __future__ import annotations

from msgspec import UNSET

from keyload.contract.catalog import (
    DocumentAuthority,
    RelationalColumnType,
    RelationalSchema,
    ResourceDefinition,
    ResourceKind,
)
from keyload.contract.errors import ErrorCode
from keyload.models.context import refuse
from keyload.models.pointers import steps_of


def check_definition(definition: ResourceDefinition) -> None:
    """`Validation` when members contradict the kind or each other; single members were checked on
    decoding."""
    collection = definition.kind == ResourceKind.COLLECTION
    if not collection and (
        definition.indexes
        or definition.authority != DocumentAuthority.DOCUMENT
        or definition.relational_schema is not UNSET
    ):
        _refuse("Only a collection has indexes, an authority or a relational schema.", "/definition/kind")
    _check_blob_store(definition)
    names = [index.name for index in definition.indexes]
    if len(set(names)) != len(names):
        _refuse("Two indexes have the same name.", "/definition/indexes")
    if definition.queue_policy.retry_max_milliseconds < definition.queue_policy.retry_base_milliseconds:
        _refuse("The longest retry delay is shorter than the first.", "/definition/queuePolicy")
    if definition.relational_schema is not UNSET:
        _check_schema(definition, definition.relational_schema)


def _check_blob_store(definition: ResourceDefinition) -> None:
    if definition.kind != ResourceKind.BLOB_STORE:
        if definition.blob_policy is not UNSET:
            _refuse("Only a blob store has a blob policy.", "/definition/blobPolicy")
        return
    if definition.field_policies or definition.header_policies:
        _refuse("A blob store has no field and header policies.", "/definition/fieldPolicies")
    policy = definition.blob_policy
    if policy is not UNSET and policy.max_blob_bytes > policy.max_reserved_bytes:
        _refuse("The greatest blob is larger than all reserved bytes.", "/definition/blobPolicy")


def _check_schema(definition: ResourceDefinition, schema: RelationalSchema) -> None:
    path = "/definition/relationalSchema"
    if definition.authority != DocumentAuthority.DOCUMENT:
        _refuse("Typed rows need the authority Document.", path)
    columns = {column.name: column for column in schema.columns}
    if len(columns) != len(schema.columns):
        _refuse("Two columns have the same name.", path)
    for name in columns:
        if name in ("revision", "*") or name.startswith("@") or (name == "id" and schema.primary_key != "id"):
            _refuse("A column has a reserved name.", path)
    primary = columns.get(schema.primary_key)
    if primary is None or primary.type != RelationalColumnType.TEXT or primary.nullable:
        _refuse("The primary key is no Text column that refuses null.", path)
    for index in definition.indexes:
        for field in index.fields:
            steps = steps_of(field)
            if len(steps) != 1 or steps[0] not in columns:
                _refuse("An index field of typed rows names no single column.", "/definition/indexes")


def _refuse(detail: str, path: str) -> None:
    refuse(ErrorCode.VALIDATION, detail, path)
