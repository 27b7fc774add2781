"""Log lines: one JSON object a line on standard error, with closed categories (SEC-40, CLI-13).

A line never holds keys, tokens, payloads, field values or identities of callers; what varies is a category
from the program text and whole numbers.
"""

from __future__ import annotations

import json
import sys
import time


class Log:
    """The log of one process. `process` names it, such as `worker-0`."""

    def __init__(self, process: str, pause_seconds: float = 1.0) -> None:
        self._process = process
        self._pause = pause_seconds
        self._last: dict[str, float] = {}

    def write(self, category: str, **numbers: int) -> None:
        """Write one line; the same category again within the pause is left out, so that a storm stays a
        trickle.
        """
        now = time.monotonic()
        if now - self._last.get(category, -self._pause) < self._pause:
            return
        self._last[category] = now
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = {"at": stamp, "process": self._process, "category": category, **numbers}
        sys.stderr.write(json.dumps(line) + "\n")
        sys.stderr.flush()
