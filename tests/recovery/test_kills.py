"""A node is killed at every step of a write, reopened, and compared with what it had acknowledged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from harness.seeds import VARIABLE, seed_of_run
from harness.trials import Trial, plan
from keyload.worker.steps import STEPS

ORDINARY_TRIALS = 104
AT_ONCE = 2
SECONDS_PER_TRIAL = 60.0


@pytest.fixture(scope="session")
def trials(tmp_path_factory: pytest.TempPathFactory) -> list[Trial]:
    """All trials of the run, made by two processes side by side; one line of JSON is kept for each."""
    seed = seed_of_run()
    planned = plan(seed, int(os.environ.get("KEYLOAD_TRIALS", ORDINARY_TRIALS)))
    results = Path(os.environ.get("KEYLOAD_RESULTS") or tmp_path_factory.mktemp("recovery"))
    makers = [start(planned[place::AT_ONCE], results / f"trials-{place}") for place in range(AT_ONCE)]
    try:
        for maker in makers:
            maker.wait(SECONDS_PER_TRIAL * len(planned))
    finally:
        for maker in makers:
            maker.kill()
            maker.wait()
    lines = [line for place in range(AT_ONCE) for line in output(results / f"trials-{place}")]
    (results / "trials.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"{VARIABLE}={seed}: {len(lines)} trials\n")
    return [msgspec.json.decode(line, type=Trial) for line in lines]


def start(planned: list[Trial], files: Path) -> subprocess.Popen[bytes]:
    """One process that makes trials; its input, output and log are files beside each other."""
    wanted = files.with_suffix(".in")
    wanted.write_bytes(b"\n".join(msgspec.json.encode(trial) for trial in planned) + b"\n")
    with (
        wanted.open("rb") as source,
        files.with_suffix(".out").open("wb") as target,
        files.with_suffix(".log").open("wb") as log,
    ):
        command = [sys.executable, "-m", "harness.trials"]
        return subprocess.Popen(command, stdin=source, stdout=target, stderr=log)


def output(files: Path) -> list[str]:
    return files.with_suffix(".out").read_text(encoding="utf-8").splitlines()


@pytest.mark.covers("STO-8", "STO-9", "STO-24", "STO-25", "STO-26", "TST-10", "CMD-28")
@pytest.mark.parametrize("step", STEPS)
def test_a_node_killed_at_this_step_keeps_what_it_acknowledged(trials: list[Trial], step: str) -> None:
    made = [trial for trial in trials if trial.step == step]
    failures = [(trial.seed, trial.occurrence, trial.failure) for trial in made if trial.failure is not None]
    assert failures == []
    assert len(made) >= len(trials) // len(STEPS)


@pytest.mark.covers("STO-24", "STO-25", "TST-10", "TST-12")
def test_at_least_a_hundred_trials_were_made_and_most_hit_a_writing_node(trials: list[Trial]) -> None:
    assert len(trials) >= 100
    hit = [trial for trial in trials if trial.acknowledged > 0 and trial.in_doubt > 0]
    assert len(hit) >= len(trials) // 2


@pytest.mark.covers("STO-9", "STO-26")
def test_commands_not_logged_are_absent_and_logged_ones_are_there(trials: list[Trial]) -> None:
    """A single node: what was in doubt at a step before the log is gone, what was applied is there."""
    for trial in trials:
        if trial.step == "Applied" and trial.in_doubt:
            assert trial.in_doubt_present > 0, trial
    assert any(trial.in_doubt_present == 0 for trial in trials if trial.step == "Executed" and trial.in_doubt)
