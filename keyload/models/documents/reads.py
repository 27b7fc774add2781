"""keyload_documents_get: one document as the caller may see it (DOC-18, DOC-19)."""

from __future__ import annotations

from keyload.codec import json_text
from keyload.contract import capabilities
from keyload.contract.documents import DocumentResult, GetDocumentRequest
from keyload.models.context import ReadContext, ReadHandler
from keyload.models.documents.collections import open_collection
from keyload.models.documents.keys import DOCUMENT, document_key
from keyload.models.references import entity_ref
from keyload.models.security import fields

READ = capabilities.mask("DocumentsRead")


def _authorize(context: ReadContext, request: GetDocumentRequest) -> None:
    partition = request.reference.partition
    context.rights.require(partition.tenant_id, partition.database_id, request.reference.collection, READ)


def _get(context: ReadContext, request: GetDocumentRequest) -> DocumentResult | None:
    reference = request.reference
    plan = open_collection(context, reference.collection, "/reference/collection")
    if context.partition is None or context.partition_number is None:
        return None
    stored = context.reader.get(document_key(context.partition_number, reference.collection, reference.id))
    context.budget.charge(1, len(stored or b""))
    if stored is None:
        return None
    document = DOCUMENT.decode(stored)
    if document.deleted or not context.rights.sees_row(document.owner_id, document.project_id):
        return None
    text, hidden = document.json, []
    if plan.policies and fields.withheld(plan.policies, context.rights):
        tree = json_text.check(text, object_only=True)
        hidden = fields.redact(plan.policies, context.rights, tree)
        if hidden:
            text = json_text.canonical(tree).decode()
    return DocumentResult(
        reference=entity_ref(context.partition, reference.collection, reference.id),
        revision=document.revision,
        json=text,
        redacted=bool(hidden),
        redacted_fields=tuple(hidden),
    )


GET = ReadHandler(authorize=_authorize, execute=_get)
