"""Keys and stored form of documents, their index entries and the state of a collection in one partition."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from keyload.codec.tuples import pack
from keyload.models import tags
from keyload.models.partitions.keys import space
from keyload.models.records import Stored


class StoredDocument(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One image of a document; `json` is the literal text, empty object for a tombstone; `updated` in
    ticks."""

    revision: int
    json: str
    owner_id: str | None
    project_id: str | None
    updated: int
    deleted: bool = False


class CollectionState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Of one collection in one partition: how often the row access of a document changed (DOC-15), and the
    commit position of the last change, which query cursors bind (CON-88)."""

    row_epoch: int = 0
    changed: int = 0


DOCUMENT = Stored(StoredDocument, "document")
COLLECTION = Stored(CollectionState, "collection record")


@lru_cache(maxsize=16_384)
def documents_prefix(number: int, collection: str) -> bytes:
    """What the keys of all documents of a collection in one partition begin with."""
    return space(number) + tags.DOCUMENT + pack((collection,))


def document_key(number: int, collection: str, document_id: str) -> bytes:
    """Where a document, or its tombstone, is kept."""
    return documents_prefix(number, collection) + pack((document_id,))


@lru_cache(maxsize=16_384)
def collection_key(number: int, collection: str) -> bytes:
    """Where the state of a collection in one partition is kept."""
    return space(number) + tags.COLLECTION + pack((collection,))


@lru_cache(maxsize=16_384)
def index_prefix(number: int, collection: str, index: str) -> bytes:
    """What the keys of all entries of an index in one partition begin with."""
    return space(number) + tags.INDEX + pack((collection, index))
