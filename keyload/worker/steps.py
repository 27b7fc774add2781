"""The named steps at which the recovery suite kills a worker (STO-8, STO-24), and syncs that fail (STO-11).

`KEYLOAD_FAULT_POINT=<Step>:<n>` in a worker's environment makes it end itself with SIGKILL when it reaches
that step for the n-th time. With a third part, `<Step>:<n>:<file>`, it does so once for all lives that share
the file, which is made just before the end. `LogSyncFails` and `CheckpointSyncFails` are no steps: with them
the n-th sync of the log or of a checkpoint fails with EIO. Without the variable a step costs one empty call.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping

from keyload.storage.hooks import Step, unwatched

WRITE_STEPS = (
    "Received",
    "Executed",
    "LogWritten",
    "LogSynced",
    "Replicated",
    "Committed",
    "Applied",
    "Replied",
)
CHECKPOINT_STEPS = ("CheckpointPinned", "CheckpointSyncing", "CheckpointSynced", "CheckpointSaved")
SNAPSHOT_STEPS = ("SnapshotTaken", "SnapshotReceived", "SnapshotInstalling", "SnapshotInstalled")
STEPS = WRITE_STEPS + CHECKPOINT_STEPS + SNAPSHOT_STEPS
FAILURES = {"LogSyncFails": "LogWritten", "CheckpointSyncFails": "CheckpointSyncing"}
"""Syncs that can fail, with the step just before each."""


def step_hook(environment: Mapping[str, str]) -> Step:
    """The hook a worker calls at each step. Raises ValueError for an unknown step or a count below 1."""
    text = environment.get("KEYLOAD_FAULT_POINT")
    return unwatched if text is None else _fault(text)


def _fault(text: str) -> Step:
    wanted, _, rest = text.partition(":")
    count, _, once = rest.partition(":")
    if wanted not in (*STEPS, *FAILURES) or not count.isdigit() or int(count) < 1:
        names = ", ".join((*STEPS, *FAILURES))
        raise ValueError(f"KEYLOAD_FAULT_POINT must be one of {names}, a colon and a count from 1")
    left = int(count)
    place = FAILURES.get(wanted, wanted)

    def strike_at(name: str) -> None:
        nonlocal left
        if name == place:
            left -= 1
            if left == 0 and (not once or _is_first(once)):
                _strike(wanted)

    return strike_at


def _strike(fault: str) -> None:
    if fault in FAILURES:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    os.kill(os.getpid(), signal.SIGKILL)


def _is_first(path: str) -> bool:
    """Make the file that says that the fault has struck; False when it had."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    return True
