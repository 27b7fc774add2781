"""Documents: one read, and the three mutations that write them (spec documents.md)."""

from __future__ import annotations

from typing import Annotated

from keyload.contract.base import Choice, Member, Record
from keyload.contract.errors import ErrorCode
from keyload.contract.mutation import MutationRecord, MutationRule, ReceiptRule
from keyload.contract.operation import Operation, RequiredGrant
from keyload.contract.shared import EntityRef, RowAccess


class PatchKind(Choice):
    """Step of a patch."""

    SET = "Set", "Writes a value."
    REMOVE = "Remove", "Drops a member."


class FieldPatch(Record, frozen=True, kw_only=True):
    """One step of patchDocument."""

    path: Annotated[
        str,
        Member(
            format="fieldPointer",
            meaning=(
                "Field to change. Every parent must exist and be an object (Validation); the last step "
                "may not be inside an array (UnsupportedCapability)."
            ),
        ),
    ]
    kind: Annotated[
        PatchKind,
        Member(
            meaning=(
                "Set writes the value, Remove drops the member; removing an absent member changes nothing."
            )
        ),
    ]
    value_json: Annotated[
        str | None,
        Member(
            format="jsonText",
            meaning="Value for Set as JSON text; null stores JSON null. Ignored for Remove.",
        ),
    ] = None


class GetDocumentRequest(Record, frozen=True, kw_only=True):
    """Asks for one document."""

    reference: Annotated[EntityRef, Member(meaning="Document to read.")]


class DocumentResult(Record, frozen=True, kw_only=True):
    """One document as the caller may see it."""

    reference: Annotated[EntityRef, Member(meaning="Identity of the document.")]
    revision: Annotated[int, Member(scalar="int64", min=1, meaning="Current revision.")]
    json: Annotated[
        str,
        Member(
            format="jsonObject",
            meaning=(
                "Document text. The exact text of the last put when nothing is hidden and no patch "
                "followed it; otherwise equivalent JSON text without the hidden fields."
            ),
        ),
    ]
    redacted: Annotated[bool, Member(meaning="True when at least one field was left out.")]
    redacted_fields: Annotated[
        tuple[str, ...],
        Member(
            item_format="jsonPointer",
            meaning="Pointers of the fields left out; empty when redacted is false.",
        ),
    ]


class PutDocument(MutationRecord, frozen=True, kw_only=True, tag="putDocument"):
    """Creates or replaces a document."""

    collection: Annotated[str, Member(format="identifier", meaning="Collection.")]
    id: Annotated[str, Member(format="identifier", meaning="Document id.")]
    json: Annotated[str, Member(format="jsonObject", meaning="Document text; stored exactly as sent.")]
    expected_revision: Annotated[
        int | None,
        Member(
            scalar="int64",
            min=0,
            meaning=(
                "Null = no check; 0 = the id was never used; otherwise the current revision, a "
                "tombstone's included; else RevisionConflict."
            ),
        ),
    ] = None
    access: Annotated[
        RowAccess | None, Member(meaning="Row ownership; null keeps the stored one, or none for a new id.")
    ] = None
    explicit_replacement: Annotated[
        bool,
        Member(
            meaning=(
                "Consent to overwrite a live document that holds protected fields the caller cannot "
                "read; without it such a put is PermissionDenied, with it the grant "
                "document.replaceSensitive is needed too."
            )
        ),
    ] = False


class PatchDocument(MutationRecord, frozen=True, kw_only=True, tag="patchDocument"):
    """Changes single fields of a live document."""

    collection: Annotated[str, Member(format="identifier", meaning="Collection.")]
    id: Annotated[str, Member(format="identifier", meaning="Document id; missing or deleted is NotFound.")]
    patches: Annotated[
        tuple[FieldPatch, ...],
        Member(
            min_items=1, max_items=256, error_above="ResourceExhausted", meaning="Steps, applied in order."
        ),
    ]
    expected_revision: Annotated[
        int, Member(scalar="int64", min=1, meaning="Current revision, else RevisionConflict.")
    ]


class DeleteDocument(MutationRecord, frozen=True, kw_only=True, tag="deleteDocument"):
    """Turns a live document into a tombstone."""

    collection: Annotated[str, Member(format="identifier", meaning="Collection.")]
    id: Annotated[str, Member(format="identifier", meaning="Document id; missing or deleted is NotFound.")]
    expected_revision: Annotated[
        int | None,
        Member(
            scalar="int64",
            min=1,
            meaning="Null = no check; otherwise the current revision, else RevisionConflict.",
        ),
    ] = None


PUT_DOCUMENT = MutationRule(
    kind="putDocument",
    feature="documents",
    record=PutDocument,
    description="Creates or replaces a document.",
    aliases=("save a document", "insert or replace a record", "upsert a row", "store JSON under an id"),
    required_grants=(
        RequiredGrant(any_of=("DocumentsWrite",), on="collection"),
        RequiredGrant(any_of=("FieldWrite",), on="protected fields written or removed"),
        RequiredGrant(
            any_of=("ReplaceSensitive",),
            on="collection",
            when=(
                "explicitReplacement is true and the document holds protected fields the caller cannot read"
            ),
        ),
    ),
    resource_from="collection",
    receipt=ReceiptRule(id="document id", revision="new document revision"),
    filterable=True,
    allowed_in_effects=True,
    expands=False,
)

PATCH_DOCUMENT = MutationRule(
    kind="patchDocument",
    feature="documents",
    record=PatchDocument,
    description="Changes single fields of a live document.",
    aliases=("update one field of a document", "change part of a record", "partial update", "remove a field"),
    required_grants=(
        RequiredGrant(any_of=("DocumentsWrite",), on="collection"),
        RequiredGrant(any_of=("FieldWrite",), on="protected fields written or removed"),
    ),
    resource_from="collection",
    receipt=ReceiptRule(id="document id", revision="new document revision"),
    filterable=True,
    allowed_in_effects=True,
    expands=False,
)

DELETE_DOCUMENT = MutationRule(
    kind="deleteDocument",
    feature="documents",
    record=DeleteDocument,
    description="Turns a live document into a tombstone.",
    aliases=("delete a document", "remove a record", "erase a row"),
    required_grants=(RequiredGrant(any_of=("DocumentsWrite",), on="collection"),),
    resource_from="collection",
    receipt=ReceiptRule(id="document id", revision="revision of the tombstone"),
    filterable=True,
    allowed_in_effects=True,
    expands=False,
)

DOCUMENTS_GET = Operation(
    name="keyload_documents_get",
    title="Get a document",
    description=(
        "Returns one document by its id in the form you may see it, or null when there is no live document."
    ),
    feature="documents",
    aliases=(
        "read a document by id",
        "fetch a record",
        "look up one row",
        "get JSON by key",
        "load an entity",
    ),
    stage=1,
    kind="read",
    capability="Document",
    request=GetDocumentRequest,
    result=DocumentResult,
    result_nullable=True,
    partition_path=("reference", "partition"),
    http_method="POST",
    http_route="/v1/documents/get",
    lane="data",
    admission_class="data-other",
    read_only=True,
    destructive=False,
    idempotent=True,
    required_grants=(RequiredGrant(any_of=("DocumentsRead",), on="request.reference.collection"),),
    notable_errors=(
        ErrorCode.NOT_FOUND,
        ErrorCode.PERMISSION_DENIED,
    ),
)
"""Get a document."""
