"""How often the right tool stands first, among the first few, and how unrelated queries are answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from harness.discovery.sets import Query

DEPTH = 15

Find = Callable[[str], tuple[Sequence[str], bool]]
"""Names of tools for a text, best first, and whether they are marked as of low confidence."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of the queries with a right tool; `low` is the share of the irrelevant ones that are low."""

    queries: int
    top1: float = 0.0
    top3: float = 0.0
    top4: float = 0.0
    top5: float = 0.0
    mrr: float = 0.0
    recall5: float = 0.0
    low: float | None = None


def measure(find: Find, queries: Iterable[Query]) -> Figures:
    """The figures of some queries, all relevant or all irrelevant."""
    relevant: list[tuple[Query, Sequence[str]]] = []
    lows: list[bool] = []
    for query in queries:
        names, low = find(query.text)
        if query.expected:
            relevant.append((query, names))
        else:
            lows.append(low or not names)
    if not relevant:
        return Figures(queries=len(lows), low=_share(lows))
    places = [place(query, names) for query, names in relevant]
    return Figures(
        queries=len(relevant),
        top1=_share(at < 1 for at in places),
        top3=_share(at < 3 for at in places),
        top4=_share(at < 4 for at in places),
        top5=_share(at < 5 for at in places),
        mrr=_share(1 / (at + 1) if at < DEPTH else 0.0 for at in places),
        recall5=_share(
            len(set(query.expected) & set(names[:5])) / len(query.expected) for query, names in relevant
        ),
        low=_share(lows) if lows else None,
    )


def place(query: Query, names: Sequence[str]) -> int:
    """Where the first right tool stands, from 0; `DEPTH` when it was not found."""
    return next((at for at, name in enumerate(names[:DEPTH]) if name in query.expected), DEPTH)


def by_group(find: Find, queries: Iterable[Query]) -> dict[str, Figures]:
    """The figures of each group, in the order of their first query."""
    groups: dict[str, list[Query]] = {}
    for query in queries:
        groups.setdefault(query.group, []).append(query)
    return {group: measure(find, members) for group, members in groups.items()}


def _share(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 0.0
