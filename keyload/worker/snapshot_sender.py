"""The leader's side of a snapshot: take an image for followers that the log cannot serve any more, offer it, and
answer what they ask for (CLU-15, CLU-16).

The image is a compacted copy of one cut, made by a thread into the directory of the shard. It is kept, and the
log behind it with it, while a follower needs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec

from keyload.contract.errors import KeyLoadError
from keyload.link import log
from keyload.link.log import Category
from keyload.link.messages import PeerToPeer, SnapshotChunk, SnapshotOffer, SnapshotWant
from keyload.storage import CHUNK_BYTES, SnapshotManifest, remove_snapshot, snapshot_image, take_snapshot
from keyload.worker.shard import Shard

OFFER_SECONDS = 1.0
IDLE_SECONDS = 30.0
"""An image that no follower needs is kept so long, for one that falls behind again."""

SendPeer = Callable[[int, PeerToPeer], None]


class _Image:
    """An image that followers may fetch."""

    def __init__(self, manifest: SnapshotManifest, descriptor: int, now: float) -> None:
        self.manifest = manifest
        self.descriptor = descriptor
        self.needed_at = now
        self.offered_at = 0.0


class SnapshotSender:
    """Serves the snapshots of the shards that this worker leads."""

    def __init__(
        self,
        shards: Mapping[int, Shard],
        *,
        incarnation: str,
        directory: Callable[[int], Path],
        send: SendPeer,
        step: Callable[[str], None],
    ) -> None:
        self._shards = shards
        self._incarnation = incarnation
        self._directory = directory
        self._send = send
        self._step = step
        self._images: dict[int, _Image] = {}
        self._taking: tuple[Shard, Future[SnapshotManifest]] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="snapshot")

    def tick(self, now: float) -> None:
        """Take, offer and drop images as the followers need."""
        if self._taking is not None and self._taking[1].done():
            self._taken(now)
        for shard in self._shards.values():
            lagging = shard.raft.lagging() if shard.leads else []
            image = self._images.get(shard.number)
            if image is not None and self._outdated(shard, image, lagging, now):
                self._drop(shard.number)
                image = None
            if not lagging:
                continue
            if image is None:
                self._take(shard)
            else:
                image.needed_at = now
                self._offer(shard, image, lagging, now)

    def _outdated(self, shard: Shard, image: _Image, lagging: list[int], now: float) -> bool:
        """Whether the log no longer reaches back to the image, or nobody needs it."""
        if not shard.leads or image.manifest.index + 1 < shard.raft.first_index:
            return True
        return not lagging and now - image.needed_at > IDLE_SECONDS

    def _take(self, shard: Shard) -> None:
        if self._taking is None:
            cut = shard.store.cut()
            directory = self._directory(shard.number)
            taken = self._thread.submit(
                take_snapshot,
                cut,
                directory,
                incarnation=self._incarnation,
                shard=shard.number,
                step=self._step,
            )
            self._taking = (shard, taken)

    def _taken(self, now: float) -> None:
        """Hold the finished image ready; a failed one is tried again with the next offer."""
        assert self._taking is not None
        (shard, taken), self._taking = self._taking, None
        try:
            manifest = taken.result()
            descriptor = os.open(snapshot_image(self._directory(shard.number)), os.O_RDONLY | os.O_CLOEXEC)
        except (KeyLoadError, OSError):
            log.event(Category.SNAPSHOT_FAILED, shard=shard.number)
            return
        log.event(Category.SNAPSHOT_TAKEN, shard=shard.number, index=manifest.index, bytes=manifest.bytes)
        self._images[shard.number] = _Image(manifest, descriptor, now)

    def _offer(self, shard: Shard, image: _Image, lagging: list[int], now: float) -> None:
        if now - image.offered_at < OFFER_SECONDS:
            return
        image.offered_at = now
        manifest = msgspec.json.encode(image.manifest)
        for number in lagging:
            self._send(number, SnapshotOffer(shard.number, manifest))

    def wanted(self, number: int, message: SnapshotWant) -> None:
        """Send one chunk; a follower that asks for another image hears of the present one by its offer."""
        image = self._images.get(message.shard)
        if image is None or image.manifest.id != message.id or message.offset >= image.manifest.bytes:
            return
        data = os.pread(image.descriptor, CHUNK_BYTES, message.offset)
        self._send(number, SnapshotChunk(message.shard, message.id, message.offset, data))

    def retained(self, shard: int) -> int | None:
        """First log entry behind the image of a shard, which its receivers will need."""
        image = self._images.get(shard)
        return None if image is None else image.manifest.index + 1

    def _drop(self, shard: int) -> None:
        os.close(self._images.pop(shard).descriptor)
        remove_snapshot(self._directory(shard))

    def close(self) -> None:
        """Wait for the image that is being made, and remove all of them."""
        self._thread.shutdown()
        if self._taking is not None:
            remove_snapshot(self._directory(self._taking[0].number))
            self._taking = None
        for shard in list(self._images):
            self._drop(shard)
