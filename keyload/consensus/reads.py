"""Barriers for linearizable reads (CLU-24).

A leader answers a read only after a majority has confirmed its term in a round of heartbeats that began
after the read arrived. All reads of one turn share a round; rounds are numbered within a term, and an answer
to a later round confirms the earlier ones. A follower numbers its turns in the same way and asks the leader
once per turn.
"""

from __future__ import annotations

from collections import deque
from random import Random


class ReadRounds:
    """The leader's side. A read is (origin node, context); the origin of its own reads is itself."""

    __slots__ = ("count", "number", "open", "waiting")

    def __init__(self) -> None:
        self.number = 0  # the newest round
        self.count = 0  # reads in waiting and open
        self.waiting: list[tuple[int, int]] = []
        self.open: deque[tuple[int, int, list[tuple[int, int]]]] = deque()  # (round, index, reads)

    def add(self, origin: int, context: int) -> None:
        """The read belongs to the next round."""
        self.waiting.append((origin, context))
        self.count += 1

    def begin(self, commit: int) -> int:
        """Starts a round for the waiting reads at the present commit index; returns its number."""
        self.number += 1
        self.open.append((self.number, commit, self.waiting))
        self.waiting = []
        return self.number

    def confirm(self, number: int) -> list[tuple[int, int, int]]:
        """A majority has confirmed round `number`: the (origin, context, index) of all reads up to it."""
        answers: list[tuple[int, int, int]] = []
        while self.open and self.open[0][0] <= number:
            _, index, reads = self.open.popleft()
            answers.extend([(origin, context, index) for origin, context in reads])
        self.count -= len(answers)
        return answers

    def lose(self, origin: int) -> list[int]:
        """Ends all rounds; returns the contexts of `origin`."""
        reads = [read for _, _, batch in self.open for read in batch] + self.waiting
        self.open.clear()
        self.waiting = []
        self.count = 0
        self.number = 0
        return [context for node, context in reads if node == origin]


class ForwardedReads:
    """A follower's side: groups of contexts that wait for the leader's answer.

    Group numbers begin at a random place, so that an answer meant for this node's former life, whose round
    may be older than the reads of this one, never fits.
    """

    __slots__ = ("count", "number", "open", "waiting")

    def __init__(self, rng: Random) -> None:
        self.number = rng.getrandbits(61)
        self.count = 0
        self.waiting: list[int] = []
        self.open: deque[tuple[int, list[int]]] = deque()  # (group, contexts)

    def add(self, context: int) -> None:
        """The read belongs to the next group."""
        self.waiting.append(context)
        self.count += 1

    def begin(self) -> int:
        """Closes the waiting group; returns its number."""
        self.number += 1
        self.open.append((self.number, self.waiting))
        self.waiting = []
        return self.number

    def answered(self, number: int) -> list[int]:
        """The contexts of group `number` and of those before it; none when it is not open."""
        if not self.open or not self.open[0][0] <= number <= self.open[-1][0]:
            return []
        contexts: list[int] = []
        while self.open and self.open[0][0] <= number:
            contexts += self.open.popleft()[1]
        self.count -= len(contexts)
        return contexts

    def lose(self) -> list[int]:
        """Gives up all groups; returns their contexts."""
        contexts = [context for _, group in self.open for context in group] + self.waiting
        self.open.clear()
        self.waiting = []
        self.count = 0
        return contexts
