"""`python -m harness.fuzz.engine TARGET FINDINGS OPTIONS...`: one target under libFuzzer, in its own process.

The options are libFuzzer's. A finding is written to the folder FINDINGS before the process ends with it. The
product is instrumented while it is imported, so that must happen here first.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import atheris


def main() -> None:
    """Run until libFuzzer ends the process: at the first finding, or when time is over."""
    with atheris.instrument_imports(include=["keyload"]):  # pyright: ignore
        from harness.fuzz.targets import TARGETS
    name, folder, *options = sys.argv[1:]
    check = TARGETS[name].check

    def checked(data: bytes) -> None:
        try:
            check(data)
        except BaseException:
            Path(folder, f"finding-{hashlib.sha256(data).hexdigest()[:16]}").write_bytes(data)
            raise

    atheris.Setup([sys.argv[0], *options], checked)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
