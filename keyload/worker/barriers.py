"""Reads that wait for a barrier of their shard (CLU-24, CLU-25).

A barrier is one read index of consensus; all reads that wait when it begins share it. It is asked of the
leader again when consensus loses it or when its answer stays out, and a read whose deadline passes is handed
back as late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from keyload.worker.calls import ReadCall

MAX_OUTSTANDING = 1
"""Barriers of one shard that may be asked for at once; further reads form the next one, so that under load
one barrier serves many.
"""

AskIndex = Callable[[int], bool]


class BarrierQueue:
    """The reads of one shard, from arrival to the moment the replica may answer them."""

    def __init__(self, repeat_after: float) -> None:
        self._repeat_after = repeat_after
        self._arrived: list[ReadCall] = []
        self._asked: dict[int, tuple[float, list[ReadCall]]] = {}
        self._confirmed: deque[tuple[int, list[ReadCall]]] = deque()
        self._next_context = 1

    def add(self, read: ReadCall) -> None:
        """A read has arrived; only a barrier begun from now on serves it."""
        self._arrived.append(read)

    def ask(self, read_index: AskIndex, now: float) -> None:
        """Begin a barrier for everything that waits, if one may begin and a leader is known."""
        if not self._arrived or len(self._asked) >= MAX_OUTSTANDING:
            return
        context = self._next_context
        if read_index(context):
            self._next_context += 1
            self._asked[context] = (now, self._arrived)
            self._arrived = []

    def confirm(self, context: int, index: int) -> None:
        """Consensus answered a barrier: its reads may be served at `index` or later."""
        asked = self._asked.pop(context, None)
        if asked is not None:
            self._confirmed.append((index, asked[1]))

    def lose(self, context: int) -> None:
        """Consensus lost a barrier: its reads wait for the next one."""
        asked = self._asked.pop(context, None)
        if asked is not None:
            self._arrived[:0] = asked[1]

    def take(self, applied: int) -> list[ReadCall]:
        """The reads whose barrier is confirmed and reached by the replica."""
        ready: list[ReadCall] = []
        while self._confirmed and self._confirmed[0][0] <= applied:
            ready.extend(self._confirmed.popleft()[1])
        return ready

    def sweep(self, now: float) -> list[ReadCall]:
        """Ask overdue barriers anew and return the reads that are too late."""
        for context, (asked_at, _) in list(self._asked.items()):
            if now - asked_at > self._repeat_after:
                self.lose(context)
        late: list[ReadCall] = []
        self._arrived = _keep(self._arrived, now, late)
        self._confirmed = deque(
            (index, kept) for index, reads in self._confirmed if (kept := _keep(reads, now, late))
        )
        return late

    def drain(self) -> list[ReadCall]:
        """Everything that waits, at the end of the worker."""
        reads = self._arrived + [read for _, group in self._asked.values() for read in group]
        reads += [read for _, group in self._confirmed for read in group]
        self._arrived, self._asked, self._confirmed = [], {}, deque()
        return reads

    def __len__(self) -> int:
        asked = sum(len(reads) for _, reads in self._asked.values())
        return len(self._arrived) + asked + sum(len(reads) for _, reads in self._confirmed)


def _keep(reads: list[ReadCall], now: float, late: list[ReadCall]) -> list[ReadCall]:
    """The reads still in time; the others are added to `late`."""
    kept: list[ReadCall] = []
    for read in reads:
        (kept if read.deadline > now else late).append(read)
    return kept
