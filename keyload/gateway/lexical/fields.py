"""The fields of a tool's document and BM25F over them (GTW-19): weights, lengths, and their postings."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np

from keyload.gateway.documents import ToolDocument
from keyload.gateway.lexical.postings import Floats, Integers, Postings, counted, distinct

SATURATION = 0.6
_EXCLUSION = re.compile(
    r"(?:^|(?<=[.;!?]\s))(?:not for|do not use|don't use|never use)\b[^.;!?]*", re.IGNORECASE
)


class Field(msgspec.Struct, frozen=True):
    """What a word counts in a field, and how much the field's length dampens it (0 not at all, 1 fully)."""

    weight: float
    damping: float


FIELDS: dict[str, Field] = {
    "name": Field(2.0, 0.3),
    "title": Field(2.0, 0.3),
    "description": Field(3.0, 0.4),
    "category": Field(2.0, 0.0),
    "alias": Field(3.0, 0.5),
    "required argument": Field(1.0, 0.6),
    "argument": Field(5.0, 0.3),
    "argument text": Field(0.25, 0.3),
    "values": Field(1.4, 1.0),
}
_NUMBERS = {name: number for number, name in enumerate(FIELDS)}


def described(document: ToolDocument) -> str:
    """The description without what it excludes ("Not for ...")."""
    return _EXCLUSION.sub(" ", document.description)


def texts(document: ToolDocument) -> Iterator[tuple[str, str]]:
    """Pairs of field and text of a document. Examples are no field: they are compared one by one."""
    yield "name", document.name
    yield "title", document.title
    yield "description", described(document)
    yield "category", document.category
    for alias in document.aliases:
        yield "alias", alias
    for argument in document.arguments:
        yield "required argument" if argument.required else "argument", argument.name
        yield "argument text", argument.text
        for value in argument.values:
            yield "values", value


class FieldTexts:
    """The texts of all fields of some tools as numbers of terms, one after the other."""

    def __init__(self, documents: Sequence[ToolDocument], read: Callable[[str], array[int]]) -> None:
        self._tools = len(documents)
        places = array("i")
        sizes = array("i")
        terms = array("i")
        for tool, document in enumerate(documents):
            for field, text in texts(document):
                found = read(text)
                places.append(tool * len(FIELDS) + _NUMBERS[field])
                sizes.append(len(found))
                terms.extend(found)
        self._places: Integers = np.array(places, dtype=np.int32)
        self._sizes: Integers = np.array(sizes, dtype=np.int32)
        self._terms: Integers = np.array(terms, dtype=np.int32)

    def postings(self, term_count: int) -> Postings:
        """BM25F, saturated: a term weighs 0..1 in a tool."""
        places, terms, times = counted(self._places, self._sizes, self._terms, term_count)
        share = self._shares()[places] * times
        cells = (places // len(FIELDS)).astype(np.int64) * term_count + terms
        order = np.argsort(cells, kind="stable")
        pairs, starts = distinct(cells[order])
        weight = np.add.reduceat(share[order], starts) if len(starts) else share
        return Postings(
            (pairs // term_count).astype(np.int32),
            (pairs % term_count).astype(np.int32),
            (weight / (weight + SATURATION)).astype(np.float32),
            self._tools,
            term_count,
        )

    def _shares(self) -> Floats:
        """What one occurrence counts in each field of each tool, less in long fields."""
        lengths = np.bincount(self._places, self._sizes, minlength=self._tools * len(FIELDS))
        lengths = lengths.reshape(self._tools, len(FIELDS))
        average = lengths.sum(axis=0) / np.maximum(np.count_nonzero(lengths, axis=0), 1) + 1e-9
        weight = np.array([field.weight for field in FIELDS.values()])
        damping = np.array([field.damping for field in FIELDS.values()])
        damped = np.maximum(1 - damping + damping * lengths / average, 1e-6)
        return (weight / damped).reshape(-1).astype(np.float32)
