"""Room on the disk: whether new writes may be taken (STO-12, STO-19).

A leader takes none below `minimumFreeBytes`. A follower goes on below it, because what a leader with room has
promised its callers needs a majority; below half of it a follower takes no entries with content either, and
so acknowledges none. What is left is for applying, for checkpoints and for elections.

Looked at once a second, for what a worker writes in that time is little against the reserve.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

import msgspec

from keyload.consensus import Message
from keyload.worker.shard import Shard

LOOK_SECONDS = 1.0


class Space:
    """Knows which shards take no new writes: all while less than `minimum_free` bytes of the file system of
    `directory` are free, one whose state has reached its size.
    """

    def __init__(self, directory: Path, minimum_free: int, shards: Mapping[int, Shard]) -> None:
        self._directory = directory
        self._minimum_free = minimum_free
        self._shards = shards
        self._next_look = 0.0
        self._full: set[int] = set()
        self.low = False
        """Whether less than the reserve is free."""
        self.critical = False
        """Whether less than half the reserve is free."""

    def tick(self, now: float) -> None:
        """Look again when it is time."""
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        free = free_bytes(self._directory)
        self.low = free < self._minimum_free
        self.critical = free < self._minimum_free // 2
        self._full = {number for number, shard in self._shards.items() if self.low or shard.store.full}

    def has_room(self, size: int) -> bool:
        """Whether `size` more bytes leave the reserve untouched."""
        return free_bytes(self._directory) >= self._minimum_free + size

    def full(self, shard: int) -> bool:
        """Whether new writes of a shard are to be refused."""
        return shard in self._full

    def admitted(self, message: Message) -> Message:
        """A message of consensus as it may be taken now: without room, an append up to its first entry with
        content. That is a valid append, which acknowledges no more than it brings.
        """
        if not self.critical or not message.entries:
            return message
        kept = tuple(takewhile(lambda entry: not entry.data, message.entries))
        return msgspec.structs.replace(message, entries=kept)


def free_bytes(directory: Path) -> int:
    """Bytes that are free for this user in the file system of a directory."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize
