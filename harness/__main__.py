"""`python -m harness`: the tools of the harness that are run by hand."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from harness.discovery import command as discovery
from harness.fuzz import command as fuzz
from harness.simulator import command as simulator


def run(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run what it names; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m harness", description=__doc__)
    commands = parser.add_subparsers(required=True)
    simulator.add_command(commands)
    _add_api(commands)
    fuzz.add_command(commands)
    discovery.add_command(commands)
    options = parser.parse_args(arguments)
    code: int = options.run(options)
    return code


def _add_api(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser("api", help="generated requests against a cluster")
    parser.add_argument("--cases", type=int, default=20_000, help="how many (default 20000)")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=3)
    parser.set_defaults(run=_run_api)


def _run_api(options: argparse.Namespace) -> int:
    from harness import api  # its generator takes a second to import, which a simulation need not wait for

    return api.command(options.cases, options.nodes)


if __name__ == "__main__":
    raise SystemExit(run())
