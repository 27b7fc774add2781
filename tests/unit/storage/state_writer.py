"""A process that applies entries, makes checkpoints and snapshots beside them, and kills itself at a step.

Arguments: the shard's directory, a seed, the step to be killed at (counted over all kinds). It prints each
index it has applied and, with a sign before it, each index it knows to be durable.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from keyload.storage import Store, take_snapshot
from tests.unit.storage.states import BYTES, INCARNATION, advance


def main(directory: Path, seed: int, fatal_step: int) -> None:
    """Write until killed."""
    steps = iter(range(1, fatal_step + 1))
    chance = random.Random(seed)
    counting = threading.Lock()

    def step(_: str) -> None:
        with counting:
            if next(steps) == fatal_step:
                os.kill(os.getpid(), signal.SIGKILL)

    store = Store(directory, BYTES, step=step)
    while True:
        begun = store.begin_checkpoint()
        beside(begun.complete, store, chance)
        store.adopt(begun)
        say(f"={store.durable.index}")
        cut = store.cut()
        beside(
            lambda cut=cut: take_snapshot(
                cut, directory, incarnation=INCARNATION, shard=3, position=0, step=step
            ),
            store,
            chance,
        )
        cut.close()


def beside(work: Callable[[], object], store: Store, chance: random.Random) -> None:
    """Apply entries while `work` runs in a thread."""
    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(chance.randint(0, 6)):
        advance(store, 1)
        say(str(store.applied.index))
    thread.join()


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
