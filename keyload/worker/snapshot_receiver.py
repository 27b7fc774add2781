"""The follower's side of a snapshot: fetch an offered image chunk by chunk, check it, and replace the shard's
state by it (CLU-15).

The receiver asks for every chunk, so it decides how fast they come; after a break it goes on with what is
missing. The old state stays until the whole image has been checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from keyload.contract.errors import KeyLoadError
from keyload.link import log
from keyload.link.log import Category
from keyload.link.messages import PeerToPeer, SnapshotChunk, SnapshotOffer, SnapshotWant
from keyload.storage import IncomingSnapshot, SnapshotManifest, unpack_manifest
from keyload.storage.hooks import Step
from keyload.worker.shard import Shard

WINDOW = 4
"""Chunks asked for and not yet arrived."""

ASK_AGAIN_SECONDS = 1.0

SendPeer = Callable[[int, PeerToPeer], None]
Install = Callable[[Shard, SnapshotManifest], bool]
"""Replaces the state of a shard by the image in its directory; False when that has to wait."""


class _Transfer:
    """One image on its way."""

    def __init__(self, source: int, manifest: SnapshotManifest, incoming: IncomingSnapshot) -> None:
        self.source = source
        self.manifest = manifest
        self.incoming = incoming
        self.asked: dict[int, float] = {}
        self.synced: Future[None] | None = None
        self.checked: Future[None] | None = None


class SnapshotReceiver:
    """Receives the snapshots of the shards of this worker."""

    def __init__(
        self,
        shards: Mapping[int, Shard],
        *,
        incarnation: str,
        directory: Callable[[int], Path],
        has_room: Callable[[int], bool],
        send: SendPeer,
        install: Install,
        step: Step,
    ) -> None:
        self._shards = shards
        self._incarnation = incarnation
        self._directory = directory
        self._has_room = has_room
        self._send = send
        self._install = install
        self._step = step
        self._transfers: dict[int, _Transfer] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="snapshot-check")

    def offered(self, number: int, message: SnapshotOffer, now: float) -> None:
        """The leader of a shard has an image: begin to fetch it, or go on."""
        shard = self._shards.get(message.shard)
        if shard is None or shard.raft.leader != number:
            return
        try:
            manifest = unpack_manifest(message.manifest)
        except KeyLoadError:
            log.event(Category.PEER_MESSAGE_MALFORMED)
            return
        transfer = self._transfers.get(shard.number)
        if transfer is not None and (transfer.checked is not None or transfer.manifest == manifest):
            transfer.source = number
        elif self._acceptable(shard, manifest):
            self._begin(shard, number, manifest)
        self._ask(shard.number, now)

    def _acceptable(self, shard: Shard, manifest: SnapshotManifest) -> bool:
        """Whether the image is one of this shard, ahead of what is applied here, and fits the disk."""
        if manifest.incarnation != self._incarnation or manifest.shard != shard.number:
            log.event(Category.SNAPSHOT_REFUSED, shard=shard.number)
            return False
        if not self._has_room(manifest.image_bytes):
            log.event(Category.SNAPSHOT_NO_ROOM, shard=shard.number)
            return False
        return manifest.index > shard.store.applied.index

    def _begin(self, shard: Shard, number: int, manifest: SnapshotManifest) -> None:
        self._discard(shard.number)
        try:
            incoming = IncomingSnapshot(self._directory(shard.number), manifest)
        except KeyLoadError as error:
            log.event(Category.SNAPSHOT_FAILED, shard=shard.number, code=error.code)
            return
        log.event(
            Category.SNAPSHOT_BEGUN, shard=shard.number, index=manifest.index, bytes=manifest.image_bytes
        )
        transfer = self._transfers[shard.number] = _Transfer(number, manifest, incoming)
        self._check_when_whole(transfer)

    def _ask(self, shard: int, now: float) -> None:
        """Keep the window full."""
        transfer = self._transfers.get(shard)
        if transfer is None or transfer.checked is not None:
            return
        for offset in transfer.incoming.wanted(WINDOW):
            if now - transfer.asked.get(offset, -ASK_AGAIN_SECONDS) >= ASK_AGAIN_SECONDS:
                transfer.asked[offset] = now
                self._send(transfer.source, SnapshotWant(shard, transfer.manifest.id, offset))

    def arrived(self, message: SnapshotChunk, now: float) -> None:
        """Keep a chunk that was asked for; the last one begins the check of the whole."""
        transfer = self._transfers.get(message.shard)
        if transfer is None or transfer.manifest.id != message.id or transfer.checked is not None:
            return
        if transfer.asked.pop(message.offset, None) is None:
            return
        try:
            transfer.incoming.write(message.offset, message.data)
        except KeyLoadError as error:
            self._fail(message.shard, error)
            return
        self._check_when_whole(transfer)
        self._ask(message.shard, now)

    def _check_when_whole(self, transfer: _Transfer) -> None:
        """Let a thread check the whole image, and before that sync what has arrived now and then."""
        incoming = transfer.incoming
        if incoming.whole:
            transfer.checked = self._thread.submit(incoming.complete, self._step)
        elif incoming.sync_due and (transfer.synced is None or transfer.synced.done()):
            transfer.synced = self._thread.submit(incoming.sync)

    def tick(self, now: float) -> None:
        """Ask again for what stays out, and install what has been checked."""
        for number, transfer in list(self._transfers.items()):
            shard = self._shards[number]
            if transfer.checked is None:
                self._ask(number, now)
            elif transfer.checked.done():
                self._checked(shard, transfer, transfer.checked)

    def _checked(self, shard: Shard, transfer: _Transfer, checked: Future[None]) -> None:
        error = checked.exception()
        if error is not None:
            self._fail(shard.number, error)
        elif shard.leads or transfer.manifest.index <= shard.store.applied.index:
            self._discard(shard.number)  # the log was faster
        elif self._install(shard, transfer.manifest):
            del self._transfers[shard.number]
            log.event(Category.SNAPSHOT_INSTALLED, shard=shard.number, index=transfer.manifest.index)

    def _fail(self, shard: int, error: BaseException) -> None:
        """Give a transfer up; the next offer begins it again. What is no failure of files is a defect."""
        if not isinstance(error, KeyLoadError):
            raise error
        log.event(Category.SNAPSHOT_FAILED, shard=shard, code=error.code)
        self._discard(shard)

    def _discard(self, shard: int) -> None:
        transfer = self._transfers.pop(shard, None)
        if transfer is None:
            return
        if transfer.synced is not None:
            transfer.synced.exception()  # the file stays open until its sync is over
        try:
            transfer.incoming.discard()
        except KeyLoadError as error:  # the next transfer takes its place
            log.event(Category.SNAPSHOT_FAILED, shard=shard, code=error.code)

    def close(self) -> None:
        """End; what has arrived is kept for the next start."""
        self._thread.shutdown()
        for transfer in self._transfers.values():
            transfer.incoming.close()
        self._transfers.clear()
