"""The search text, its normalisation, browsing, and routes over any catalogue (GTW-14..16, 25, 31, 32)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyload.gateway import Gateway, GatewayOptions, SearchTextTooLong, ToolHints, create_gateway
from keyload.gateway.diagnostics import CODES
from keyload.gateway.search_text import joined
from tests.unit.gateway.support import ids

NAMES = (
    "plant_tree",
    "cut_tree",
    "count_trees",
    "pour_water",
    "measure_water",
    "pay_bill",
    "count_money",
    "sing",
)


def garden(**options: Any) -> Gateway:
    gateway, registry, _ = create_gateway(GatewayOptions(strategy="tokenizer", **options))
    for number, name in enumerate(NAMES):
        hints = ToolHints(
            category=("trees", "water", "money")[number // 3], read_only=name.startswith(("count", "measure"))
        )
        text = name.replace("_", " ").capitalize() + "."
        registry.add_tool("garden", lambda: None, name=name, description=text, hints=hints)
    return gateway


def seen(result: Any) -> list[str]:
    return [diagnostic.code for diagnostic in result.diagnostics]


@pytest.mark.covers("GTW-14")
def test_query_summary_and_the_values_of_the_context_are_one_text() -> None:
    context = {"field": "north", "deep": {"list": ["a", 3, {"x": 0.5}]}, "flag": True, "none": None}
    assert joined(" what ", "", context, 100) == "what\nnorth\na\n3\n0.5"
    assert joined("", " ", {}, 100) == ""
    assert joined("abc", "de", {"x": "f"}, 8) == "abc\nde\nf"
    with pytest.raises(SearchTextTooLong):
        joined("abc", "de", {"x": "fg"}, 8)
    with pytest.raises(SearchTextTooLong):
        joined("", "", {"x": ["y"] * 100_000}, 100)


@pytest.mark.covers("GTW-14", "GTW-15")
def test_any_part_of_the_question_may_stand_alone() -> None:
    async def main() -> None:
        gateway = garden()
        for question in (
            {"query": "pour water"},
            {"context_summary": "pour water"},
            {"context": {"wish": ["pour", "water"]}},
        ):
            found = await gateway.search(**question)
            assert ids(found)[0] == "garden:pour_water"
            assert found.ranking_mode == "lexical"
        match = found.matches[0]
        assert (match.name, match.source_id, match.description) == ("pour_water", "garden", "Pour water.")
        assert match.required == ()
        assert match.input_schema["type"] == "object"
        assert 0 < match.score <= 1

    asyncio.run(main())


@pytest.mark.covers("GTW-14", "GTW-16")
def test_without_a_text_tools_come_in_registration_order() -> None:
    async def main() -> None:
        gateway = garden()
        found = await gateway.search(" ")
        assert found.ranking_mode == "browse"
        assert [match.name for match in found.matches] == list(NAMES[:5])
        assert len((await gateway.search(max_results=99)).matches) == len(NAMES)
        assert (await gateway.search("tree", max_results=0)).matches == ()
        wide, registry, _ = create_gateway()
        assert (await wide.search("tree")).ranking_mode == "empty"
        assert (await wide.route("tree")).categories == ()
        for number in range(20):
            registry.add_tool("many", lambda: None, name=f"tree_{number}", description="A tree.")
        assert len((await wide.search("tree", max_results=99)).matches) == 15

    asyncio.run(main())


@pytest.mark.covers("GTW-31", "GTW-32")
@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_hook_rewrites_the_text_before_ranking(asynchronous: bool) -> None:
    asked: list[str] = []

    def plain(text: str) -> str:
        asked.append(text)
        return {"verser de l'eau": "pour water"}.get(text, text)

    async def later(text: str) -> str:
        return plain(text)

    async def main() -> None:
        hook = later if asynchronous else plain
        gateway = garden(normalize=hook)
        found = await gateway.search("verser de l'eau")
        assert ids(found)[0] == "garden:pour_water"
        assert seen(found) == ["query_normalized"]
        routed = await gateway.route("verser de l'eau")
        assert seen(routed) == ["query_normalized"]
        assert seen(await gateway.search("sing")) == []
        await gateway.search("")
        assert asked == ["verser de l'eau", "verser de l'eau", "sing"]
        off = garden(normalize=hook, query_normalization="disabled")
        assert seen(await off.search("verser de l'eau")) == []
        assert len(asked) == 3

    asyncio.run(main())


def _raises(text: str) -> str:
    raise RuntimeError("secret")


@pytest.mark.covers("GTW-32", "GTW-38")
@pytest.mark.parametrize("hook", [_raises, lambda text: " ", lambda text: None, lambda text: "x" * 8193])
def test_an_answer_that_cannot_be_used_leaves_the_text_as_it_came(hook: Callable[[str], Any]) -> None:
    async def main() -> None:
        found = await garden(normalize=hook).search("pour water")
        assert ids(found)[0] == "garden:pour_water"
        assert seen(found) == ["query_normalization_failed"]
        assert "secret" not in str(found.diagnostics)

    asyncio.run(main())


@pytest.mark.covers("GTW-25", "MCP-15", "MCP-20")
@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.sampled_from(("tree", "water", "count", "pay", "sing", "money", "measure")), max_size=4),
    st.integers(1, 4),
    st.integers(1, 4),
    st.booleans(),
)
def test_a_route_holds_the_best_tools_each_once(
    words: list[str], categories: int, tools: int, read_only: bool
) -> None:
    text = " ".join(words)
    routed = asyncio.run(GARDEN.route(text, categories, tools, read_only))
    best = asyncio.run(GARDEN.search(text, max_results=min(15, categories * tools)))
    placed = [match.tool_id for group in routed.categories for match in group.matches]
    assert sorted(placed) == sorted(ids(best))
    assert len(routed.categories) <= categories
    assert all(1 <= len(group.matches) <= tools for group in routed.categories)
    assert routed.low_confidence == best.low_confidence
    if best.matches and routed.ranking_mode != "browse":
        assert best.matches[0] in routed.categories[0].matches
        assert routed.categories[0].score == best.matches[0].score
    for group in routed.categories:
        flags = [match.tool.hints.read_only for match in group.matches]
        assert not read_only or flags == sorted(flags, reverse=True)


GARDEN = garden()


@pytest.mark.covers("GTW-25")
def test_groups_take_their_own_tools_first_and_then_the_best_without_a_place() -> None:
    from keyload.gateway.results import Match
    from keyload.gateway.routing import grouped

    async def main() -> None:
        tools = {tool.name: tool for tool in await GARDEN.list_tools()}
        best = [
            Match(tools[name], score) for name, score in zip(NAMES[:4], (0.9, 0.8, 0.7, 0.6), strict=True)
        ]
        groups = grouped(best, 2, 2, False)
        assert [(group.name, group.score) for group in groups] == [("trees", 0.9), ("water", 0.7)]
        assert [[match.name for match in group.matches] for group in groups] == [
            ["plant_tree", "cut_tree"],
            ["pour_water", "count_trees"],
        ]
        (first, further) = grouped(best[:3], 2, 2, True)
        assert [match.name for match in first.matches] == ["plant_tree", "cut_tree"]
        assert (further.name, [match.name for match in further.matches]) == ("trees", ["count_trees"])

    asyncio.run(main())


@pytest.mark.covers("GTW-38")
def test_the_codes_of_diagnostics_are_those_of_the_specification() -> None:
    text = (Path(__file__).parents[3] / "docs/spec/gateway.md").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if "**GTW-38**" in line]
    assert set(re.findall(r"`(\w+)`", line)) == set(CODES)
