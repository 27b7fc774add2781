"""`python -m harness.fuzz.engine TARGET OPTIONS...`: one target under libFuzzer, in a process of its own.

The options are libFuzzer's. The product is instrumented while it is imported, so that must happen here first.
"""

from __future__ import annotations

import sys

import atheris


def main() -> None:
    """Run until libFuzzer ends the process: at the first finding, or when time is over."""
    with atheris.instrument_imports(include=["keyload"]):  # pyright: ignore
        from harness.fuzz.targets import TARGETS
    name, *options = sys.argv[1:]
    atheris.Setup([sys.argv[0], *options], TARGETS[name].check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
