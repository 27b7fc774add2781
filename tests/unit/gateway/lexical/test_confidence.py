"""Whether the index says that nothing fits."""

from __future__ import annotations

import pytest

from harness.discovery import catalogue
from harness.discovery.sets import public
from keyload.gateway.lexical import LexicalIndex

INDEX = LexicalIndex(catalogue.documents())


@pytest.mark.covers("GTW-22")
@pytest.mark.parametrize(
    "task",
    [
        "bake a chocolate cake",
        "what is the weather in Paris",
        "please can you do this for me now",
        "how do I knit a woolen scarf",
        "tell me a joke about penguins",
        "cómo cocinar una paella",
        "做红烧肉",
    ],
)
def test_a_task_without_relation_is_low(task: str) -> None:
    ranked = INDEX.rank(task)
    assert ranked.confidence < 0.25
    assert ranked.low


@pytest.mark.covers("GTW-22")
@pytest.mark.parametrize(
    "task",
    [
        "read a document by its id",
        "take the next job from the queue",
        "who is the leader of the cluster",
        "subir un archivo",
        "列出集合",
        "creat a colection",
    ],
)
def test_a_task_that_fits_is_not(task: str) -> None:
    assert not INDEX.rank(task).low


def test_the_mark_can_be_chosen() -> None:
    strict = LexicalIndex(public("gateway").documents, low_confidence=0.99)
    lenient = LexicalIndex(public("gateway").documents, low_confidence=0.0)
    assert strict.rank("rain this weekend in paris").low
    assert not lenient.rank("rain this weekend in paris").low


def test_words_that_are_everywhere_make_no_confidence() -> None:
    assert INDEX.rank("get the zorblatt and show the frobnicator").low
