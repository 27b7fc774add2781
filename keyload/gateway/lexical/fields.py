"""The fields of a tool's document and BM25F over them (GTW-19): weights, lengths, and the postings they make."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np

from keyload.gateway.documents import ToolDocument
from keyload.gateway.lexical.postings import Floats, Postings

SATURATION = 1.2
_EXCLUSION = re.compile(r"(?:^|(?<=[.;!?]\s))(?:not for|do not use|don't use|never use)\b[^.;!?]*", re.IGNORECASE)


class Field(msgspec.Struct, frozen=True):
    """What a word counts in a field, and how much the field's length dampens it (0 not at all, 1 fully)."""

    weight: float
    damping: float


FIELDS: dict[str, Field] = {
    "name": Field(3.0, 0.3),
    "title": Field(3.0, 0.3),
    "description": Field(2.0, 0.5),
    "category": Field(2.0, 0.0),
    "alias": Field(2.0, 0.5),
    "example": Field(2.0, 0.75),
    "required argument": Field(1.1, 0.6),
    "argument": Field(0.9, 0.6),
    "argument text": Field(0.7, 0.75),
    "values": Field(0.3, 0.75),
}
_NUMBERS = {name: number for number, name in enumerate(FIELDS)}


def described(document: ToolDocument) -> str:
    """The description without what it excludes ("Not for ...")."""
    return _EXCLUSION.sub(" ", document.description)


def texts(document: ToolDocument) -> Iterator[tuple[str, str]]:
    """Pairs of field and text of a document."""
    yield "name", document.name
    yield "title", document.title
    yield "description", described(document)
    yield "category", document.category
    for alias in document.aliases:
        yield "alias", alias
    for example in document.examples:
        yield "example", example
    for argument in document.arguments:
        yield "required argument" if argument.required else "argument", argument.name
        yield "argument text", argument.text
        for value in argument.values:
            yield "values", value


def field_postings(
    documents: Sequence[ToolDocument], numbers: Callable[[str], Sequence[int]], term_count: Callable[[], int]
) -> Postings:
    """BM25F postings, saturated: a term in a tool weighs 0..1. `numbers` gives the terms of a text as numbers."""
    keys: list[int] = []  # (tool, field) of each term of `terms`
    sizes: list[int] = []
    terms: list[int] = []
    for tool, document in enumerate(documents):
        for field, text in texts(document):
            found = numbers(text)
            keys.append(tool * len(FIELDS) + _NUMBERS[field])
            sizes.append(len(found))
            terms.extend(found)
    count = max(term_count(), 1)
    places = np.repeat(np.array(keys, dtype=np.int64), np.array(sizes, dtype=np.int64))
    cells, times = np.unique(places * count + np.array(terms, dtype=np.int64), return_counts=True)
    share = _shares(places, len(documents))[cells // count] * times
    pairs, inverse = np.unique((cells // count // len(FIELDS)) * count + cells % count, return_inverse=True)
    weight = np.bincount(inverse, weights=share, minlength=len(pairs))
    impact = (weight / (weight + SATURATION)).astype(np.float32)
    return Postings(
        (pairs // count).astype(np.int32), (pairs % count).astype(np.int32), impact, len(documents), count
    )


def _shares(places: np.typing.NDArray[np.int64], tools: int) -> Floats:
    """What one occurrence counts in each field of each tool, long fields less."""
    lengths = np.bincount(places, minlength=tools * len(FIELDS)).reshape(tools, len(FIELDS)).astype(np.float32)
    average = lengths.sum(axis=0) / np.maximum(np.count_nonzero(lengths, axis=0), 1) + 1e-9
    weight = np.array([field.weight for field in FIELDS.values()], dtype=np.float32)
    damping = np.array([field.damping for field in FIELDS.values()], dtype=np.float32)
    return (weight / (1 - damping + damping * lengths / average)).reshape(-1).astype(np.float32)
