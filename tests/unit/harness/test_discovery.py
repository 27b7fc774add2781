"""The evaluation of discovery: its sets, its figures, and that the public thresholds are met (GTW-41..43)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from rapidfuzz.distance import OSA

from harness.__main__ import run
from harness.discovery import catalogue, command, sets, speed, strategies
from harness.discovery.figures import Figures, by_group, measure
from harness.discovery.sets import Query
from harness.measured import write_section
from keyload.contract.names import OPERATION_NAMES
from keyload.contract.operations import OPERATIONS
from keyload.front.mcp import catalog


@pytest.mark.covers("GTW-41")
def test_the_sets_are_complete() -> None:
    sizes = {name: sets.public(name) for name in sets.PUBLIC}
    assert {name: (len(found.documents), len(found.queries)) for name, found in sizes.items()} == {
        "gateway": (50, 61),
        "metatool": (199, 1195),
        "bfcl": (1096, 800),
    }
    groups = {query.group for query in sizes["gateway"].queries}
    assert groups == {"high_relevance", "borderline", "multilingual", "typo", "weak_intent", "irrelevant"}
    for found in sizes.values():
        known = {document.id for document in found.documents}
        assert all(set(query.expected) <= known for query in found.queries)


@pytest.mark.covers("GTW-42", "GTW-43")
def test_the_public_set_of_overlapping_tools_meets_its_thresholds() -> None:
    tools = sets.public("gateway")
    figures = by_group(command.finder(tools.documents), tools.queries)
    high = figures["high_relevance"]
    assert (high.top1 >= 0.98, high.top3, high.mrr >= 0.98) == (True, 1.0, True)
    assert min(figures[group].top1 for group in ("typo", "weak_intent", "multilingual")) >= 0.95
    assert figures["borderline"].top3 == 1.0
    assert figures["irrelevant"].low == 1.0


def test_halves_and_folds_hold_every_query_once_and_none_is_its_own_example() -> None:
    tools = sets.public("metatool")
    tuned, other = sets.halves(tools.queries)
    assert len(tuned) + len(other) == len(tools.queries)
    folds = list(sets.folds(tools))
    held = [query.text for fold in folds for query in fold.queries]
    assert sorted(held) == sorted(query.text for query in tools.queries if len(query.expected) == 1)
    for fold in folds:
        examples = {document.id: document.examples for document in fold.documents}
        assert all(len(given) == 4 for given in examples.values())
        assert not any(query.text in examples[query.expected[0]] for query in fold.queries)


def test_a_misspelt_query_is_one_edit_away() -> None:
    chance = random.Random(1)
    edits = [
        OSA.distance("cancel the upload", sets.misspelt("cancel the upload", chance)) for _ in range(200)
    ]
    assert max(edits) == 1
    assert edits.count(1) > 180
    assert sets.misspelt("取消", chance) == "取消"


@pytest.mark.covers("GTW-42")
def test_figures_count_places() -> None:
    answers = {"one": ["a", "b"], "two": ["b", "a"], "three": ["b", "c", "d", "e", "a"], "four": ["b"]}
    queries = [Query(text, ("a",), "g") for text in answers]
    found = measure(lambda text: (answers[text], False), queries)
    assert found == Figures(
        queries=4, top1=0.25, top3=0.5, top4=0.5, top5=0.75, mrr=(1 + 0.5 + 0.2) / 4, recall5=0.75
    )
    lows = measure(lambda text: ([], text == "x"), [Query("x", (), "g"), Query("y", (), "g")])
    assert (lows.queries, lows.low) == (2, 1.0)


def test_the_catalogue_is_that_of_the_front_for_what_it_implements() -> None:
    whole = {document.id: document for document in catalogue.documents()}
    assert tuple(whole) == OPERATION_NAMES
    for operation in OPERATIONS.values():
        same, told = whole[operation.name], catalog.hints(operation)
        assert (same.title, same.description, same.category) == (
            told.title,
            operation.description,
            told.category,
        )
        assert set(told.aliases) <= set(same.aliases)
        assert set(told.examples) <= set(same.examples)


@pytest.mark.covers("GTW-24")
def test_all_names_come_first_and_development_queries_know_their_operations() -> None:
    documents = catalogue.documents()
    find = command.finder(documents)
    assert all(find(document.name)[0][0] == document.name for document in documents)
    development = sets.own("development", documents)
    assert {name for query in development.queries for name in query.expected} == set(OPERATION_NAMES)


class Letters:
    """An embedding generator that counts letters."""

    fingerprint = "letters/1"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0 + text.lower().count(chr(97 + letter)) for letter in range(26)] for text in texts]


@pytest.mark.covers("GTW-43")
def test_strategies_are_reported_apart() -> None:
    whole = sets.public("gateway")
    irrelevant = tuple(query for query in whole.queries if not query.expected)
    tools = sets.ToolSet(whole.documents, (*irrelevant, *whole.queries[:5]))
    found = dict(strategies.rows(tools, Letters()))
    assert list(found) == ["words", "graph", "words, query rewritten", "vectors of letters/1"]
    assert {figures.queries for figures in found.values()} == {5}
    assert found["words"].low == found["graph"].low == 1.0
    assert found["words"].top1 == found["graph"].top1 == 1.0
    assert found["vectors of letters/1"].top1 < 1.0
    assert len(dict(strategies.rows(tools, None))) == 3


def test_a_foreign_query_is_rewritten_word_by_word() -> None:
    assert strategies.rewritten("quiero eliminar el archivo") == "quiero delete el file"
    assert strategies.rewritten("删除文件") == "delete file"
    assert strategies.rewritten("delete the file") == "delete the file"


def test_a_set_is_enlarged_with_other_names() -> None:
    tools = sets.public("gateway").documents
    many = speed.enlarged(tools, 120)
    assert len({document.id for document in many}) == len(many) == 120
    assert speed.measure(tools[:5], ["rain"]).tools == 5


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate-discovery", "--set", "gateway"]) == 0
    text = capsys.readouterr().out
    assert "| irrelevant | 8 |" in text
    assert "| all | 53 |" in text


def test_tables_are_written_between_their_marks(tmp_path: Path) -> None:
    document = tmp_path / "discovery.md"
    for text in ("first\n", "second\n"):
        write_section(document, "gateway", text, command.TITLE)
    assert document.read_text() == (
        "# Discovery\n\n<!-- measured: gateway -->\nsecond\n<!-- end: gateway -->\n"
    )
