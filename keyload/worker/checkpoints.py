"""Checkpoints beside the loop, and the log that they make superfluous (STO-17).

One thread makes the state of one shard after the other durable. The loop only pins a tree before it and lets
go of the former one afterwards; then the log forgets what neither a shard's checkpoint nor a follower needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.link import log
from keyload.link.launch import StorageTimes
from keyload.link.log import Category
from keyload.storage import Checkpoint, ShardLog, Wal
from keyload.worker.shard import Shard

Retained = Callable[[Shard], int | None]
"""The first entry of a shard that something else than its checkpoint needs, None when nothing does."""


class _Running(NamedTuple):
    """The checkpoint that is being made."""

    shard: Shard
    checkpoint: Checkpoint
    done: Future[None]


class Checkpoints:
    """Makes checkpoints of a worker's shards and trims its log."""

    def __init__(
        self, wal: Wal, shards: Mapping[int, Shard], times: StorageTimes, *, now: float, retained: Retained
    ) -> None:
        self._wal = wal
        self._shards = shards
        self._times = times
        self._retained = retained
        self._made = dict.fromkeys(shards, now)
        self._running: _Running | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")

    def tick(self, now: float) -> None:
        """Take over the finished checkpoint and begin the next one that is due.

        Without room for one it is tried again later. Raises what else made it fail: a failed sync stops the
        worker (STO-11).
        """
        if self._running is not None and self._running.done.done():
            self._finish(now)
        if self._running is None:
            shard = next((shard for shard in self._shards.values() if self._due(shard, now)), None)
            if shard is not None:
                self._begin(shard, now)

    def _begin(self, shard: Shard, now: float) -> None:
        try:
            checkpoint = shard.store.begin_checkpoint()
        except KeyLoadError as error:
            self._failed(shard, error, now)
            return
        self._running = _Running(shard, checkpoint, self._thread.submit(checkpoint.complete))

    def _finish(self, now: float) -> None:
        assert self._running is not None
        shard, checkpoint, done = self._running
        self._running = None
        error = done.exception()
        if error is not None:
            self._failed(shard, error, now)
            return
        self._made[shard.number] = now
        shard.store.adopt(checkpoint)
        self.trim()

    def _failed(self, shard: Shard, error: BaseException, now: float) -> None:
        if not isinstance(error, KeyLoadError) or error.code is not ErrorCode.RESOURCE_EXHAUSTED:
            raise error
        self._made[shard.number] = now
        log.event(Category.CHECKPOINT_NO_ROOM, shard=shard.number)

    def _due(self, shard: Shard, now: float) -> bool:
        """Whether enough time or log has passed since the last checkpoint, and anything has changed."""
        store = shard.store
        if store.applied == store.durable:
            return False
        if now - self._made[shard.number] >= self._times.checkpoint_ms / 1000:
            return True
        return self._log(shard).bytes_from(store.durable.index + 1) >= self._times.checkpoint_log_bytes

    def _log(self, shard: Shard) -> ShardLog:
        return self._wal.log(shard.number)

    def trim(self) -> None:
        """Drop the log before the oldest checkpoint and the slowest follower's need."""
        self._wal.trim({number: self._needed(shard) for number, shard in self._shards.items()})

    def _needed(self, shard: Shard) -> int:
        """First entry that a restart or, within the bound for it, somebody else needs."""
        covered = shard.store.durable.index + 1
        wanted = self._retained(shard)
        if wanted is None or wanted >= covered:
            return covered
        return wanted if self._log(shard).bytes_from(wanted) <= self._times.retained_log_bytes else covered

    def busy(self, shard: Shard) -> bool:
        """Whether a checkpoint of `shard` is being made; its store must not be closed meanwhile."""
        return self._running is not None and self._running.shard is shard

    def close(self) -> None:
        """Finish the running checkpoint; afterwards the stores may be closed."""
        self._thread.shutdown()
