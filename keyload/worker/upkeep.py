"""What a worker does for its files beside commands and reads: checkpoints, a log that stays short, snapshots
for and from other nodes, and images for backups (STO-17, CLU-15, BKP-3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from keyload.link.launch import WorkerLaunch
from keyload.link.messages import PeerToPeer, Snapshot, SnapshotChunk, SnapshotOffer, SnapshotWant
from keyload.storage import SnapshotManifest, Store, Wal, finish_install, install
from keyload.storage.hooks import Step
from keyload.worker.checkpoints import Checkpoints
from keyload.worker.images import ImageDesk
from keyload.worker.shard import Shard
from keyload.worker.snapshot_receiver import SnapshotReceiver
from keyload.worker.snapshot_sender import SnapshotSender
from keyload.worker.space import Space


class Upkeep:
    """Checkpoints and snapshots of one worker.

    `release` lets go of everything that reads a shard's files, `replaced` is told that they are new ones.
    """

    def __init__(
        self,
        launch: WorkerLaunch,
        wal: Wal,
        shards: Mapping[int, Shard],
        *,
        now: float,
        space: Space,
        images: ImageDesk,
        send: Callable[[int, PeerToPeer], None],
        release: Callable[[Shard], None],
        replaced: Callable[[Shard], None],
        step: Step,
    ) -> None:
        self._launch = launch
        self._wal = wal
        self._images = images
        self._release = release
        self._replaced = replaced
        self._step = step
        self._checkpoints = Checkpoints(wal, shards, launch.storage, now=now, retained=self._retained)
        self._sender = SnapshotSender(
            shards,
            incarnation=launch.incarnation,
            directory=self._directory,
            has_room=space.has_room,
            send=send,
            step=step,
        )
        self._receiver = SnapshotReceiver(
            shards,
            incarnation=launch.incarnation,
            directory=self._directory,
            has_room=space.has_room,
            send=send,
            install=self._install,
            step=step,
        )

    def tick(self, now: float) -> None:
        """Do what is due; raises what stops the worker (STO-11)."""
        self._checkpoints.tick(now)
        self._sender.tick(now)
        self._receiver.tick(now)
        self._images.tick()

    def arrived(self, number: int, message: Snapshot, now: float) -> None:
        """A message about a snapshot from another node."""
        match message:
            case SnapshotOffer():
                self._receiver.offered(number, message, now)
            case SnapshotWant():
                self._sender.wanted(number, message)
            case SnapshotChunk():
                self._receiver.arrived(message, now)

    def close(self) -> None:
        """Wait for the threads; afterwards the stores may be closed."""
        self._sender.close()
        self._receiver.close()
        self._checkpoints.close()
        self._images.close()

    def _directory(self, shard: int) -> Path:
        return Path(self._launch.directory) / f"worker-{self._launch.worker}" / f"shard-{shard}"

    def _retained(self, shard: Shard) -> int | None:
        """First log entry that the followers of a shard led here still need."""
        if not shard.leads:
            return None
        statuses = [shard.raft.peer_status(member) for member in shard.raft.membership.members]
        wanted = [status.match + 1 for status in statuses if status is not None]
        image = self._sender.retained(shard.number)
        return min(wanted if image is None else [*wanted, image], default=None)

    def _install(self, shard: Shard, manifest: SnapshotManifest) -> bool:
        """Replace a shard's state by the checked image in its directory; False while it is in use.

        The log must know the term of the image before it begins behind it: a worker that ends right after
        that could not start again.
        """
        in_use = any(user.busy(shard) for user in (self._checkpoints, self._images, self._sender))
        if in_use or self._wal.log(shard.number).hard_state.term < manifest.term:
            return False
        directory = self._directory(shard.number)
        self._release(shard)
        shard.store.close(durable=False)
        install(directory, self._step)
        self._wal.rebase(shard.number, manifest.index, manifest.term)
        store = Store(directory, self._launch.maximum_bytes, step=self._step)
        finish_install(directory)
        shard.restored(store)
        self._replaced(shard)
        return True
