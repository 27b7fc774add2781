"""The graph: what it joins, answers and exports, and the strategy that follows its links (GTW-23, GTW-24)."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from keyload.gateway import Gateway, GatewayOptions, GraphError, ToolHints, ToolNotFound, create_gateway
from keyload.gateway.links import ToolLinks
from tests.unit.gateway.support import ids


def orchard(**options: Any) -> Gateway:
    gateway, registry, _ = create_gateway(GatewayOptions(strategy="graph", **options))

    def add(name: str, text: str, schema: dict[str, Any] | None = None, **hints: Any) -> None:
        registry.add_tool(
            "orchard",
            lambda: None,
            name=name,
            description=text,
            input_schema=schema or {"type": "object"},
            hints=ToolHints(**hints),
        )

    row = {"type": "object", "properties": {"row": {"description": "Row of trees."}}, "required": ["row"]}
    add(
        "plant_tree",
        "Plants a sapling.",
        row,
        category="trees",
        next_steps=("water_row",),
        aliases=("set out",),
    )
    add("water_row", "Pours water.", row, category="water", related=("orchard:press_juice", "nobody"))
    add("press_juice", 'Presses "fruit" into [juice] | <b>.', category="kitchen", title="Press #1 juice")
    add("cut_tree", "Cuts branches.", row, category="trees", read_only=True)
    add("search", "Looks through the records.", category="office")
    return gateway


def graph_of(gateway: Gateway) -> Any:
    return asyncio.run(gateway.graph())


@pytest.mark.covers("GTW-23")
def test_nodes_and_links_come_from_the_descriptors() -> None:
    graph = graph_of(orchard())
    nodes = set(graph.graph.nodes)
    assert {
        ("tool", "orchard:plant_tree"),
        ("source", "orchard"),
        ("category", "trees"),
        ("argument", "row"),
        ("alias", "set out"),
        ("term", "juice"),
    } <= nodes
    assert (
        graph.graph.edges[("tool", "orchard:plant_tree"), ("tool", "orchard:water_row")]["relation"] == "then"
    )
    assert graph.categories["trees"] == ("orchard:plant_tree", "orchard:cut_tree")
    assert graph.next_steps("orchard:plant_tree") == ("orchard:water_row",)
    assert graph.next_steps("orchard:search") == ()


@pytest.mark.covers("GTW-23")
def test_related_tools_and_explanations_come_from_what_tools_share() -> None:
    graph = graph_of(orchard())
    near = graph.related("orchard:plant_tree")
    assert near[0].tool_id == "orchard:cut_tree"
    assert "category trees" in near[0].reasons
    assert all(0 < other.score <= 1 for other in near)
    assert graph.related("orchard:water_row")[0].tool_id == "orchard:press_juice"
    assert graph.related("orchard:water_row")[0].reasons[0] == "its owner relates them"
    assert graph.related("orchard:plant_tree", limit=0) == ()
    sentences = graph.explain("orchard:plant_tree", "which row?")
    assert sentences == ("plant_tree takes the argument row.", "plant_tree is followed by water_row.")
    assert "plant_tree stands in the category trees." in graph.explain("orchard:plant_tree")
    way = graph.connection("orchard:plant_tree", "orchard:press_juice")
    assert way == (
        "plant_tree is followed by water_row.",
        "water_row is related to Press #1 juice.",
    )
    for question in (graph.related, graph.next_steps, graph.explain):
        with pytest.raises(ToolNotFound):
            question("orchard:nobody")


@pytest.mark.covers("GTW-23")
def test_tools_without_anything_in_common_are_not_connected() -> None:
    gateway, registry, _ = create_gateway()
    registry.add_tool("one", lambda: None, name="sing", description="Sings.")
    registry.add_tool("two", lambda: None, name="dance", description="Dances.")
    assert graph_of(gateway).connection("one:sing", "two:dance") == ()


@pytest.mark.covers("GTW-23")
def test_each_tool_is_a_small_document_linked_with_others() -> None:
    documents = graph_of(orchard()).markdown()
    assert sorted(documents) == sorted(
        [
            "index.md",
            *(
                f"orchard-{name}.md"
                for name in ("plant-tree", "water-row", "press-juice", "cut-tree", "search")
            ),
        ]
    )
    for text in documents.values():
        assert set(re.findall(r"\]\((.*?)\)", text)) <= set(documents)
    plant = documents["orchard-plant-tree.md"]
    assert plant.startswith("# plant\\_tree\n")
    assert "- `row` (required): Row of trees." in plant
    assert "## Next steps\n\n- [water\\_row](orchard-water-row.md)" in plant
    assert "\\[juice\\] \\| \\<b\\>" in documents["orchard-press-juice.md"]
    assert "reads only" in documents["orchard-cut-tree.md"]
    assert documents["index.md"].count("](") == 5


@pytest.mark.covers("GTW-23")
def test_names_that_look_alike_get_documents_of_their_own() -> None:
    gateway, registry, _ = create_gateway()
    for name in ("Plant_tree", "plant.tree", "苗"):
        registry.add_tool("s", lambda: None, name=name, description="Plants.")
    assert len(graph_of(gateway).markdown()) == 4


@pytest.mark.covers("GTW-23")
def test_the_exports_are_well_formed() -> None:
    graph = graph_of(orchard())
    chart = graph.mermaid()
    assert chart.startswith("flowchart LR\n")
    assert chart.count("subgraph") == chart.count("  end\n") == 4
    assert 't2["Press #35;1 juice"]' in chart
    assert "  t0 --> t1\n" in chart
    assert "  t1 -.- t2\n" in chart
    linked = json.loads(json.dumps(graph.json_ld()))
    nodes = {node["@id"]: node for node in linked["@graph"]}
    assert len(nodes) == graph.graph.number_of_nodes() == len(linked["@graph"])
    for node in nodes.values():
        for value in node.values():
            for link in value if isinstance(value, list) else ():
                assert link["@id"] in nodes
    tool = nodes["urn:keyload:gateway:tool:orchard%3Aplant_tree"]
    assert tool["nextStep"] == [{"@id": "urn:keyload:gateway:tool:orchard%3Awater_row"}]
    assert tool["inputSchema"]["required"] == ["row"]


@pytest.mark.covers("GTW-24", "GTW-16", "GTW-17")
def test_the_graph_strategy_puts_names_first_and_follows_links() -> None:
    async def main() -> None:
        gateway = orchard()
        for text in ("plant_tree", "PLANT_TREE", "orchard:plant_tree", "set out", "how do I plant_tree now"):
            found = await gateway.search(text)
            assert ids(found)[0] == "orchard:plant_tree"
            assert found.ranking_mode == "graph"
            assert not found.low_confidence
        assert "orchard:water_row" in ids(await gateway.search("sapling"))
        linked = await gateway.search("pour water")
        assert ids(linked)[0] == "orchard:water_row"
        scores = {match.tool_id: match.score for match in linked.matches}
        assert 0 < scores["orchard:press_juice"] <= scores["orchard:water_row"] / 2 + 1e-9
        assert linked == await gateway.search("pour water")

    asyncio.run(main())


@pytest.mark.covers("GTW-18")
def test_a_failure_of_the_graph_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, text: str) -> Any:
        raise ZeroDivisionError

    async def main() -> None:
        gateway = orchard()
        await gateway.initialize()
        monkeypatch.setattr(ToolLinks, "named", broken)
        with pytest.raises(GraphError, match="ZeroDivisionError"):
            await gateway.search("pour water")
        with pytest.raises(GraphError):
            await gateway.route("pour water")

    asyncio.run(main())
