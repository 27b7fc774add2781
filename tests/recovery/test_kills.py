"""A node is killed at every step of a write, a checkpoint and a snapshot, reopened, and compared with what it
had acknowledged."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

from harness import snapshot_trials, trials
from harness.makers import Maker, ended
from harness.seeds import VARIABLE, seed_of_run
from harness.trials import NODE_STEPS, Trial
from keyload.worker.steps import SNAPSHOT_STEPS, STEPS

ORDINARY_TRIALS = 100
SNAPSHOT_SHARE = 12
"""One trial in so many is one of a snapshot: it needs three nodes."""

AT_ONCE = 2
SECONDS_PER_TRIAL = 60.0


def maker_of(module: str, planned: list[Trial], files: Path) -> Maker:
    return Maker(module, planned, files, seconds=SECONDS_PER_TRIAL * len(planned))


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Trial]:
    """All trials of the run; one line of JSON is kept for each."""
    seed = seed_of_run()
    count = int(os.environ.get("KEYLOAD_TRIALS", ORDINARY_TRIALS))
    of_snapshots = count // SNAPSHOT_SHARE
    results = Path(os.environ.get("KEYLOAD_RESULTS") or tmp_path_factory.mktemp("recovery"))
    on_nodes = trials.plan(seed, count - of_snapshots)
    makers = [
        maker_of(trials.__name__, on_nodes[place::AT_ONCE], results / f"trials-{place}")
        for place in range(AT_ONCE)
    ]
    makers.append(
        maker_of(
            snapshot_trials.__name__, snapshot_trials.plan(seed, of_snapshots), results / "trials-snapshots"
        )
    )
    with ended(makers):
        lines = [line for maker in makers for line in maker.lines()]
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
