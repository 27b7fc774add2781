"""The obviously right model of documents: a dictionary of revisions and values (TST-11)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import msgspec

from keyload.contract.documents import DeleteDocument, PatchDocument, PatchKind, PutDocument
from keyload.contract.mutations import Mutation


class State(msgspec.Struct, frozen=True):
    """One document: its revision, 0 before the first, and its value, None when it is not live."""

    revision: int = 0
    value: Any = None


Documents = dict[str, State]


def applied(documents: Documents, mutations: Iterable[Mutation]) -> Documents:
    """The documents after a command that is known to succeed; the argument stays as it is."""
    after = dict(documents)
    for mutation in mutations:
        if not isinstance(mutation, PutDocument | PatchDocument | DeleteDocument):
            raise TypeError("the reference model knows documents only")
        before = after.get(mutation.id, State())
        after[mutation.id] = State(before.revision + 1, _value(before.value, mutation))
    return after


def _value(value: Any, mutation: PutDocument | PatchDocument | DeleteDocument) -> Any:
    match mutation:
        case PutDocument():
            return json.loads(mutation.json)
        case DeleteDocument():
            return None
        case PatchDocument():
            changed = deepcopy(value)
            for patch in mutation.patches:
                name = patch.path.removeprefix("/")
                if patch.kind == PatchKind.SET:
                    changed[name] = json.loads(patch.value_json or "null")
                else:
                    changed.pop(name, None)
            return changed


def visible(documents: Documents) -> Documents:
    """The live documents: what reads can tell. Revisions of deleted ones show in later receipts."""
    return {name: state for name, state in documents.items() if state.value is not None}


def as_state(found: dict[str, Any]) -> State:
    """What a read told, in the form of the model."""
    return State(found["revision"], json.loads(found["json"]))
