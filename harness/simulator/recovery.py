"""What must come true once the faults are over, and by when."""

from __future__ import annotations

from collections.abc import Callable

from harness.simulator.agenda import Agenda
from harness.simulator.checker import Violation

RECOVERY_MS = 20_000
"""After the last fault a cluster serves again within ten upper election timeouts (CLU-4, CLU-10)."""

RECOVERY_EVENTS = 400_000
"""More events than that until one goal is reached are a storm of messages."""


def until(agenda: Agenda, deadline: int, reached: Callable[[], bool], goal: str) -> None:
    """Let events happen until `goal` is reached; Violation when it is not by `deadline`."""
    last = agenda.count + RECOVERY_EVENTS
    while not reached():
        if agenda.count >= last:
            raise Violation(f"a storm of messages, and still no {goal}")
        if agenda.now > deadline:
            raise Violation(f"{RECOVERY_MS} ms after the last fault still no {goal}")
        agenda.step()
