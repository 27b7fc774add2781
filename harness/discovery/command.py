"""`python -m harness evaluate-discovery [--set NAME] [--write-document]`."""

from __future__ import annotations

import argparse
import asyncio
import random
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from harness.discovery import catalogue, sets, speed, strategies
from harness.discovery.figures import Figures, Find, by_group, measure
from harness.evidence import ROOT, machine, revision
from harness.measured import write_section
from keyload.gateway.documents import ToolDocument
from keyload.gateway.lexical import LexicalIndex

DOCUMENT = ROOT / "docs/discovery.md"
TITLE = "# Discovery\n\n"
TYPING_SEED = 3
SIZES = (70, 199, 1096, 5000)
TARGETS = {70: (1.0, 5.0, 0.1), 5000: (3.0, 15.0, 3.0)}  # milliseconds p50 and p99, seconds to build

Row = tuple[str, Figures]


def add_command(commands: Any) -> None:
    """Add `evaluate-discovery` to the subcommands of a parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "evaluate-discovery", help="how well the gateway finds tools"
    )
    parser.add_argument(
        "--set", choices=sorted(_SETS), action="append", help="only this set (may be repeated)"
    )
    parser.add_argument(
        "--write-document", action="store_true", help="write the tables into docs/discovery.md"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the tables of the sets that were asked for."""
    for name in options.set or _SETS:
        text = f"## {_SETS[name][0]}\n\n{_conditions()}\n\n{_SETS[name][1]()}"
        sys.stdout.write(text + "\n")
        if options.write_document:
            write_section(DOCUMENT, name, text, TITLE)
    return 0


def finder(documents: Sequence[ToolDocument]) -> Find:
    """Ranks by words over an index of its own."""
    index = LexicalIndex(documents)

    def find(text: str) -> tuple[list[str], bool]:
        ranked = index.rank(text)
        return [scored.tool_id for scored in ranked.scored], ranked.low

    return find


def _gateway_table() -> str:
    tools = sets.public("gateway")
    find = finder(tools.documents)
    rows = [*by_group(find, tools.queries).items(), ("all", measure(find, tools.queries))]
    return _table(rows) + _wanted(
        "high_relevance top 1 and MRR at least 0.98, top 3 1; multilingual, typo and weak_intent top 1 at "
        "least 0.95; borderline top 3 1; irrelevant low 1"
    )


def _metatool_table() -> str:
    tools = sets.public("metatool")
    tuned = {query.text for query in sets.halves(tools.queries)[0]}
    rows = list(_halved("without examples", [tools], tuned))
    rows += _halved("four examples a tool", list(sets.folds(tools)), tuned)
    rest = sets.all_as_examples(tools)
    rows.append(
        ("five examples a tool, queries for two tools", measure(finder(rest.documents), rest.queries))
    )
    return _table(rows) + _wanted("top 1 at least 0.55 without examples, 0.68 with five examples a tool")


def _bfcl_table() -> str:
    tools = sets.public("bfcl")
    tuned = {query.text for query in sets.halves(tools.queries)[0]}
    rows = list(_halved("all", [tools], tuned))
    rows += by_group(finder(tools.documents), tools.queries).items()
    return _table(rows) + _wanted("top 1 at least 0.65")


def _halved(name: str, parts: Sequence[sets.ToolSet], tuned: Collection[str]) -> Iterator[Row]:
    """Rows for a set in its two halves and whole; every part of it is searched in an index of its own."""
    queries = [query for part in parts for query in part.queries]
    found: dict[str, tuple[Sequence[str], bool]] = {}
    for part in parts:
        find = finder(part.documents)
        found |= {query.text: find(query.text) for query in part.queries}
    for half, members in (
        ("half tuned on", [query for query in queries if query.text in tuned]),
        ("other half", [query for query in queries if query.text not in tuned]),
    ):
        yield f"{name}: {half}", measure(found.__getitem__, members)
    yield name, measure(found.__getitem__, queries)


def _own_table(name: str) -> str:
    documents = catalogue.documents()
    tools = sets.own(name, documents)
    find = finder(documents)
    relevant = [query for query in tools.queries if query.expected]
    rows: list[Row] = [
        *by_group(find, tools.queries).items(),
        ("all with a right operation", measure(find, relevant)),
    ]
    chance = random.Random(TYPING_SEED)
    typed = [sets.Query(sets.misspelt(query.text, chance), query.expected, query.group) for query in relevant]
    rows.append(("the same, one random edit each", measure(find, typed)))
    names = [
        sets.Query(text, (document.name,), "names")
        for document in documents
        for text in (document.name, f"please run {document.name} and tell me what it says")
    ]
    rows.append(("names, bare and in a sentence", measure(find, names)))
    wanted = _wanted(
        "of the frozen queries top 1 at least 0.92, top 4 at least 0.98, with an edit top 1 at least 0.90; "
        "names first, unrelated ones low; a route holds the right one at least as often as the first four"
    )
    return f"{_table(rows)}{wanted}\n{_routes(relevant)}"


def _routes(queries: Sequence[sets.Query]) -> str:
    """How often two groups of two tools hold the right one, against the first four of a search."""
    gateway = catalogue.gateway()

    async def count() -> tuple[int, int]:
        routed = searched = 0
        for query in queries:
            route = await gateway.route(query.text, 2, 2)
            groups = () if route.low_confidence else route.categories
            names = {match.name for group in groups for match in group.matches}
            routed += bool(names & set(query.expected))
            found = await gateway.search(query.text, max_results=4)
            matches = () if found.low_confidence else found.matches
            searched += bool({match.name for match in matches} & set(query.expected))
        return routed, searched

    routed, searched = asyncio.run(count())
    total = len(queries)
    return (
        f"Two groups of two operations (a route) hold the right one for {routed / total:.3f} of the "
        f"queries, the first four of a search for {searched / total:.3f}; both without matches of low "
        "confidence.\n"
    )


def _strategies_table() -> str:
    """The set of overlapping tools, and the development queries over our own catalogue, by strategy."""
    parts: list[str] = []
    model = strategies.packaged_model()
    for name, tools in (
        ("Overlapping tools", sets.public("gateway")),
        ("Our own catalogue, development queries", sets.own("development", catalogue.documents())),
    ):
        parts.append(f"### {name}\n\n{_table(list(strategies.rows(tools, model)))}")
    return "\n".join(parts)


def _speed_table() -> str:
    documents = {
        70: speed.enlarged(catalogue.documents(), 70),
        199: list(sets.public("metatool").documents),
        1096: list(sets.public("bfcl").documents),
    }
    everything = [*documents[1096], *documents[199], *sets.public("gateway").documents]
    documents[5000] = speed.enlarged(everything, 5000)
    queries = {199: _texts("metatool"), 1096: _texts("bfcl"), 5000: _texts("bfcl") + _texts("metatool")}
    queries[70] = [query.text for query in sets.own("development", ()).queries]
    lines = ["| tools | search p50 | search p99 | build | wanted |", "|---|---|---|---|---|"]
    for size in SIZES:
        found = speed.measure(documents[size], queries[size])
        wanted = "below {:g} ms, {:g} ms, {:g} s".format(*TARGETS[size]) if size in TARGETS else ""
        lines.append(
            f"| {size:,} | {found.p50:.2f} ms | {found.p99:.2f} ms | {found.build:.3f} s | {wanted} |"
        )
    memory = speed.footprint()
    lines += [
        "",
        f"In a fresh process the index of our catalogue takes {memory.index:.1f} MB (wanted: below "
        f"{speed.INDEX_MEGABYTES:g} MB), the import of numpy and rapidfuzz {memory.packages:.1f} MB.",
    ]
    return "\n".join(lines) + "\n"


def _texts(name: str) -> list[str]:
    return [query.text for query in sets.public(name).queries]


def _table(rows: Sequence[Row]) -> str:
    lines = [
        "| queries | number | top 1 | top 3 | top 4 | top 5 | MRR | recall@5 | low |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, figures in rows:
        low = "" if figures.low is None else f"{figures.low:.3f}"
        values = (figures.top1, figures.top3, figures.top4, figures.top5, figures.mrr, figures.recall5)
        only_low = figures.low is not None and not any(values)
        shown = " | ".join("" if only_low else f"{value:.3f}" for value in values)
        lines.append(f"| {name} | {figures.queries} | {shown} | {low} |")
    return "\n".join(lines) + "\n"


def _wanted(text: str) -> str:
    return f"\nWanted: {text}.\n"


def _conditions() -> str:
    facts = machine()
    return (
        f"`{shlex.join(['python', '-m', 'harness', *sys.argv[1:]])}`, {datetime.now(UTC):%Y-%m-%d}, "
        f"revision {revision() or 'unknown'}; {facts['processor']}, {facts['cores']} cores, "
        f"{facts['system']}, Python {facts['python']}."
    )


_SETS: dict[str, tuple[str, Callable[[], str]]] = {
    "gateway": ("Overlapping tools (gateway)", _gateway_table),
    "metatool": ("MetaTool", _metatool_table),
    "bfcl": ("Berkeley function calls (bfcl)", _bfcl_table),
    "own": ("Our own catalogue, frozen queries", lambda: _own_table("own")),
    "development": ("Our own catalogue, development queries", lambda: _own_table("development")),
    "strategies": ("By strategy", _strategies_table),
    "speed": ("Time and memory", _speed_table),
}
