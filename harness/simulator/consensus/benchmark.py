"""What consensus itself costs: three replicas in one process, no disk, no network, no wire form."""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random

from harness.simulator.disk import Disk
from keyload.consensus import Config, Entry, HardState, Membership, Raft


class Memory(Disk):
    """A disk that is never behind."""

    def write(self, hard_state: HardState | None, entries: Sequence[Entry]) -> None:
        if entries:
            if entries[0].index <= len(self.log):
                del self.log[entries[0].index - 1 :]
            self.log += entries


def microseconds_per_batch(batches: int, size: int = 128) -> float:
    """The mean processor time of a proposal of `size` bytes, from `propose` until the leader has it applied,
    for all three nodes together."""
    disks = {number: Memory() for number in (1, 2, 3)}
    membership = Membership((1, 2, 3))
    nodes = {
        number: Raft(Config(id=number, rng=Random(number)), disk, HardState(joined=True), 0, membership)
        for number, disk in disks.items()
    }
    leader = nodes[1]
    leader.campaign()
    _settle(nodes, disks)
    data = bytes(size)
    start = time.process_time()
    for _ in range(batches):
        leader.propose(data)
        _settle(nodes, disks)
    elapsed = time.process_time() - start
    assert leader.commit == batches + 1
    return elapsed / batches * 1e6


def _settle(nodes: dict[int, Raft], disks: dict[int, Memory]) -> None:
    busy = set(nodes)
    while busy:
        number = busy.pop()
        node = nodes[number]
        while node.has_ready():
            ready = node.ready()
            for message in ready.messages:
                nodes[message.to].step(message)
                busy.add(message.to)
            if ready.entries:
                disks[number].write(ready.hard_state, ready.entries)
            for message in ready.messages_after_sync:
                nodes[message.to].step(message)
                busy.add(message.to)
            node.advance(ready)


if __name__ == "__main__":
    print(f"{microseconds_per_batch(50_000):.1f} us per batch, three nodes together")
