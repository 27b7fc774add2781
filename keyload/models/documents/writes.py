"""putDocument, patchDocument, deleteDocument (DOC-1..DOC-17, CON-74..CON-78, CON-95..CON-99).

The JSON text of a put has been checked where the request was decoded; it is stored literally and looked into
only when indexes, policies or a relational schema ask for it.
"""

from __future__ import annotations

from typing import Any

from keyload.codec import json_text
from keyload.contract import capabilities
from keyload.contract.documents import DeleteDocument, PatchDocument, PutDocument
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.models.context import CommandContext, MutationHandler, Receipt, refuse
from keyload.models.documents.collections import CollectionPlan, open_collection
from keyload.models.documents.indexes import replace_entries
from keyload.models.documents.keys import (
    COLLECTION,
    DOCUMENT,
    CollectionState,
    StoredDocument,
    collection_key,
    document_key,
)
from keyload.models.documents.patches import apply_patches, patch_paths
from keyload.models.documents.rows import check_row
from keyload.models.security import fields
from keyload.models.security.rights import Rights

WRITE = capabilities.mask("DocumentsWrite")
Receipts = tuple[Receipt, ...]
_EMPTY_TEXT = "{}"


def _authorize(context: CommandContext, mutation: PutDocument | PatchDocument | DeleteDocument) -> None:
    if context.partition is None:
        refuse(ErrorCode.VALIDATION, "Documents need a partition.", "/collection", "a call with a partition")
    context.rights.require(context.partition[0], context.partition[1], mutation.collection, WRITE)


def _open(context: CommandContext, collection: str) -> CollectionPlan:
    plan = open_collection(context, collection, "/collection")
    if plan.from_events and not context.from_events:
        refuse(ErrorCode.PERMISSION_DENIED, "Only event projections change the documents of this collection.")
    return plan


def _check_row_scope(context: CommandContext, owner_id: str | None, project_id: str | None) -> None:
    if not context.rights.sees_row(owner_id, project_id):
        refuse(ErrorCode.PERMISSION_DENIED, "The row is outside the caller's row scope.")


def _check_revision(expected: int | None, current: int) -> None:
    if expected is not None and expected != current:
        refuse(ErrorCode.REVISION_CONFLICT, "The document has another revision.", "/expectedRevision")


def _put(context: CommandContext, mutation: PutDocument) -> Receipts:
    plan = _open(context, mutation.collection)
    key = document_key(context.partition_number, mutation.collection, mutation.id)
    stored = context.txn.get(key)
    before = None if stored is None else DOCUMENT.decode(stored)
    owner, project = (None, None) if before is None else (before.owner_id, before.project_id)
    if before is not None:
        _check_row_scope(context, owner, project)
    _check_revision(mutation.expected_revision, 0 if before is None else before.revision)
    if mutation.access is not None:
        owner, project = mutation.access.owner_id, mutation.access.project_id
    _check_row_scope(context, owner, project)
    if not plan.plain:
        _check_and_index_put(context, plan, mutation, before)
    revision = 1 if before is None else before.revision + 1
    after = StoredDocument(revision, mutation.json, owner, project, context.instant)
    return _store(context, key, mutation, after, before, stored)


def _check_and_index_put(
    context: CommandContext, plan: CollectionPlan, mutation: PutDocument, before: StoredDocument | None
) -> None:
    new = json_text.check(mutation.json, object_only=True)
    if plan.rows is not None:
        check_row(plan.rows, new, mutation.id, "/json")
    old = None if before is None or before.deleted else json_text.check(before.json, object_only=True)
    if plan.policies:
        _check_fields_put(context.rights, plan, mutation, old, new)
    _index(context, plan, mutation.id, old, new)


def _check_fields_put(
    rights: Rights, plan: CollectionPlan, mutation: PutDocument, old: Any, new: Any
) -> None:
    """Before any index is asked: a conflict would tell of values the caller may not even write."""
    fields.require_write_of_tree(plan.policies, rights, new)
    if old is None:
        return
    fields.require_write_of_tree(plan.policies, rights, old)
    if fields.holds_unreadable(plan.policies, rights, old) and not (
        mutation.explicit_replacement and rights.holds(fields.REPLACE_SENSITIVE)
    ):
        refuse(
            ErrorCode.PERMISSION_DENIED, "The document holds protected fields that the caller cannot read."
        )


def _index(context: CommandContext, plan: CollectionPlan, document_id: str, old: Any, new: Any) -> None:
    if plan.indexes:
        context.derive(
            replace_entries(
                context.txn, plan.indexes, context.partition_number, plan.name, document_id, old, new
            )
        )


def _live(
    context: CommandContext, collection: str, document_id: str, expected: int | None
) -> tuple[bytes, bytes, StoredDocument]:
    """Key, stored form and image of a live document in the caller's row scope and of the expected
    revision."""
    key = document_key(context.partition_number, collection, document_id)
    stored = context.txn.get(key)
    before = None if stored is None else DOCUMENT.decode(stored)
    if stored is None or before is None or before.deleted:
        refuse(ErrorCode.NOT_FOUND, "The document does not exist.")
    _check_row_scope(context, before.owner_id, before.project_id)
    _check_revision(expected, before.revision)
    return key, stored, before


def _patch(context: CommandContext, mutation: PatchDocument) -> Receipts:
    plan = _open(context, mutation.collection)
    key, stored, before = _live(context, mutation.collection, mutation.id, mutation.expected_revision)
    paths = patch_paths(mutation.patches, plan.rows)
    for steps in paths if plan.policies else ():
        fields.require_write(plan.policies, context.rights, steps)
    new = json_text.check(before.json, object_only=True)
    apply_patches(new, mutation.patches, paths, plan.rows)
    text = json_text.canonical(new).decode()
    _check_patched(plan, mutation, text, new)
    if plan.indexes:
        _index(context, plan, mutation.id, json_text.check(before.json, object_only=True), new)
    after = StoredDocument(before.revision + 1, text, before.owner_id, before.project_id, context.instant)
    return _store(context, key, mutation, after, before, stored)


def _check_patched(plan: CollectionPlan, mutation: PatchDocument, text: str, row: dict[str, Any]) -> None:
    """Where in the patched text something is wrong is not told: the caller may not see all of it."""
    try:
        json_text.check(text, object_only=True)
        if plan.rows is not None:
            check_row(plan.rows, row, mutation.id, "")
    except KeyLoadError as error:
        raise KeyLoadError(error.code, error.detail, path="/patches", expected=error.expected) from error


def _delete(context: CommandContext, mutation: DeleteDocument) -> Receipts:
    plan = _open(context, mutation.collection)
    key, stored, before = _live(context, mutation.collection, mutation.id, mutation.expected_revision)
    if plan.indexes:
        _index(context, plan, mutation.id, json_text.check(before.json, object_only=True), None)
    after = StoredDocument(
        before.revision + 1, _EMPTY_TEXT, before.owner_id, before.project_id, context.instant, True
    )
    return _store(context, key, mutation, after, before, stored)


def _store(
    context: CommandContext,
    key: bytes,
    mutation: PutDocument | PatchDocument | DeleteDocument,
    after: StoredDocument,
    before: StoredDocument | None,
    stored: bytes | None,
) -> Receipts:
    """Write the new image, the collection's state and the effect; the receipt of the mutation (CMD-13)."""
    txn = context.txn
    image = DOCUMENT.encode(after)
    txn.put(key, image)
    collection = mutation.collection
    moved = before is not None and (
        before.owner_id != after.owner_id or before.project_id != after.project_id
    )
    state_key = collection_key(context.partition_number, collection)
    state = txn.get(state_key)
    epoch = 0 if state is None else COLLECTION.decode(state).row_epoch
    txn.put(state_key, COLLECTION.encode(CollectionState(epoch + moved, context.position)))
    receipt = (_KINDS[type(mutation)], collection, mutation.id, after.revision)
    context.effect(mutation, receipt, stored, image if isinstance(mutation, PatchDocument) else None)
    return (receipt,)


_KINDS: dict[type, str] = {
    PutDocument: "putDocument",
    PatchDocument: "patchDocument",
    DeleteDocument: "deleteDocument",
}

PUT = MutationHandler(authorize=_authorize, apply=_put)
PATCH = MutationHandler(authorize=_authorize, apply=_patch)
DELETE = MutationHandler(authorize=_authorize, apply=_delete)
