"""Virtual time: what happens when, and a digest of all that happened."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush


class Agenda:
    """Events in the order of their time, in virtual milliseconds; those of one instant as they were planned.

    `digest` stands for the whole course of events: two runs of one seed end with the same number.
    """

    __slots__ = ("_events", "_order", "count", "digest", "now")

    def __init__(self) -> None:
        self.now = 0
        self.count = 0
        """Events that have happened."""
        self.digest = 0
        self._events: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._order = 0

    def plan(self, delay: int, action: Callable[..., None], *arguments: object) -> None:
        """Call `action` after `delay` milliseconds."""
        self._order += 1
        heappush(self._events, (self.now + delay, self._order, action, arguments))

    def step(self) -> None:
        """The next event."""
        self.now, order, action, arguments = heappop(self._events)
        self.count += 1
        self.digest = hash((self.digest, self.now, order))
        action(*arguments)

    def note(self, *facts: int) -> None:
        """Let `facts` have a part in the digest; integers only, whose hash is the same in every process."""
        self.digest = hash((self.digest, facts))
