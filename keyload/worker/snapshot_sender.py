"""The leader's side of a snapshot: take an image for followers that the log cannot serve any more, offer it,
and answer what they ask for (CLU-15, CLU-16).

The image is a compacted copy of one cut, made by a thread into the directory of the shard. It is kept, and
the log behind it with it, while a follower needs it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from keyload.contract.errors import KeyLoadError
from keyload.link import log
from keyload.link.log import Category
from keyload.link.messages import PeerToPeer, SnapshotChunk, SnapshotOffer, SnapshotWant
from keyload.models.partitions import load_meta
from keyload.storage import Cut, OutgoingSnapshot, SnapshotManifest, discard_snapshot, take_snapshot
from keyload.storage.hooks import Step
from keyload.worker.shard import Shard

OFFER_SECONDS = 1.0
TAKE_AGAIN_SECONDS = 5.0
"""An image that could not be taken is tried again after this time."""

IDLE_SECONDS = 30.0
"""An image that no follower needs is kept so long, for one that falls behind again."""

SendPeer = Callable[[int, PeerToPeer], None]


class _Image:
    """An image that followers may fetch."""

    def __init__(self, content: OutgoingSnapshot, now: float) -> None:
        self.content = content
        self.manifest = content.manifest
        self.packed = content.manifest.packed()
        self.needed_at = now
        self.offered_at = 0.0


class _Taking(NamedTuple):
    """The image that a thread makes."""

    shard: Shard
    cut: Cut
    done: Future[SnapshotManifest]


class SnapshotSender:
    """Serves the snapshots of the shards that this worker leads."""

    def __init__(
        self,
        shards: Mapping[int, Shard],
        *,
        incarnation: str,
        directory: Callable[[int], Path],
        has_room: Callable[[int], bool],
        send: SendPeer,
        step: Step,
    ) -> None:
        self._shards = shards
        self._incarnation = incarnation
        self._directory = directory
        self._has_room = has_room
        self._send = send
        self._step = step
        self._images: dict[int, _Image] = {}
        self._taking: _Taking | None = None
        self._next_try = dict.fromkeys(shards, 0.0)
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="snapshot")

    def tick(self, now: float) -> None:
        """Take, offer and drop images as the followers need."""
        if self._taking is not None and self._taking.done.done():
            self._taken(self._taking, now)
        for shard in self._shards.values():
            lagging = shard.raft.lagging() if shard.leads else []
            image = self._images.get(shard.number)
            if image is not None and self._outdated(shard, image, lagging, now):
                self._drop(shard.number)
                image = None
            if not lagging:
                continue
            if image is None:
                self._take(shard, now)
            else:
                image.needed_at = now
                self._offer(shard, image, lagging, now)

    def _outdated(self, shard: Shard, image: _Image, lagging: list[int], now: float) -> bool:
        """Whether the log no longer reaches back to the image, or nobody needs it."""
        if not shard.leads or image.manifest.index + 1 < shard.raft.first_index:
            return True
        return not lagging and now - image.needed_at > IDLE_SECONDS

    def _take(self, shard: Shard, now: float) -> None:
        """Begin an image of the present state, one at a time, and only where it leaves the reserve of the
        disk alone (STO-12)."""
        if self._taking is not None or now < self._next_try[shard.number]:
            return
        self._next_try[shard.number] = now + TAKE_AGAIN_SECONDS
        if not self._has_room(shard.store.used_bytes):
            log.event(Category.SNAPSHOT_NO_ROOM, shard=shard.number)
            return
        try:
            cut = shard.store.cut()
        except KeyLoadError as error:
            log.event(Category.SNAPSHOT_FAILED, shard=shard.number, code=error.code)
            return
        done = self._thread.submit(
            take_snapshot,
            cut,
            self._directory(shard.number),
            incarnation=self._incarnation,
            shard=shard.number,
            position=load_meta(cut.reader).position,
            stop=self._stop,
            step=self._step,
        )
        self._taking = _Taking(shard, cut, done)

    def _taken(self, taking: _Taking, now: float) -> None:
        """Hold the finished image ready; one that failed is tried again as long as it is needed."""
        self._taking = None
        taking.cut.close()
        shard = taking.shard.number
        try:
            manifest = taking.done.result()
            self._images[shard] = _Image(OutgoingSnapshot(self._directory(shard)), now)
        except KeyLoadError as error:
            log.event(Category.SNAPSHOT_FAILED, shard=shard, code=error.code)
        else:
            log.event(Category.SNAPSHOT_TAKEN, shard=shard, index=manifest.index, bytes=manifest.image_bytes)

    def _offer(self, shard: Shard, image: _Image, lagging: list[int], now: float) -> None:
        if now - image.offered_at < OFFER_SECONDS:
            return
        image.offered_at = now
        for number in lagging:
            self._send(number, SnapshotOffer(shard.number, image.packed))

    def wanted(self, number: int, message: SnapshotWant) -> None:
        """Send one chunk; a follower that asks for another image hears of the present one by its offer."""
        image = self._images.get(message.shard)
        if image is None or image.manifest.id != message.id:
            return
        if 0 <= message.offset < image.manifest.image_bytes:
            try:
                data = image.content.chunk(message.offset)
            except KeyLoadError as error:  # another image may be readable; this leader goes on
                log.event(Category.SNAPSHOT_FAILED, shard=message.shard, code=error.code)
                self._drop(message.shard)
                return
            self._send(number, SnapshotChunk(message.shard, message.id, message.offset, data))

    def retained(self, shard: int) -> int | None:
        """First log entry behind the image of a shard, which its receivers will need."""
        image = self._images.get(shard)
        return None if image is None else image.manifest.index + 1

    def busy(self, shard: Shard) -> bool:
        """Whether an image of `shard` is being taken, as by a leader that has been deposed meanwhile; its
        store must not be closed before that has come to its end."""
        return self._taking is not None and self._taking.shard is shard

    def _drop(self, shard: int) -> None:
        self._images.pop(shard).content.close()
        try:
            discard_snapshot(self._directory(shard))
        except KeyLoadError as error:  # the next image takes its place
            log.event(Category.SNAPSHOT_FAILED, shard=shard, code=error.code)

    def close(self) -> None:
        """Give up the image that is being made, and remove all others."""
        self._stop.set()
        self._thread.shutdown()
        if self._taking is not None:
            self._taking.cut.close()
            self._taking = None
        for shard in list(self._images):
            self._drop(shard)
