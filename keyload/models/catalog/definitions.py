"""What makes a resource definition acceptable in itself (DOC-20, DOC-26, DOC-27, REL-1..REL-4, REL-18)."""

from __future__ import annotations

from msgspec import UNSET

from keyload.codec.faults import one_of
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
        detail = "Only a collection has indexes, an authority or a relational schema."
        _refuse(detail, "/kind", "Collection, or none of indexes, authority and relationalSchema")
    _check_blob_store(definition)
    _check_unique("Two indexes have the same name.", "/indexes", [index.name for index in definition.indexes])
    queue = definition.queue_policy
    if queue.retry_max_milliseconds < queue.retry_base_milliseconds:
        detail = "The longest retry delay is shorter than the first."
        _refuse(detail, "/queuePolicy/retryMaxMilliseconds", "at least retryBaseMilliseconds")
    if definition.relational_schema is not UNSET:
        _check_schema(definition, definition.relational_schema)


def _check_blob_store(definition: ResourceDefinition) -> None:
    if definition.kind != ResourceKind.BLOB_STORE:
        if definition.blob_policy is not UNSET:
            _refuse("Only a blob store has a blob policy.", "/blobPolicy", "none, or the kind BlobStore")
        return
    if definition.field_policies or definition.header_policies:
        path = "/fieldPolicies" if definition.field_policies else "/headerPolicies"
        _refuse("A blob store has no field and header policies.", path, "no items")
    policy = definition.blob_policy
    if policy is not UNSET and policy.max_blob_bytes > policy.max_reserved_bytes:
        detail = "The greatest blob is larger than all reserved bytes."
        _refuse(detail, "/blobPolicy/maxBlobBytes", "at most maxReservedBytes")


def _check_schema(definition: ResourceDefinition, schema: RelationalSchema) -> None:
    path = "/relationalSchema"
    if definition.authority != DocumentAuthority.DOCUMENT:
        _refuse("Typed rows need the authority Document.", "/authority", "Document")
    names = [column.name for column in schema.columns]
    _check_unique("Two columns have the same name.", f"{path}/columns", names)
    for place, name in enumerate(names):
        if name in ("revision", "*") or name.startswith("@") or (name == "id" and schema.primary_key != "id"):
            expected = "a name other than revision and *, without @ in front, and id for the primary key only"
            _refuse("A column has a reserved name.", f"{path}/columns/{place}/name", expected)
    columns = {column.name: column for column in schema.columns}
    primary = columns.get(schema.primary_key)
    if primary is None or primary.type != RelationalColumnType.TEXT or primary.nullable:
        detail = "The primary key is no Text column that refuses null."
        _refuse(detail, f"{path}/primaryKey", "the name of a column of type Text with nullable false")
    for place, index in enumerate(definition.indexes):
        for number, field in enumerate(index.fields):
            steps = steps_of(field)
            if len(steps) != 1 or steps[0] not in columns:
                where = f"/indexes/{place}/fields/{number}"
                expected = "one column: " + one_of((f"/{name}" for name in names), field)
                _refuse("An index field of typed rows names no single column.", where, expected)


def _check_unique(detail: str, path: str, names: list[str]) -> None:
    for place, name in enumerate(names):
        if name in names[:place]:
            _refuse(detail, f"{path}/{place}/name", "names that differ from each other")


def _refuse(detail: str, path: str, expected: str) -> None:
    refuse(ErrorCode.VALIDATION, detail, f"/definition{path}", expected)
