"""`python -m harness.simulator --seed N | --seconds S [--first N] [--steps N]`."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections import Counter
from collections.abc import Sequence

from harness.simulator.simulation import Report, simulate


def run(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when no seed failed."""
    parser = argparse.ArgumentParser(prog="harness.simulator", description="Seeded clusters under faults.")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--seed", type=int, help="repeat one run")
    choice.add_argument("--seconds", type=float, help="run fresh seeds for so long")
    parser.add_argument(
        "--first", type=int, default=None, help="the first fresh seed (default: from the clock)"
    )
    parser.add_argument("--steps", type=int, default=4_000, help="events with faults in a run")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        report = simulate(options.seed, options.steps)
        _tell(report)
        return report.violation is not None
    return _search(options.first if options.first is not None else time.time_ns() // 1000, options)


def _search(first: int, options: argparse.Namespace) -> int:
    end = time.monotonic() + options.seconds
    total: Counter[str] = Counter()
    failures = 0
    seed = first
    with contextlib.suppress(KeyboardInterrupt):
        while time.monotonic() < end:
            report = simulate(seed, options.steps)
            total.update(report.counts)
            if report.violation is not None:
                failures += 1
                print(f"FAILED {report.violation}\n  {report.replay}", flush=True)
            seed += 1
    print(f"{seed - first} seeds from {first}, {failures} failed; {dict(sorted(total.items()))}")
    return failures > 0


def _tell(report: Report) -> None:
    print(report.options)
    for line in report.story:
        print(" ", line)
    print(dict(sorted(report.counts.items())))
    print(f"FAILED {report.violation}" if report.violation else "held")
