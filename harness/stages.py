"""What a front spends on admission, authentication and preflight of a request (`--measure=stages`).

A real front serves over loopback, on the workers of a cluster of three; the functions of the stages are timed
in processor time of its thread. What the timer itself costs is taken off.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from time import thread_time_ns
from typing import Any

import uvloop

from harness.bench import commits, mcp_reads, point_reads
from harness.injection import InjectedNode, three_nodes
from harness.measured import Row, Table, below, middle
from harness.raw_http import closed_loop
from keyload.backup.shelf import Shelf
from keyload.cli.serve import front_settings
from keyload.front import edge
from keyload.front.admission import HttpGate
from keyload.front.app import build, listen, serve
from keyload.front.auth import Authenticator, Claim
from keyload.front.barrier import SharedBarrier
from keyload.front.hosts import Hosts
from keyload.front.workers import WorkerHub
from keyload.node.launching import identity

RUNS = 3
SECONDS = 5.0
CONNECTIONS = 16
LIMIT_MICROSECONDS = 150.0
PROBES = 20_000
STAGES: dict[str, tuple[tuple[Any, str], ...]] = {
    "admission": tuple(
        (HttpGate, name) for name in ("reserve", "verify", "release", "enter", "grow", "leave")
    ),
    "authentication": (
        (Hosts, "check"),
        (Authenticator, "claim"),
        (Authenticator, "present"),
        (Claim, "stands"),
        (SharedBarrier, "_launch"),
        (SharedBarrier, "_finish"),
        (WorkerHub, "_confirmed"),
    ),
    "preflight": ((edge, "inspect"),),
}


class Meter:
    """Processor time of the stages since it was cleared, in nanoseconds."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._inside = False
        self._own = self._cost_of_timer()

    def _cost_of_timer(self) -> int:
        began = thread_time_ns()
        for _ in range(PROBES):
            thread_time_ns()
        return (thread_time_ns() - began) // PROBES

    def timed(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        """The function with its time counted, once where one calls another."""

        def measured(*arguments: Any, **options: Any) -> Any:
            if self._inside:
                return function(*arguments, **options)
            self._inside = True
            began = thread_time_ns()
            try:
                return function(*arguments, **options)
            finally:
                self.spent[stage] += thread_time_ns() - began - self._own
                self._inside = False

        return measured


@contextmanager
def metered() -> Iterator[Meter]:
    """Time the stages while the context is entered."""
    meter = Meter()
    before = [(owner, name, getattr(owner, name)) for stage in STAGES.values() for owner, name in stage]
    for stage, functions in STAGES.items():
        for owner, name in functions:
            setattr(owner, name, meter.timed(getattr(owner, name), stage))
    try:
        yield meter
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


@asynccontextmanager
async def front_of(node: InjectedNode, directory: Path) -> AsyncIterator[str]:
    """A front over the workers of a node; its origin."""
    settings = node.settings
    front = build(node.hub, front_settings(settings), Shelf(directory, identity(settings)))
    listener = listen("127.0.0.1", 0)
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(front, listener, stop.wait))
    try:
        async with asyncio.timeout(30):
            while not front.readiness.ready():
                await asyncio.sleep(0.01)
        yield origin
    finally:
        stop.set()
        await serving


def measure() -> Table:
    """Reads and commits over HTTP, reads over MCP."""
    with (
        tempfile.TemporaryDirectory(prefix="keyload-stages-") as name,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        metered() as meter,
    ):
        return runner.run(_measure(Path(name), meter))


async def _measure(directory: Path, meter: Meter) -> Table:
    rows: list[Row] = []
    async with three_nodes(directory) as nodes, front_of(nodes[0], directory) as origin:
        key = nodes[0].settings.admin_key
        assert key is not None
        cases = {
            "HTTP point read": point_reads(key),
            "HTTP commit": commits(key),
            "MCP invoke of a point read": mcp_reads(key),
        }
        for what, requests in cases.items():
            await closed_loop([origin], CONNECTIONS, 1.0, requests)
            spent: dict[str, list[float]] = {stage: [] for stage in STAGES}
            for _ in range(RUNS):
                meter.spent.clear()
                _, latencies = await closed_loop([origin], CONNECTIONS, SECONDS, requests)
                for stage, runs in spent.items():
                    runs.append(meter.spent[stage] / 1000 / len(latencies))
            sums = [sum(run) for run in zip(*spent.values(), strict=True)]
            rows.append(below(f"{what}, all stages", sums, "us", LIMIT_MICROSECONDS))
            rows += [
                Row(what=f"{what}, {stage}", values=tuple(runs), unit="us")
                for stage, runs in spent.items()
                if middle(runs) > 0
            ]
    return Table(title="Stages before the execution of a request", runs=RUNS, rows=rows)
