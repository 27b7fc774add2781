"""One number decides every random choice of a run; it is printed and can be given again (TST-12)."""

from __future__ import annotations

import os
import secrets

VARIABLE = "KEYLOAD_SEED"


def seed_of_run() -> int:
    """The seed from the environment, else a fresh one."""
    given = os.environ.get(VARIABLE)
    return int(given) if given else secrets.randbelow(2**32)
