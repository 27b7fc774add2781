"""Real processes killed at a step of writing the log (STO-8)."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.storage.log_model import ModelLog, holds, open_log
from tests.unit.storage.log_writer import turns

ROOT = Path(__file__).parents[3]


@pytest.mark.covers("STO-4", "STO-8", "STO-9")
@pytest.mark.parametrize("seed", range(4))
def test_a_killed_writer_leaves_every_acknowledged_turn_and_no_half_one(tmp_path: Path, seed: int) -> None:
    fatal_step = random.Random(seed).randint(1, 60)  # noqa: S311 - a fixed case per seed
    child = subprocess.run(
        [sys.executable, "-m", "tests.unit.storage.log_writer", str(tmp_path / "wal"), str(seed), str(fatal_step)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    acknowledged = len(child.stdout.split())
    written = turns(seed)
    with open_log(tmp_path / "wal") as log:
        states: list[int] = []
        model = ModelLog()
        for number in range(len(written) + 1):
            if holds(log, model):
                states.append(number)
            if number < len(written):
                model.write(written[number])
    assert states
    assert acknowledged <= states[-1] <= acknowledged + 1
