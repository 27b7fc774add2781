"""What the front counts of its calls: time by lane, failures by lane and code (CLU-29).

Lanes and codes are closed sets, so the number of counters is fixed whoever calls.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import get_args

from keyload.contract.errors import ErrorCode
from keyload.contract.operation import Lane, Operation

LANES: tuple[Lane, ...] = get_args(Lane)
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the latency buckets in seconds; one bucket without bound follows."""


class Histogram:
    """How often a duration fell into each bucket, and the sum of all of them in seconds."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


class Measures:
    """Counters of one front process since its start."""

    def __init__(self) -> None:
        self.latency: dict[Lane, Histogram] = {lane: Histogram() for lane in LANES}
        self.failures: dict[tuple[Lane, ErrorCode], int] = {}

    def called(self, operation: Operation, seconds: float, failure: ErrorCode | None) -> None:
        """An executed call took so long and failed with `failure`, or did not."""
        self.latency[operation.lane].observe(seconds)
        if failure is not None:
            self._failed(operation.lane, failure)

    def refused(self, operation: Operation | None, failure: ErrorCode, lane: Lane = "data") -> None:
        """A request failed before it was executed; `lane` is that of a request whose target is unknown."""
        self._failed(lane if operation is None else operation.lane, failure)

    def _failed(self, lane: Lane, code: ErrorCode) -> None:
        self.failures[lane, code] = self.failures.get((lane, code), 0) + 1
