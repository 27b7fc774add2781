"""A node is killed at every step of a write, a checkpoint and a snapshot, reopened, and compared with what it
had acknowledged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from harness import snapshot_trials, trials
from harness.seeds import VARIABLE, seed_of_run
from harness.trials import NODE_STEPS, Trial
from keyload.worker.steps import SNAPSHOT_STEPS, STEPS

ORDINARY_TRIALS = 100
SNAPSHOT_SHARE = 12
"""One trial in so many is one of a snapshot: it needs three nodes."""

AT_ONCE = 2
SECONDS_PER_TRIAL = 60.0


class Maker:
    """A process that makes trials; its input, output and log are files beside each other."""

    def __init__(self, module: str, planned: list[Trial], files: Path) -> None:
        self._output = files.with_suffix(".out")
        self._seconds = SECONDS_PER_TRIAL * len(planned)
        wanted = files.with_suffix(".in")
        wanted.write_bytes(b"\n".join(msgspec.json.encode(trial) for trial in planned) + b"\n")
        with (
            wanted.open("rb") as source,
            self._output.open("wb") as target,
            files.with_suffix(".log").open("wb") as log,
        ):
            command = [sys.executable, "-m", module]
            self.process = subprocess.Popen(command, stdin=source, stdout=target, stderr=log)

    def lines(self) -> list[str]:
        """What it made, once it is done."""
        self.process.wait(self._seconds)
        return self._output.read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Trial]:
    """All trials of the run; one line of JSON is kept for each."""
    seed = seed_of_run()
    count = int(os.environ.get("KEYLOAD_TRIALS", ORDINARY_TRIALS))
    of_snapshots = count // SNAPSHOT_SHARE
    results = Path(os.environ.get("KEYLOAD_RESULTS") or tmp_path_factory.mktemp("recovery"))
    on_nodes = trials.plan(seed, count - of_snapshots)
    makers = [
        Maker(trials.__name__, on_nodes[place::AT_ONCE], results / f"trials-{place}")
        for place in range(AT_ONCE)
    ]
    makers.append(
        Maker(
            snapshot_trials.__name__, snapshot_trials.plan(seed, of_snapshots), results / "trials-snapshots"
        )
    )
    try:
        lines = [line for maker in makers for line in maker.lines()]
    finally:
        for maker in makers:
            maker.process.kill()
            maker.process.wait()
    (results / "trials.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"{VARIABLE}={seed}: {len(lines)} trials\n")
    return [msgspec.json.decode(line, type=Trial) for line in lines]


@pytest.mark.covers("STO-8", "STO-9", "STO-24", "STO-25", "STO-26", "TST-10", "CMD-28")
@pytest.mark.parametrize("step", STEPS)
def test_a_node_killed_at_this_step_keeps_what_it_acknowledged(made: list[Trial], step: str) -> None:
    at_step = [trial for trial in made if trial.step == step]
    failures = [
        (trial.seed, trial.occurrence, trial.failure) for trial in at_step if trial.failure is not None
    ]
    assert failures == []
    assert at_step


@pytest.mark.covers("STO-24", "STO-25", "TST-10", "TST-12")
def test_at_least_a_hundred_trials_were_made_and_most_hit_a_writing_node(made: list[Trial]) -> None:
    assert len(made) >= 100
    assert sum(trial.step in NODE_STEPS for trial in made) >= 88
    assert sum(trial.step in SNAPSHOT_STEPS for trial in made) >= 8
    hit = [trial for trial in made if trial.acknowledged > 0]
    assert len(hit) >= len(made) // 2


@pytest.mark.covers("STO-9", "STO-26")
def test_commands_not_logged_are_absent_and_logged_ones_are_there(made: list[Trial]) -> None:
    """A single node: what was in doubt at a step before the log is gone, what was applied is there."""
    for trial in made:
        if trial.step == "Applied" and trial.in_doubt:
            assert trial.in_doubt_present > 0, trial
    assert any(trial.in_doubt_present == 0 for trial in made if trial.step == "Executed" and trial.in_doubt)
