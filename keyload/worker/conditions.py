"""Which nodes are fit to lead: those with room on their disk and a clock like that of the others (STO-12,
SCH-2).

The workers of one number tell each other once a second how they are. What they say decides nothing but who
leads: a wrong or lost word costs a transfer, never data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median_low
from typing import NamedTuple

from keyload.link.messages import Condition

TELL_SECONDS = 1.0
FRESH_SECONDS = 5.0
"""What a node said longer ago counts no more."""

CLOCK_TICKS = 2 * 10_000_000
"""How far a clock may lie off the middle one, in units of 100 ns."""


class _Heard(NamedTuple):
    """When a peer spoke last, how far its clock was ahead of this node's, and whether it has room."""

    at: float
    ahead: int
    room: bool


class Conditions:
    """How this node and its peers are. `peers` are the numbers of the others."""

    def __init__(self, peers: Sequence[int], send: Callable[[int, Condition], None]) -> None:
        self._peers = tuple(peers)
        self._send = send
        self._heard: dict[int, _Heard] = {}
        self._next_word = 0.0
        self._room = True
        self._now = 0.0

    def heard(self, peer: int, condition: Condition, now: float, ticks: int) -> None:
        """A peer said how it is; `ticks` is this node's clock."""
        if peer in self._peers:
            self._heard[peer] = _Heard(now, condition.ticks - ticks, condition.room)

    def tick(self, now: float, ticks: int, room: bool) -> None:
        """Tell the others when it is time; `room` says whether this node takes new writes."""
        self._now, self._room = now, room
        if now >= self._next_word:
            self._next_word = now + TELL_SECONDS
            for peer in self._peers:
                self._send(peer, Condition(ticks, room))

    @property
    def fit(self) -> bool:
        """Whether this node itself is fit."""
        return self._room and self._clock_fits(0)

    def peer_fit(self, peer: int) -> bool:
        """Whether a peer has lately said that it is fit."""
        heard = self._fresh().get(peer)
        return heard is not None and heard.room and self._clock_fits(heard.ahead)

    def _clock_fits(self, ahead: int) -> bool:
        """Whether a clock is near the middle one of all that are known; with two nobody knows which is
        wrong."""
        clocks = [0, *(heard.ahead for heard in self._fresh().values())]
        return len(clocks) < 3 or abs(ahead - median_low(clocks)) <= CLOCK_TICKS

    def _fresh(self) -> dict[int, _Heard]:
        return {peer: heard for peer, heard in self._heard.items() if self._now - heard.at <= FRESH_SECONDS}
