"""Grouping the best tools by category (GTW-25)."""

from __future__ import annotations

from collections.abc import Sequence

from keyload.gateway.results import Category, Match


def grouped(
    best: Sequence[Match], max_categories: int, max_tools: int, prefer_read_only: bool
) -> tuple[Category, ...]:
    """Groups of at most `max_tools` that together hold all of `best`, the best tools overall.

    `best` has at most `max_categories * max_tools` entries, best first. The categories of the best tools
    give the groups; a group takes the best tools of its category. Tools without a place then fill the
    slots left over, first in a further group of their own category, then wherever there is room. With
    `prefer_read_only` reading tools stand before others inside a group.
    """
    groups: list[tuple[str, list[Match]]] = []
    placeless: list[Match] = []
    for match in best:
        category = match.tool.category
        group = next((members for name, members in groups if name == category), None)
        if group is None and len(groups) < max_categories:
            groups.append((category, [match]))
        elif group is not None and len(group) < max_tools:
            group.append(match)
        else:
            placeless.append(match)
    for match in placeless:
        category = match.tool.category
        free = [(name, members) for name, members in groups if len(members) < max_tools]
        own = next((members for name, members in free if name == category), None)
        if own is None and len(groups) < max_categories:
            groups.append((category, [match]))
        else:
            (own if own is not None else free[0][1]).append(match)
    return tuple(_category(name, members, prefer_read_only) for name, members in groups)


def _category(name: str, matches: list[Match], prefer_read_only: bool) -> Category:
    if prefer_read_only:
        matches = sorted(matches, key=lambda match: not match.tool.hints.read_only)
    return Category(name, max(match.score for match in matches), tuple(matches))
