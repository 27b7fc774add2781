"""What registers above consensus promise: equal states, acknowledged proposals, fresh reads."""

from __future__ import annotations

from collections.abc import Sequence

from harness.simulator.checker import Checker, Violation
from keyload.consensus import Entry, Membership


class RegisterChecker(Checker):
    """The promises of consensus, and what clients were told."""

    def __init__(self, membership: Membership) -> None:
        super().__init__(membership)
        self.acknowledged: dict[bytes, int] = {}
        self._digests: list[int] = [0]  # of the state after each applied index

    def applied(self, node: int, index: int, digest: int) -> None:
        """State machine safety: equal prefixes give equal states."""
        if index == len(self._digests):
            self._digests.append(digest)
        elif index > len(self._digests) or self._digests[index] != digest:
            raise Violation(f"node {node} reached another state at {index}")

    def acknowledge(self, data: bytes, index: int) -> None:
        """A client is told that its proposal stands at `index`."""
        if self.places.get(data) != index:
            place = self.places.get(data)
            raise Violation(f"{data!r} is acknowledged at {index}, committed at {place}")
        self.acknowledged[data] = index
        self.floor = max(self.floor, index)

    def read(self, node: int, index: int, floor: int, shown: int) -> None:
        """A read that began when clients knew `floor` was given `index` and shows the state `shown`."""
        if index < floor:
            raise Violation(f"stale read on node {node}: {index}, clients knew {floor}")
        if shown > len(self.committed):
            raise Violation(f"node {node} shows {shown}, committed are {len(self.committed)}")
        self.floor = max(self.floor, shown)

    def finish(self, node: int, history: Sequence[Entry]) -> None:
        """At the end every node has applied every acknowledged proposal once, at its index."""
        if list(history) != self.committed:
            raise Violation(f"node {node} ends with another history")
        for data, index in self.acknowledged.items():
            if history[index - 1].data != data:
                raise Violation(f"the acknowledged {data!r} is lost")
