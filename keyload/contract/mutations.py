"""All mutation kinds this version implements, and the union of their records."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from keyload.contract import documents
from keyload.contract.documents import DeleteDocument, PatchDocument, PutDocument
from keyload.contract.mutation import MutationRule

Mutation = PutDocument | PatchDocument | DeleteDocument
"""One change inside a command or an effect list."""

_RULES = (documents.PUT_DOCUMENT, documents.PATCH_DOCUMENT, documents.DELETE_DOCUMENT)

MUTATIONS: Mapping[str, MutationRule] = MappingProxyType({rule.kind: rule for rule in _RULES})
"""Rules by kind, in catalog order."""
