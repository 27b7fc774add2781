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


REFERENCE = "reference"
"""Name of the form that scalar mode selects."""


def register(kernel: str, fast: str) -> bool:
    """Note that `kernel` takes the form that the mode asks for; True when that is the fast one."""
    note(kernel, REFERENCE if SCALAR else fast)
    return not SCALAR


def note(kernel: str, form: str) -> None:
    """Note the form that `kernel` really has, where a library chooses it."""
    _ACTIVE[kernel] = form


def active() -> dict[str, str]:
    """Form of every kernel imported so far, by kernel name in alphabetical order."""
    return dict(sorted(_ACTIVE.items()))
