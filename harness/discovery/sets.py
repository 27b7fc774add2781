"""The sets of tools and queries, and how they are read and split."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from keyload.gateway.documents import ToolDocument
from keyload.gateway.schema_text import schema_arguments

FOLDER = Path(__file__).parent
SPLIT_SEED = 11
FOLD_SEED = 5
FOLDS = 5
TEXT_LIMIT = 4096
PUBLIC = ("gateway", "metatool", "bfcl")


class Query(msgspec.Struct, frozen=True):
    """A task, the tools that are right for it (none for an irrelevant one), and its group."""

    text: str
    expected: tuple[str, ...]
    group: str


class ToolSet(msgspec.Struct, frozen=True):
    """Tools and the queries for them; ids of documents are names of tools."""

    documents: tuple[ToolDocument, ...]
    queries: tuple[Query, ...]


def public(name: str) -> ToolSet:
    """A set of `PUBLIC`."""
    data = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    queries = (Query(row["query"], tuple(row["expected"]), row["bucket"]) for row in data["queries"])
    return ToolSet(tuple(map(_document, data["tools"])), tuple(queries))


def own(name: str, documents: Sequence[ToolDocument]) -> ToolSet:
    """Queries for KeyLoad's own catalogue: `own` is frozen, `development` is tuned on."""
    data = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    queries = [Query(row["query"], (row["tool"],), row["kind"]) for row in data["queries"]]
    queries += [Query(text, (), "unrelated") for text in data["unrelated"]]
    return ToolSet(tuple(documents), tuple(queries))


def halves(queries: Sequence[Query]) -> tuple[list[Query], list[Query]]:
    """The half that may be tuned on, and the half that may not."""
    mixed = list(queries)
    random.Random(SPLIT_SEED).shuffle(mixed)
    return mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]


def folds(tools: ToolSet) -> Iterator[ToolSet]:
    """Five sets that together hold each query with one right tool once, others of its tool as examples."""
    by_tool: dict[str, list[Query]] = {}
    for query in tools.queries:
        if len(query.expected) == 1:
            by_tool.setdefault(query.expected[0], []).append(query)
    chance = random.Random(FOLD_SEED)
    for queries in by_tool.values():
        chance.shuffle(queries)
    for fold in range(FOLDS):
        given = {
            name: tuple(query.text for at, query in enumerate(queries) if at % FOLDS != fold)
            for name, queries in by_tool.items()
        }
        held = [query for queries in by_tool.values() for query in queries[fold::FOLDS]]
        yield ToolSet(with_examples(tools.documents, given), tuple(held))


def all_as_examples(tools: ToolSet) -> ToolSet:
    """The queries with one right tool as its examples (five a tool), held out those with several."""
    given: dict[str, tuple[str, ...]] = {}
    for query in tools.queries:
        if len(query.expected) == 1:
            given[query.expected[0]] = (*given.get(query.expected[0], ()), query.text)
    held = [query for query in tools.queries if len(query.expected) > 1]
    return ToolSet(with_examples(tools.documents, given), tuple(held))


def with_examples(
    documents: Sequence[ToolDocument], given: Mapping[str, tuple[str, ...]]
) -> tuple[ToolDocument, ...]:
    """The documents with the examples given by id."""
    return tuple(
        msgspec.structs.replace(document, examples=given.get(document.id, ())) for document in documents
    )


def misspelt(text: str, chance: random.Random) -> str:
    """One random edit in a word of at least four letters: a letter less, more, other, or two swapped."""
    starts = [
        (at, len(word)) for at, word in _words(text) if len(word) >= 4 and word.isalpha() and word.isascii()
    ]
    if not starts:
        return text
    start, size = chance.choice(starts)
    at = start + chance.randrange(size - 1)
    letter = chance.choice("abcdefghijklmnopqrstuvwxyz")
    match chance.choice(("less", "more", "other", "swapped")):
        case "less":
            return text[:at] + text[at + 1 :]
        case "more":
            return text[:at] + letter + text[at:]
        case "other":
            return text[:at] + letter + text[at + 1 :]
        case _:
            return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def _words(text: str) -> Iterator[tuple[int, str]]:
    at = 0
    for word in text.split(" "):
        yield at, word
        at += len(word) + 1


def _document(tool: Mapping[str, Any]) -> ToolDocument:
    return ToolDocument(
        id=tool["name"],
        name=tool["name"],
        title=tool["name"],
        description=tool["description"],
        arguments=schema_arguments(tool.get("schema") or {}, TEXT_LIMIT),
    )
