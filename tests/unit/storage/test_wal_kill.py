"""A log ended at every step of writing, basing and trimming: killed processes and torn writes (STO-8)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from keyload.storage import Wal
from tests.unit.storage.log_model import Contents, contents, files_of, open_log, put_files, settle
from tests.unit.storage.log_writer import operations, watched

ROOT = Path(__file__).parents[3]

State = list[Contents]


def state_of(log: Wal) -> State:
    return [contents(log, shard) for shard in (1, 2, 3)]


def states_of(directory: Path, seed: int) -> list[State]:
    """What a log holds after none, one, two ... of the operations when nothing disturbs them."""
    with open_log(directory) as log:
        states = [state_of(log)]
        for operation in operations(seed):
            operation(log)
            states.append(state_of(log))
    return states


@pytest.mark.covers("STO-4", "STO-8", "STO-9", "STO-17")
@pytest.mark.parametrize("seed", range(8))
def test_a_killed_writer_leaves_every_acknowledged_operation_and_no_half_one(
    tmp_path: Path, seed: int
) -> None:
    states = states_of(tmp_path / "undisturbed", seed)
    fatal_step = random.Random(seed).randint(1, 140)
    command = [sys.executable, "-m", "tests.unit.storage.log_writer"]
    child = subprocess.run(
        [*command, str(tmp_path / "wal"), str(seed), str(fatal_step)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    acknowledged = len(child.stdout.split())
    with open_log(tmp_path / "wal") as log:
        found = state_of(log)
        assert found in states[acknowledged : acknowledged + 2]
        done = acknowledged + states[acknowledged : acknowledged + 2].index(found)
        for operation in operations(seed)[done:]:
            operation(log)
        end = state_of(log)
    with open_log(tmp_path / "wal") as log:
        assert state_of(log) == end


class Stopped(Exception):
    """Ends an operation, as a kill would."""


class Worker:
    """Works on a log until a step at which it stops, and remembers its last write."""

    def __init__(self, directory: Path, fatal_step: int) -> None:
        self.directory = directory
        self.left = fatal_step
        self.at = ""
        self.done = 0
        self.last_write = ("", 0)

    def step(self, name: str) -> None:
        self.left -= 1
        if not self.left:
            self.at = name
            raise Stopped

    def run(self, seed: int, count: int) -> dict[str, bytes]:
        """Do `count` operations, or as many as are done before the step; the files then."""
        log = open_log(self.directory, self.step)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "rename", watched(Path.rename, self.step))
            patch.setattr(os, "pwritev", self._remembered(os.pwritev))
            try:
                for operation in operations(seed)[:count]:
                    operation(log)
                    self.done += 1
            except Stopped:
                pass
        settle(log)
        files = files_of(self.directory)
        log.close()
        return files

    def _remembered(self, write: Callable[..., int]) -> Callable[..., int]:
        def call(descriptor: int, buffers: list[bytes], start: int) -> int:
            self.last_write = (Path(f"/proc/self/fd/{descriptor}").readlink().name, start)
            return write(descriptor, buffers, start)

        return call


@pytest.mark.covers("STO-4", "STO-8", "STO-9", "STO-17")
@pytest.mark.parametrize("seed", [1, 5])
def test_a_log_stopped_at_any_step_holds_the_operation_or_nothing_of_it(tmp_path: Path, seed: int) -> None:
    states = states_of(tmp_path / "undisturbed", seed)
    chance = random.Random(seed)
    stopped_at: set[str] = set()
    for fatal_step in range(1, 200):
        worker = Worker(tmp_path / f"stopped-{fatal_step}", fatal_step)
        files = worker.run(seed, count=20)
        if not worker.at:
            assert worker.done == 20
            break
        stopped_at.add(worker.at)
        images = [files]
        if worker.at == "LogWritten":
            name, start = worker.last_write
            cut = chance.randint(start, len(files[name].rstrip(b"\0")))
            images.append({**files, name: files[name][:cut].ljust(len(files[name]), b"\0")})
        for image in images:
            put_files(tmp_path / "opened", image)
            with open_log(tmp_path / "opened") as log:
                assert state_of(log) in states[worker.done : worker.done + 2]
    assert stopped_at == {"LogWritten", "LogSynced", "rename"}
