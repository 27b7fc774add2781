"""`python -m harness`: the tools of the harness that are run by hand."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from harness.fuzz import command as fuzz
from harness.simulator import command as simulator


def run(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run what it names; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m harness", description=__doc__)
    commands = parser.add_subparsers(required=True)
    simulator.add_command(commands)
    fuzz.add_command(commands)
    options = parser.parse_args(arguments)
    code: int = options.run(options)
    return code


if __name__ == "__main__":
    raise SystemExit(run())
