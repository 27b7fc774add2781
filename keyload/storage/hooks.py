"""Steps of writes, checkpoints, snapshots and installations, by name, for tests that stop at them (STO-8,
STO-24)."""

from __future__ import annotations

from collections.abc import Callable

Step = Callable[[str], None]
"""Called with the name of each step."""


def unwatched(step: str) -> None:
    """The hook of files whose steps nobody watches."""
