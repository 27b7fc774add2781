"""A process that works on a log and kills itself at a given step; it prints the number of each operation it
may acknowledge.

Arguments: the directory, the seed of the operations, the step to be killed at.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from keyload.consensus.messages import Entry, HardState
from keyload.storage import ShardWrite, Wal
from tests.unit.storage.log_model import open_log

Operation = Callable[[Wal], object]


def operations(seed: int) -> list[Operation]:
    """Turns of three shards, some with conflicts, bases and trims, always the same for a seed."""
    chance = random.Random(seed)
    last = {1: 0, 2: 0, 3: 0}
    base = {1: 0, 2: 0, 3: 0}
    result: list[Operation] = []
    for term in range(1, 41):
        result.append(_turn(chance, last, base, term))
        if chance.random() < 0.1:
            shard = chance.choice([1, 2, 3])
            base[shard] = last[shard] = last[shard] + chance.randint(1, 3)
            result.append(_rebase(shard, last[shard], term))
        if term % 6 == 0:
            needed = {shard: max(base[shard], index - chance.randint(-1, 3)) for shard, index in last.items()}
            base = {shard: max(base[shard], index - 1) for shard, index in needed.items()}
            result.append(_trim(needed))
    return result


def _turn(chance: random.Random, last: dict[int, int], base: dict[int, int], term: int) -> Operation:
    turn: list[ShardWrite] = []
    for shard in chance.sample([1, 2, 3], chance.randint(1, 3)):
        first = max(base[shard], last[shard] - chance.choice([0, 0, 0, 2])) + 1
        count = chance.randint(0, 3)
        entries = [Entry(term, first + n, chance.randbytes(chance.randint(0, 300))) for n in range(count)]
        if count:
            last[shard] = first + count - 1
        turn.append((shard, HardState(term, shard, 0), entries))
    return lambda log: log.write(turn)


def _rebase(shard: int, index: int, term: int) -> Operation:
    return lambda log: log.rebase(shard, index, term)


def _trim(needed: dict[int, int]) -> Operation:
    return lambda log: log.trim(needed)


def watch(step: Callable[[str], None]) -> None:
    """Call `step` also before a directory is synced, a segment named or one removed."""
    for owner, name in ((os, "fsync"), (Path, "rename"), (Path, "unlink")):
        setattr(owner, name, watched(getattr(owner, name), step))


def watched(function: Callable[..., object], step: Callable[[str], None]) -> Callable[..., object]:
    """The function, with `step` called before it."""

    def call(*arguments: object, **options: object) -> object:
        step(function.__name__)
        return function(*arguments, **options)

    return call


def main(directory: Path, seed: int, fatal_step: int) -> None:
    """Work until killed."""
    steps = iter(range(1, fatal_step + 1))

    def step(_: str) -> None:
        if next(steps) == fatal_step:
            os.kill(os.getpid(), signal.SIGKILL)

    log = open_log(directory, step)
    watch(step)
    for number, operation in enumerate(operations(seed), 1):
        operation(log)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
