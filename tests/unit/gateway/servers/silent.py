"""A server that reads and never answers; with `ends` it ends at once, with `noise` it answers nonsense."""

from __future__ import annotations

import sys

if "ends" not in sys.argv:
    for _ in sys.stdin:
        if "noise" in sys.argv:
            sys.stdout.write("secret nonsense\n")
            sys.stdout.flush()
