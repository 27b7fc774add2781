"""Which form of each accelerated kernel this process uses (TST-6, TST-9).

`KEYLOAD_SCALAR=1`, read once at import, selects the plain reference form of every kernel; bytes and results
are the same in both. Modules ask `SCALAR` and register the form they took, so that a start line can name it.
"""

from __future__ import annotations

import os

SCALAR = os.environ.get("KEYLOAD_SCALAR") == "1"

if SCALAR:
    os.environ["MSGPACK_PUREPYTHON"] = "1"  # read by msgpack when it is first imported

_ACTIVE: dict[str, str] = {}


def register(kernel: str, fast: str, reference: str = "reference") -> bool:
    """Note the form of `kernel` under its name; True when the fast one is to be used."""
    _ACTIVE[kernel] = reference if SCALAR else fast
    return not SCALAR


def active() -> dict[str, str]:
    """Form of every kernel imported so far, by kernel name in alphabetical order."""
    return dict(sorted(_ACTIVE.items()))
