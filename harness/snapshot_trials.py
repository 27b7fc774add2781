"""Recovery trials of snapshots: a worker is killed while it takes, receives or installs one (STO-24).

One cluster of three nodes lives through all trials. In each a node loses its directory and comes back empty,
behind a log that begins later; the worker that reaches the step ends itself, is started again by its front,
and everything has to be level again while clients write. `python -m harness.snapshot_trials` reads trials as
lines of JSON and writes them back.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import msgspec

from harness.acknowledged import COLLECTION, Ledger, partition_of
from harness.cluster import Cluster, HarnessError
from harness.load import prepare, stream_of_commits
from harness.trials import Trial, described
from keyload.client import AsyncClient
from keyload.contract.documents import PutDocument
from keyload.worker.steps import SNAPSHOT_STEPS

STORAGE = {"checkpointMs": 200, "segmentBytes": 1 << 20, "retainedLogBytes": 1 << 16}
"""So little log is kept that a node which comes back empty needs a snapshot of every shard."""

CLIENTS = 4
FILLERS = 24
FILLER_BYTES = 150_000
REACH_SECONDS = 60.0
SHARDS = 3
MOST_OCCURRENCES = {
    "SnapshotTaken": 2,
    "SnapshotReceived": SHARDS,
    "SnapshotInstalling": SHARDS,
    "SnapshotInstalled": SHARDS,
}
"""How often the worker that is to end reaches a step for certain: the empty node receives a snapshot of each
shard; the taking of them is shared by the two other nodes, so that one of these leads two shards or more."""


class Trials:
    """The cluster and what its clients were told."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.ledger = Ledger(seed)

    async def begin(self) -> None:
        """Make the collection and push the log of every shard past its first segments."""
        await prepare(self.cluster.urls, self.cluster.key)
        await self._fill()

    async def _fill(self) -> None:
        """Write documents large enough that each shard goes on in a new segment of the log."""
        text = f'{{"filler": "{"x" * FILLER_BYTES}"}}'
        async with AsyncClient(self.cluster.urls, self.cluster.key) as client:
            for number in range(FILLERS):
                put = PutDocument(collection=COLLECTION, id="filler", json=text)
                await client.documents_commit(partition_of(f"filler-{number}"), [put])

    async def run(self, trial: Trial) -> None:
        """Make one trial; AssertionError when something differs."""
        chance = Random(trial.seed)
        victim = chance.randint(1, 3)
        struck = self.cluster.directory / f"struck-{trial.seed}"
        fault = {"KEYLOAD_FAULT_POINT": f"{trial.step}:{trial.occurrence}:{struck}"}
        before = len(self.ledger.answers)
        async with stream_of_commits(self.ledger, self.cluster.urls, self.cluster.key, CLIENTS):
            await asyncio.to_thread(self._strike, trial.step, victim, fault)
            await self._until(struck.exists, f"{trial.step} is reached")
            await asyncio.to_thread(self.cluster.wait_ready)
        await self._fill()
        trial.acknowledged = len(self.ledger.answers) - before
        await self.ledger.check(self.cluster.urls, self.cluster.key)

    def _strike(self, step: str, victim: int, fault: dict[str, str]) -> None:
        """Let a node come back empty, with the fault set where the step will be reached: the others, of which
        one leads, take the snapshot, the empty one receives it.
        """
        if step == "SnapshotTaken":
            for number in (1, 2, 3):
                if number != victim:
                    self.cluster.stop_node(number)
                    self.cluster.restart(number, fault)
                    self.cluster.wait_ready()
        self.cluster.kill_node(victim)
        self.cluster.erase(victim)
        self.cluster.restart(victim, fault)

    async def _until(self, reached: object, what: str) -> None:
        assert callable(reached)
        deadline = time.monotonic() + REACH_SECONDS
        while not reached():
            if time.monotonic() > deadline:
                raise HarnessError(f"not within {REACH_SECONDS:.0f} s: {what}")
            await asyncio.sleep(0.05)


def plan(seed: int, count: int) -> list[Trial]:
    """`count` trials over all steps in turn, drawn from one number (TST-12)."""
    chance = Random(f"snapshots {seed}")
    steps = [SNAPSHOT_STEPS[number % len(SNAPSHOT_STEPS)] for number in range(count)]
    return [
        Trial(seed=chance.randrange(2**32), step=step, occurrence=chance.randint(1, MOST_OCCURRENCES[step]))
        for step in steps
    ]


async def run_all(trials: list[Trial]) -> int:
    """Make the trials in one cluster; the first failure ends them: what follows would prove nothing."""
    with tempfile.TemporaryDirectory(prefix="keyload-trial-") as name:
        settings = {"storage": STORAGE}
        with Cluster(Path(name) / "cluster", workers=1, shards=SHARDS, settings=settings) as cluster:
            made = Trials(cluster, trials[0].seed)
            await made.begin()
            for trial in trials:
                started = time.monotonic()
                try:
                    await made.run(trial)
                except (AssertionError, BaseExceptionGroup, OSError, TimeoutError) as error:
                    trial.failure = described(error)
                trial.seconds = round(time.monotonic() - started, 3)
                sys.stdout.write(msgspec.json.encode(trial).decode() + "\n")
                sys.stdout.flush()
                if trial.failure is not None:
                    return 1
    return 0


def main() -> int:
    """Run the trials given on standard input, one JSON object a line; write each back with what it found."""
    return asyncio.run(run_all([msgspec.json.decode(line, type=Trial) for line in sys.stdin]))


if __name__ == "__main__":
    sys.exit(main())
