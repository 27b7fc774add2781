"""Real processes killed at each step of checkpoints and of taking snapshots (STO-24)."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from keyload.storage import Position, boot, mark_clean, recover_state, stored_snapshot, verify_image
from tests.unit.storage.states import assert_holds, membership_at

ROOT = Path(__file__).parents[3]


@pytest.mark.covers("STO-5", "STO-9", "STO-24")
@pytest.mark.parametrize("fatal_step", [*range(1, 9), 15, 20, 25])
def test_a_killed_process_leaves_its_live_state_and_a_checkpoint_that_holds(
    tmp_path: Path, fatal_step: int
) -> None:
    worker = tmp_path / "worker-0"
    worker.mkdir(mode=0o700)
    mark_clean(worker)
    recover_state(worker)
    shard = worker / "shard-3"
    arguments = [str(shard), str(fatal_step), str(fatal_step)]
    child = subprocess.run(
        [sys.executable, "-m", "tests.unit.storage.state_writer", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    said = child.stdout.split()
    last = max((int(text) for text in said if not text.startswith("=")), default=0)
    durable = max((int(text[1:]) for text in said if text.startswith("=")), default=0)
    taken = stored_snapshot(shard)
    if taken is not None:
        facts = verify_image(shard / "snapshot" / "image", every_record=True)
        assert (facts.applied, facts.membership) == (Position(taken.index, 1), membership_at(taken.index))
    copy = tmp_path / "worker-1"
    copy.mkdir(mode=0o700)
    (copy / "shard-3").mkdir(mode=0o700)
    for name in ("data.mdb", "checkpoint"):
        if (shard / name).exists():
            (copy / "shard-3" / name).write_bytes((shard / name).read_bytes())
    (copy / "boot").write_bytes(b'{"boot_id":"another","clean":false}')
    if not recover_state(copy):
        back_to = boot.checkpoint.load(copy / "shard-3")
        assert back_to is not None
        assert back_to.position.index >= durable
        assert_holds(copy / "shard-3", back_to.position.index)
    assert recover_state(worker) == []
    if last or (shard / "checkpoint").exists():
        verify = verify_image(shard / "data.mdb", every_record=False)
        assert verify.applied.index in (last, last + 1)
        assert_holds(shard, verify.applied.index)
