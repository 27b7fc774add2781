"""A process that writes turns and kills itself at a given step; it prints the number of each turn it may acknowledge.

Arguments: the directory, the seed of the turns, the step to be killed at.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

from keyload.consensus.messages import Entry, HardState
from keyload.storage import ShardWrite
from tests.unit.storage.log_model import open_log


def turns(seed: int) -> list[list[ShardWrite]]:
    """Turns of three shards, some with conflicts, always the same for a seed."""
    chance = random.Random(seed)  # noqa: S311 - a fixed sequence of turns
    last = {1: 0, 2: 0, 3: 0}
    result: list[list[ShardWrite]] = []
    for term in range(1, 41):
        turn: list[ShardWrite] = []
        for shard in chance.sample([1, 2, 3], chance.randint(1, 3)):
            first = max(1, last[shard] + 1 - chance.choice([0, 0, 0, 2]))
            count = chance.randint(0, 3)
            entries = [Entry(term, first + n, chance.randbytes(chance.randint(0, 300))) for n in range(count)]
            if count:
                last[shard] = first + count - 1
            turn.append((shard, HardState(term, shard, 0), entries))
        result.append(turn)
    return result


def main(directory: Path, seed: int, fatal_step: int) -> None:
    """Write until killed."""
    steps = iter(range(1, fatal_step + 1))

    def step(_: str) -> None:
        if next(steps) == fatal_step:
            os.kill(os.getpid(), signal.SIGKILL)

    log = open_log(directory, step)
    for number, turn in enumerate(turns(seed), 1):
        log.write(turn)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
