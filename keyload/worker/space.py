"""Room on the disk: whether new writes may be taken (STO-12, STO-19).

Looked at once a second, for what a worker writes in that time is little against the reserve.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

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

    def tick(self, now: float) -> None:
        """Look again when it is time."""
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        disk = os.statvfs(self._directory)
        low = disk.f_bavail * disk.f_frsize < self._minimum_free
        self._full = {number for number, shard in self._shards.items() if low or shard.store.full}

    def has_room(self, size: int) -> bool:
        """Whether `size` more bytes leave the reserve untouched."""
        disk = os.statvfs(self._directory)
        return disk.f_bavail * disk.f_frsize >= self._minimum_free + size

    def full(self, shard: int) -> bool:
        """Whether new writes of a shard are to be refused."""
        return shard in self._full
