"""The text form of metrics that Prometheus reads, version 0.0.4 (CLU-29).

Labels are numbers and names of closed sets; no tenant, principal, key, path or resource ever stands here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["gauge", "counter", "histogram"]
Labels = tuple[tuple[str, str | int], ...]


class Exposition:
    """Gathers families of samples and writes them out; each family is added once, with all its samples."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def gauge(self, name: str, meaning: str, samples: Iterable[tuple[Labels, float]]) -> None:
        """Values that rise and fall."""
        self._family(name, "gauge", meaning)
        self._samples(name, samples)

    def counter(self, name: str, meaning: str, samples: Iterable[tuple[Labels, float]]) -> None:
        """Values that only grow until the process starts again; `name` ends with `_total`."""
        self._family(name, "counter", meaning)
        self._samples(name, samples)

    def histogram(
        self,
        name: str,
        meaning: str,
        bounds: tuple[float, ...],
        samples: Iterable[tuple[Labels, list[int], float]],
    ) -> None:
        """Distributions: counts by bucket, the last one without bound, and the sum of all values."""
        self._family(name, "histogram", meaning)
        for labels, counts, total in samples:
            below = 0
            for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
                below += count
                self._sample(f"{name}_bucket", (*labels, ("le", bound)), below)
            self._sample(f"{name}_sum", labels, total)
            self._sample(f"{name}_count", labels, below)

    def text(self) -> bytes:
        """Everything gathered."""
        return "".join(f"{line}\n" for line in self._lines).encode("ascii")

    def _family(self, name: str, kind: Kind, meaning: str) -> None:
        self._lines.append(f"# HELP {name} {meaning}")
        self._lines.append(f"# TYPE {name} {kind}")

    def _samples(self, name: str, samples: Iterable[tuple[Labels, float]]) -> None:
        for labels, value in samples:
            self._sample(name, labels, value)

    def _sample(self, name: str, labels: Labels, value: float) -> None:
        inside = ",".join(f'{label}="{content}"' for label, content in labels)
        self._lines.append(f"{name}{{{inside}}} {value}" if inside else f"{name} {value}")
