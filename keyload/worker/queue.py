"""The commands that wait in one shard: two lanes, each first in, first out (ADM-14)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from keyload.worker.calls import CommandCall

CONTROL_RUN = 8
"""Control commands that may run in a row while a data command waits."""


class CommandQueue:
    """Waiting commands in the order in which they are to run."""

    def __init__(self) -> None:
        self._data: deque[CommandCall] = deque()
        self._control: deque[CommandCall] = deque()
        self._control_run = 0

    def add(self, call: CommandCall) -> None:
        """Put a command at the end of its lane."""
        (self._control if call.command.control else self._data).append(call)

    def put_back(self, calls: Iterable[CommandCall]) -> None:
        """Put commands at the head of their lanes, keeping their order."""
        for call in reversed(list(calls)):
            (self._control if call.command.control else self._data).appendleft(call)

    def take(self, most: int) -> list[CommandCall]:
        """Remove up to `most` commands: control first, but at most CONTROL_RUN while data waits."""
        if not self._control:
            self._control_run = 0
            return [self._data.popleft() for _ in range(min(most, len(self._data)))]
        taken: list[CommandCall] = []
        while len(taken) < most and (self._control or self._data):
            if self._control and (not self._data or self._control_run < CONTROL_RUN):
                self._control_run += 1
                taken.append(self._control.popleft())
            else:
                self._control_run = 0
                taken.append(self._data.popleft())
        return taken

    def sweep(self, now: float) -> list[CommandCall]:
        """Remove and return the commands whose deadline has passed."""
        late = [call for lane in (self._control, self._data) for call in lane if call.deadline <= now]
        if late:
            self._control = deque(call for call in self._control if call.deadline > now)
            self._data = deque(call for call in self._data if call.deadline > now)
        return late

    def __len__(self) -> int:
        return len(self._data) + len(self._control)
