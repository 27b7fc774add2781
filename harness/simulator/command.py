"""`python -m harness simulate --seed N [--steps S]` and `... --minutes M [--processes P] [--first N]`."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from harness.simulator.consensus import simulation as consensus
from harness.simulator.nodes import simulation as nodes
from harness.simulator.report import Report
from harness.simulator.search import Simulate, search

FORMS: dict[str, tuple[Simulate, int]] = {
    "nodes": (nodes.simulate, nodes.STEPS),
    "consensus": (consensus.simulate, consensus.STEPS),
}
"""Simulators by name, with the usual number of events with faults."""


def add_command(commands: Any) -> None:
    """Add `simulate` to the subcommands of a parser."""
    parser: argparse.ArgumentParser = commands.add_parser("simulate", help="seeded clusters under faults")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--seed", type=int, help="repeat one run")
    choice.add_argument("--minutes", type=float, help="run fresh seeds for so long")
    parser.add_argument("--form", choices=sorted(FORMS), default="nodes", help="what is simulated")
    parser.add_argument("--steps", type=int, help="events with faults in a run")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first", type=int, help="the first fresh seed (default: from the clock)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Exit code 0 when no seed failed."""
    simulate, steps = FORMS[options.form]
    steps = steps if options.steps is None else options.steps
    if options.seed is not None:
        report: Report = simulate(options.seed, steps)
        print(*report.lines(), sep="\n")
        return int(report.violation is not None)
    first = time.time_ns() // 1000 if options.first is None else options.first
    return int(search(simulate, first, steps, options.minutes * 60, options.processes) > 0)
