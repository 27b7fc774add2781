"""A worker that notes what it syncs: `python -m harness.power.worker`, started as `keyload.worker` is.

`KEYLOAD_POWER` in its environment holds the `Setup` as JSON.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from harness.power.record import Recorder
from keyload.storage import Store, checkpoint, layout
from keyload.worker import __main__ as worker

VARIABLE = "KEYLOAD_POWER"
STARTED = "started"
COMMAND = (sys.executable, "-m", "harness.power.worker")


class Setup(msgspec.Struct, frozen=True):
    """`root` is the worker's directory, `side` where the note is kept, `kill_at` the event to be killed at,
    `pins` whether checkpoints hold their pages, as they have to."""

    root: str
    side: str
    kill_at: int | None = None
    pins: bool = True


def main() -> int:
    """Run one worker; a second start with the same note is refused, for it would go on behind a kill."""
    setup = msgspec.json.decode(os.environ[VARIABLE], type=Setup)
    side = Path(setup.side)
    side.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(side / STARTED, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return worker.EXIT_LAUNCH
    recorder = Recorder(Path(setup.root), side, setup.kill_at)
    recorder.install()
    _record_stores(recorder)
    if not setup.pins:
        _leave_out_pins()
    return worker.main()


def _record_stores(recorder: Recorder) -> None:
    """Note the syncs of the engine, which happen outside Python: a state is durable as it was when its
    checkpoint was begun."""
    begin, sync = Store.begin_checkpoint, checkpoint.Checkpoint._sync

    def begin_noted(store: Store) -> checkpoint.Checkpoint:
        begun = begin(store)
        descriptor = os.open(store._directory / layout.DATA_FILE, os.O_RDONLY)
        try:
            begun.copy = recorder.begin_file(descriptor)  # pyright: ignore
        finally:
            os.close(descriptor)
        return begun

    def sync_noted(begun: Any) -> None:
        sync(begun)
        recorder.end_file(begun.copy)

    setattr(Store, "begin_checkpoint", begin_noted)  # noqa: B010 - another name of self
    setattr(checkpoint.Checkpoint, "_sync", sync_noted)  # noqa: B010


def _leave_out_pins() -> None:
    """The broken variant: the pages of a checkpoint are free as soon as it was begun."""
    begin = Store.begin_checkpoint

    def begin_unpinned(store: Store) -> checkpoint.Checkpoint:
        begun = begin(store)
        begun.unpin()
        return begun

    setattr(Store, "begin_checkpoint", begin_unpinned)  # noqa: B010


if __name__ == "__main__":
    sys.exit(main())
