"""A worker that notes what it syncs: `python -m harness.power.worker`, started as `keyload.worker` is.

`KEYLOAD_POWER` in its environment holds the `Setup` as JSON. Log segments and the times between checkpoints
are short here, so that a run of a second has many of both.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import msgspec

from harness.power.record import Recorder
from keyload.storage import Store, Wal, checkpoint, layout
from keyload.worker import __main__ as worker

VARIABLE = "KEYLOAD_POWER"
SEGMENT_BYTES = 256 << 10
STARTED = "started"
COMMAND = (sys.executable, "-m", "harness.power.worker")


class Setup(msgspec.Struct, frozen=True):
    """`root` is the worker's directory, `side` where the note is kept, `kill_at` the event to be killed at,
    `pins` whether checkpoints hold their pages, as they have to."""

    root: str
    side: str
    seed: int
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
    worker.Wal = partial(Wal, segment_bytes=SEGMENT_BYTES)  # pyright: ignore
    worker.Store = partial(_EagerStore, chance=Random(setup.seed))  # pyright: ignore
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

    Store.begin_checkpoint = begin_noted
    checkpoint.Checkpoint._sync = sync_noted


def _leave_out_pins() -> None:
    """The broken variant: the pages of a checkpoint are free as soon as it was begun."""
    begin = Store.begin_checkpoint

    def begin_unpinned(store: Store) -> checkpoint.Checkpoint:
        begun = begin(store)
        begun.unpin()
        return begun

    Store.begin_checkpoint = begin_unpinned


class _EagerStore(Store):
    """Makes checkpoints all the time, in a thread, beside the writes."""

    def __init__(self, directory: Path, maximum_bytes: int, *, chance: Random, **options: Any) -> None:
        self._chance = chance
        self._begun: tuple[checkpoint.Checkpoint, Thread] | None = None
        super().__init__(directory, maximum_bytes, **options)

    def apply(self, *arguments: Any, **options: Any) -> None:
        super().apply(*arguments, **options)
        if self._begun is not None:
            begun, thread = self._begun
            if thread.is_alive():
                return
            self._begun = None
            self.adopt(begun)
        if self._chance.random() < 0.2:
            begun = self.begin_checkpoint()
            thread = Thread(target=begun.complete)
            thread.start()
            self._begun = begun, thread


if __name__ == "__main__":
    sys.exit(main())
