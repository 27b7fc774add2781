"""Majorities."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Tally(Enum):
    """The state of a vote."""

    OPEN = 0
    WON = 1
    LOST = 2


def majority(voters: int) -> int:
    """How many of `voters` make a majority."""
    return voters // 2 + 1


def reached_by_majority(values: list[int]) -> int:
    """The largest number that a majority of `values` (one per voter) has reached. Sorts `values` in place."""
    values.sort()
    return values[(len(values) - 1) >> 1]


def tally(votes: Mapping[int, bool], voters: int) -> Tally:
    """Whether the answers so far decide an election among `voters` nodes."""
    granted = sum(votes.values())
    needed = majority(voters)
    if granted >= needed:
        return Tally.WON
    if len(votes) - granted > voters - needed:
        return Tally.LOST
    return Tally.OPEN
