"""Looks for failing seeds on all cores until the time is over."""

from __future__ import annotations

import multiprocessing
import queue
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from harness.simulator.report import Report

Simulate = Callable[[int, int], Report]

PROGRESS_SECONDS = 30.0

MAX_FAILURES = 100
"""Then the search ends: it knows enough."""


def search(simulate: Simulate, first: int, steps: int, seconds: float, processes: int) -> int:
    """Run the seeds from `first` on; tell each that fails, and how it goes. Returns how many failed."""
    end = time.time() + seconds
    context = multiprocessing.get_context("fork")
    found: Any = context.Queue()
    workers = [
        context.Process(
            target=_work, args=(simulate, first + place, processes, steps, end, found), daemon=True
        )
        for place in range(processes)
    ]
    print(f"seeds from {first}, {steps} steps, {processes} processes, {seconds / 60:g} minutes", flush=True)
    for worker in workers:
        worker.start()
    total: Counter[str] = Counter()
    told = time.monotonic()
    while total["failed"] < MAX_FAILURES:
        try:
            _count(found.get(timeout=0.2), total)
        except queue.Empty:
            if not any(worker.is_alive() for worker in workers):
                break
        if time.monotonic() - told > PROGRESS_SECONDS:
            told = time.monotonic()
            _tell(total)
    crashed = sum(bool(worker.exitcode) for worker in workers)
    for worker in workers:
        worker.terminate()
        worker.join()
    if crashed:
        print(f"FAILED {crashed} of the processes ended before their time", flush=True)
    _tell(total)
    return total["failed"] + crashed


def _work(simulate: Simulate, seed: int, stride: int, steps: int, end: float, found: Any) -> None:
    while time.time() < end:
        found.put(simulate(seed, steps))
        seed += stride


def _count(report: Report, total: Counter[str]) -> None:
    total["seeds"] += 1
    total["events"] += report.events
    total["virtual ms"] += report.virtual_ms
    total["failed"] += report.violation is not None
    for name in ("acknowledged", "reads served"):
        total[name] += report.counts[name]
    if report.violation is not None:
        print(f"FAILED {report.replay}: {report.violation}", flush=True)


def _tell(total: Counter[str]) -> None:
    hours = total["virtual ms"] / 3_600_000
    print(
        f"{total['seeds']} seeds, {total['failed']} failed; {total['events']} events, "
        f"{hours:.1f} virtual hours, {total['acknowledged']} acknowledged commands, "
        f"{total['reads served']} reads",
        flush=True,
    )
