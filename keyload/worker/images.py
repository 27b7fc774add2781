"""Images of shards for a backup: one at a time, cut in the loop, written by a thread (BKP-2, BKP-3)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec

from keyload.backup.manifest import FileEntry, ShardImage, image_name
from keyload.backup.shelf import SHELF
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.link import log
from keyload.link.log import Category
from keyload.link.messages import BackupShard, Refusal, Reply, WorkerToFront
from keyload.models.partitions import load_meta
from keyload.storage import Cut, write_image
from keyload.storage.failures import as_contract
from keyload.worker import answers
from keyload.worker.shard import Shard

MAX_WAITING = 4096
"""Images that may be asked for at once, far more than one backup asks a worker for."""


class _Running(NamedTuple):
    """The image that the thread writes."""

    shard: Shard
    message: BackupShard
    cut: Cut
    image: Future[ShardImage]


class ImageDesk:
    """Takes images for the backups of a node in `node`, its directory, where `has_room` says that so many
    bytes leave the reserve of the disk alone (STO-12)."""

    def __init__(
        self, node: Path, send_front: Callable[[WorkerToFront], None], has_room: Callable[[int], bool]
    ) -> None:
        self._shelf = node / SHELF
        self._send_front = send_front
        self._has_room = has_room
        self._waiting: deque[tuple[Shard, BackupShard]] = deque()
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(1, "backup-image")
        self._running: _Running | None = None

    def ask(self, shard: Shard, message: BackupShard) -> None:
        """Take an image of the shard as it is from now on; its barrier has passed."""
        if len(self._waiting) >= MAX_WAITING:
            self._refuse(message, KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, "Too many images wait."))
        else:
            self._waiting.append((shard, message))
            self.tick()

    def tick(self) -> None:
        """Answer for the image that is finished, and begin the next one."""
        if self._running is not None:
            running = self._running
            if not running.image.done():
                return
            self._running = None
            running.cut.close()
            self._answer(running.message, running.image)
        if self._waiting and not self._stop.is_set():
            self._begin(*self._waiting.popleft())

    def busy(self, shard: Shard) -> bool:
        """Whether an image of `shard` is being written; its store must not be closed meanwhile."""
        return self._running is not None and self._running.shard is shard

    def close(self) -> None:
        """Give up what is under way, so that the stores can be closed."""
        self._stop.set()
        self._thread.shutdown()
        self.tick()

    def _begin(self, shard: Shard, message: BackupShard) -> None:
        try:
            if not self._has_room(shard.store.used_bytes):
                raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, "The disk has no room for a backup.")
            cut = shard.store.cut()
        except KeyLoadError as error:
            self._refuse(message, error)
            return
        position = load_meta(cut.reader).position
        path = self._shelf / message.backup / image_name(shard.number)
        future = self._thread.submit(self._write, cut, path, shard.number, position)
        self._running = _Running(shard, message, cut, future)

    def _write(self, cut: Cut, path: Path, shard: int, position: int) -> ShardImage:
        with as_contract("The image of a shard could not be written."):
            image = write_image(cut, path, self._stop)
        return ShardImage(
            shard=shard,
            index=cut.position.index,
            term=cut.position.term,
            position=position,
            file=FileEntry(name=path.name, bytes=image.image_bytes, sha256=image.sha256),
        )

    def _answer(self, message: BackupShard, future: Future[ShardImage]) -> None:
        failure = future.exception()
        if failure is None:
            self._send_front(Reply(message.call, msgspec.json.encode(future.result())))
        elif isinstance(failure, KeyLoadError):
            self._refuse(message, failure)
        else:
            log.failure(Category.REQUEST_FAILED, failure)
            self._refuse(message, KeyLoadError(ErrorCode.RECOVERY_REQUIRED, "The image could not be made."))

    def _refuse(self, message: BackupShard, error: KeyLoadError) -> None:
        self._send_front(Refusal(message.call, answers.refusal(error).payload))
