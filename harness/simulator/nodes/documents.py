"""Documents as a dict: what each committed command must have done, said slowly and plainly."""

from __future__ import annotations

import json
from bisect import bisect_right
from typing import Any

from keyload.contract.documents import DeleteDocument, PatchDocument, PutDocument
from keyload.contract.errors import ErrorCode

Mutation = PutDocument | PatchDocument | DeleteDocument
Images = dict[str, tuple[int, dict[str, Any] | None]]
"""Document id -> revision and content, None for a tombstone."""

Receipt = tuple[str, str, str, int]

UNIQUE = "mail"
"""The member with a unique index."""


class Refused(Exception):
    """The command changes nothing; the argument is the code."""


class Documents:
    """The documents of one partition, with everything they ever were."""

    def __init__(self) -> None:
        self.images: Images = {}
        self.changes = 0
        self._past: dict[str, tuple[list[int], list[tuple[int, dict[str, Any] | None]]]] = {}

    def execute(self, index: int, mutations: tuple[Mutation, ...]) -> list[Receipt] | str:
        """Do all mutations or none; the receipts, or the code of the refusal."""
        after = dict(self.images)
        try:
            receipts = [_apply(after, mutation) for mutation in mutations]
        except Refused as refusal:
            return str(refusal)
        self.changes += len(receipts)
        for _, _, name, _ in receipts:
            indexes, images = self._past.setdefault(name, ([], []))
            indexes.append(index)
            images.append(after[name])
        self.images = after
        return receipts

    def at(self, index: int, name: str) -> tuple[int, dict[str, Any] | None]:
        """The image of a document after the entry `index`; revision 0 when it was never there."""
        indexes, images = self._past.get(name, ([], []))
        place = bisect_right(indexes, index)
        return images[place - 1] if place else (0, None)


def _apply(images: Images, mutation: Mutation) -> Receipt:
    revision, content = images.get(mutation.id, (0, None))
    if not isinstance(mutation, PutDocument) and content is None:
        raise Refused(ErrorCode.NOT_FOUND)
    if mutation.expected_revision not in (None, revision):
        raise Refused(ErrorCode.REVISION_CONFLICT)
    match mutation:
        case PutDocument():
            kind, new = "putDocument", json.loads(mutation.json)
        case PatchDocument():
            kind, new = "patchDocument", dict(content or {})
            for patch in mutation.patches:
                new[patch.path[1:]] = json.loads(patch.value_json or "null")
        case DeleteDocument():
            kind, new = "deleteDocument", None
    value = None if new is None else new.get(UNIQUE)
    if value is not None and any(
        name != mutation.id and other is not None and other.get(UNIQUE) == value
        for name, (_, other) in images.items()
    ):
        raise Refused(ErrorCode.CONFLICT)
    images[mutation.id] = (revision + 1, new)
    return (kind, mutation.collection, mutation.id, revision + 1)
