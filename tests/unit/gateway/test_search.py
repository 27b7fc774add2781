"""Searching and routing the whole contract catalog."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyload.gateway import Gateway, SearchTextTooLong
from keyload.gateway.documents import ToolDocument
from keyload.gateway.lexical import LexicalIndex
from tests.unit.gateway.catalog import COMMIT, MUTATION_ALIASES, OPERATIONS, contract_gateway

ALIASES = [(operation["name"], alias) for operation in OPERATIONS for alias in operation["aliases"]]


GATEWAY = contract_gateway()


@pytest.fixture
def gateway() -> Gateway:
    return GATEWAY


def found(gateway: Gateway, query: str, limit: int = 4) -> list[str]:
    result = asyncio.run(gateway.search(query, max_results=limit))
    return [match.name for match in result.matches]


def nothing(gateway: Gateway, query: str) -> bool:
    """Whether search and route say that nothing fits."""
    searched, routed = asyncio.run(gateway.search(query)), asyncio.run(gateway.route(query, 2, 2))
    return searched.low_confidence and routed.low_confidence and searched.confidence < 0.25


@pytest.mark.covers("MCP-36", "GTW-24")
@pytest.mark.parametrize("name", [operation["name"] for operation in OPERATIONS])
def test_an_exact_name_comes_first_bare_and_inside_a_sentence(gateway: Gateway, name: str) -> None:
    for query in (name, name.upper(), f"please call {name}, then read a document", f"How do I use `{name}`?"):
        assert found(gateway, query)[0] == name


@pytest.mark.covers("MCP-36", "GTW-24")
@pytest.mark.parametrize(("name", "alias"), ALIASES, ids=[alias for _, alias in ALIASES])
def test_every_alias_finds_its_operation_first(gateway: Gateway, name: str, alias: str) -> None:
    assert found(gateway, alias)[0] == name
    assert found(gateway, f"  {alias.upper()}! ")[0] == name
    assert name in found(gateway, f"I would like to {alias} right away")


@pytest.mark.covers("MCP-36")
@pytest.mark.parametrize("alias", MUTATION_ALIASES)
def test_every_alias_of_a_mutation_finds_the_commit(gateway: Gateway, alias: str) -> None:
    assert found(gateway, alias)[0] == COMMIT


@pytest.mark.covers("MCP-36")
@pytest.mark.parametrize(
    ("task", "operation"),
    [
        ("store a JSON document about a customer", "keyload_documents_commit"),
        ("read one document", "keyload_documents_get"),
        ("follow relations in the graph from a person", "keyload_graph_traverse"),
        ("upload a large file", "keyload_blobs_begin_upload"),
        ("download the attachment", "keyload_blobs_read_range"),
        ("take a job from the queue and work on it", "keyload_messages_receive"),
        ("average temperature per hour", "keyload_series_windows"),
        ("find all orders with a total above 100 using SQL", "keyload_query_execute"),
        ("give an agent access to a collection", "keyload_principals_configure"),
        ("find similar documents by embedding", "keyload_search_execute"),
        ("is the cluster healthy", "keyload_admin_status"),
    ],
)
def test_plain_tasks_find_the_right_operation(gateway: Gateway, task: str, operation: str) -> None:
    assert found(gateway, task)[0] == operation


@pytest.mark.covers("CON-44", "MCP-15", "GTW-22")
@pytest.mark.parametrize(
    "task", ["bake a chocolate cake", "xyzzy plugh", "what is the weather in Paris", "???"]
)
def test_a_task_that_fits_nothing_gets_nothing(gateway: Gateway, task: str) -> None:
    assert nothing(gateway, task)


@pytest.mark.covers("MCP-23", "MCP-36", "GTW-15", "GTW-24")
@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from([a for _, a in ALIASES])).map(" ".join)))
def test_scores_are_finite_ordered_and_repeatable(query: str) -> None:
    result = asyncio.run(GATEWAY.search(query, max_results=15))
    assert result == asyncio.run(GATEWAY.search(query, max_results=15))
    matches = list(result.matches)
    assert result.ranking_mode == ("graph" if query.strip() else "browse")
    assert 0 <= result.confidence <= 1
    assert len({match.tool.id for match in matches}) == len(matches)
    assert all(math.isfinite(match.score) and 0 <= match.score <= 1 for match in matches)
    if query.strip():
        assert matches == sorted(matches, key=lambda match: (-match.score, match.tool.id))


@pytest.mark.covers("MCP-15", "GTW-25")
def test_a_route_groups_different_tools_by_category(gateway: Gateway) -> None:
    query = "average of the samples of a series per hour"
    routed = asyncio.run(gateway.route(query, 2, 2)).categories
    assert routed[0].name == "series"
    tools = [match.tool.id for category in routed for match in category.matches]
    assert len(tools) == len(set(tools)) <= 4
    best = asyncio.run(gateway.search(query, max_results=4)).matches
    assert {match.tool_id for match in best} == set(tools)
    assert routed[0].matches[0].tool.hints.category == "series"
    assert all(0 < category.score <= 1 for category in routed)
    (one,) = asyncio.run(gateway.route("average of the samples of a series", 1, 1)).categories
    assert len(one.matches) == 1


@pytest.mark.covers("MCP-20")
def test_read_only_tools_stand_first_and_nothing_is_hidden(gateway: Gateway) -> None:
    query = "acknowledge a message of the queue or peek at a message"

    def queues(prefer: bool) -> list[Any]:
        routed = asyncio.run(gateway.route(query, 4, 15, prefer)).categories
        (category,) = [category for category in routed if category.name == "queues"]
        return [match.tool for match in category.matches if match.tool.hints.category == "queues"]

    plain, preferred = queues(False), queues(True)
    assert {tool.id for tool in plain} == {tool.id for tool in preferred}
    flags = [tool.hints.read_only for tool in preferred]
    assert flags == sorted(flags, reverse=True)
    assert len(set(flags)) == 2


@pytest.mark.covers("GTW-39")
def test_a_text_above_the_bound_is_refused(gateway: Gateway) -> None:
    with pytest.raises(SearchTextTooLong):
        asyncio.run(gateway.search("x" * 8193))
    assert nothing(gateway, "x" * 8192)


@pytest.mark.covers("GTW-2")
def test_a_hostile_query_costs_little() -> None:
    for query in ("a b " * 2048, "keyload_" * 1000, "x" * 8192, "read " * 1600, "\u0130" * 8000):
        started = time.process_time()
        asyncio.run(GATEWAY.search(query))
        assert time.process_time() - started < 1.0


@pytest.mark.covers("GTW-2", "GTW-20")
@pytest.mark.parametrize("part", ["-", "x", "_", "a-", "a.", "a@", "+", "aA", "a_", "0", "x'"])
def test_a_long_run_is_read_once_and_not_from_each_of_its_characters(part: str) -> None:
    # with work that grows with the square of the length this one would take minutes
    assert LexicalIndex([DOCUMENT]).rank(part * 400_000).low


DOCUMENT = ToolDocument(id="post:send", name="send", title="Send", description="Sends a file to an address.")
