"""A network that loses, delays, doubles, reorders and separates."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol


class Weather(Protocol):
    """The options of a run that are about links; both simulators have them."""

    @property
    def delay_ms_max(self) -> int: ...
    @property
    def slow_delay(self) -> float: ...
    @property
    def loss(self) -> float: ...
    @property
    def duplication(self) -> float: ...
    @property
    def ordered(self) -> bool: ...


class Network:
    """Decides when, and how often, a message arrives."""

    def __init__(self, options: Weather, rng: Random) -> None:
        self._options = options
        self._rng = rng
        self._quiet = False
        self._last: dict[tuple[int, int], int] = {}  # newest arrival per link, when links keep order
        self.severed: set[tuple[int, int]] = set()  # (from, to)

    def arrivals(self, now: int, sender: int, to: int) -> list[int]:
        """The times at which copies of a message arrive; none when it is lost."""
        options, rng = self._options, self._rng
        link = (sender, to)
        if link in self.severed:
            return []
        if self._quiet:
            return [self._in_order(link, now + rng.randint(1, 3))]
        if rng.random() < options.loss:
            return []
        copies = 2 if rng.random() < options.duplication else 1
        return [self._in_order(link, now + self._delay()) for _ in range(copies)]

    def _delay(self) -> int:
        delay = self._rng.randint(1, self._options.delay_ms_max)
        return delay * 10 if self._rng.random() < self._options.slow_delay else delay

    def _in_order(self, link: tuple[int, int], arrival: int) -> int:
        if self._options.ordered:
            arrival = self._last[link] = max(arrival, self._last.get(link, 0))
        return arrival

    def split(self, nodes: Sequence[int]) -> None:
        """Two sides that do not hear each other."""
        side = {node for node in nodes if self._rng.random() < 0.5}
        self.severed |= {(a, b) for a in nodes for b in nodes if (a in side) != (b in side)}

    def one_way(self, nodes: Sequence[int]) -> None:
        """One node is not heard by some of the others, or does not hear them."""
        node = self._rng.choice(nodes)
        outward = self._rng.random() < 0.5
        for other in nodes:
            if other != node and self._rng.random() < 0.7:
                self.severed.add((node, other) if outward else (other, node))

    def cut(self, nodes: Sequence[int], node: int) -> None:
        """One node is alone."""
        for other in nodes:
            self.severed |= {(node, other), (other, node)}

    def heal(self) -> None:
        self.severed.clear()

    def calm_down(self) -> None:
        """No more faults from now on."""
        self.heal()
        self._quiet = True
