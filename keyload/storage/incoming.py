"""A snapshot on its way from another node: written piece by piece, then checked as a whole (CLU-15,
CLU-16)."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import files, manifest
from keyload.storage.failures import as_contract
from keyload.storage.hooks import Step
from keyload.storage.manifest import (
    CHUNK_BYTES,
    INCOMING,
    INCOMING_MANIFEST,
    RECEIVED_MANIFEST,
    SnapshotManifest,
)
from keyload.storage.snapshot import SYNC_BYTES, snapshot_directory, write_all
from keyload.storage.verify import Facts, verify_image

RECEIVED = "SnapshotReceived"

MAXIMUM_AHEAD = 16
"""Pieces that may wait in memory for one before them: 4 MiB."""

_READ_BYTES = 1 << 20


class IncomingSnapshot:
    """Receives one snapshot, going on where a former attempt at the same one stopped.

    The file holds the pieces without a gap, so its length says how far it is. Errors of all calls:
    ResourceExhausted when there is no room, RecoveryRequired when files cannot be written.
    """

    def __init__(self, shard_directory: Path, wanted: SnapshotManifest) -> None:
        self.manifest = wanted
        self._sync_failed = False
        self._ahead: dict[int, bytes] = {}
        with as_contract("A snapshot could not be received."):
            self._directory = snapshot_directory(shard_directory)
            self._path = self._directory / INCOMING
            if self._is_of(RECEIVED_MANIFEST):
                (self._directory / RECEIVED_MANIFEST).replace(self._directory / INCOMING_MANIFEST)
            if not self._is_of(INCOMING_MANIFEST):
                discard_incoming(shard_directory)
                files.write_durably(self._directory / INCOMING_MANIFEST, wanted.packed())
            self._descriptor = files.open_private(self._path, os.O_RDWR | os.O_CREAT)
            length = min(os.fstat(self._descriptor).st_size, wanted.image_bytes)
            self._next = length if length == wanted.image_bytes else length - length % CHUNK_BYTES
            os.ftruncate(self._descriptor, self._next)
            os.lseek(self._descriptor, self._next, os.SEEK_SET)
        self.unsynced_bytes = self._next

    def _is_of(self, name: str) -> bool:
        """Whether a manifest left here is that of this snapshot."""
        try:
            return manifest.read_manifest(self._directory / name) == self.manifest
        except KeyLoadError:
            return False

    @property
    def received_bytes(self) -> int:
        """Bytes that are there without a gap."""
        return self._next

    @property
    def whole(self) -> bool:
        """Whether every piece is there, so that it can be completed."""
        return self._next == self.manifest.image_bytes

    @property
    def sync_due(self) -> bool:
        """Whether so much was written that `sync` should be called by a thread soon."""
        return self.unsynced_bytes >= SYNC_BYTES

    def wanted(self, limit: int) -> list[int]:
        """Offsets of the first pieces that are missing, at most `limit` and `MAXIMUM_AHEAD` of them."""
        end = min(self.manifest.image_bytes, self._next + min(limit, MAXIMUM_AHEAD) * CHUNK_BYTES)
        return [offset for offset in range(self._next, end, CHUNK_BYTES) if offset not in self._ahead]

    def write(self, offset: int, chunk: bytes) -> bool:
        """Take a piece; False when it is not one of those wanted, or has a wrong length."""
        length = min(CHUNK_BYTES, self.manifest.image_bytes - offset)
        if offset not in self.wanted(MAXIMUM_AHEAD) or len(chunk) != length:
            return False
        self._ahead[offset] = chunk
        with as_contract("A snapshot could not be received."):
            while (following := self._ahead.get(self._next)) is not None:
                write_all(self._descriptor, following)
                del self._ahead[self._next]
                self._next += len(following)
                self.unsynced_bytes += len(following)
        return True

    def sync(self) -> None:
        """Bring what was written to the disk, so that the end need not wait for all of it; for a thread.

        After a failure it cannot be completed: a later sync would not tell what is missing (STO-11).
        """
        self.unsynced_bytes = 0
        try:
            with as_contract("A snapshot could not be received."):
                os.fdatasync(self._descriptor)
        except KeyLoadError:
            self._sync_failed = True
            raise

    def complete(self, step: Step | None = None) -> None:
        """Check the whole image and note durably that it may be installed; for a thread, after all calls of
        `sync` have come to their end.

        RecoveryRequired after one of them has failed. Corruption when length, SHA-256 or content is not what
        the manifest says; nothing is left of it then.
        """
        try:
            if self._sync_failed:
                raise KeyLoadError(ErrorCode.RECOVERY_REQUIRED, "A snapshot could not be made durable.")
            with as_contract("A snapshot could not be received."):
                os.fsync(self._descriptor)
                self._check()
                (self._directory / INCOMING_MANIFEST).replace(self._directory / RECEIVED_MANIFEST)
                files.sync_directory(self._directory)
        except KeyLoadError as error:
            if error.code in (ErrorCode.CORRUPTION, ErrorCode.FORMAT_UNSUPPORTED):
                self.discard()
            raise
        finally:
            self.close()
        if step is not None:
            step(RECEIVED)

    def _check(self) -> None:
        if os.fstat(self._descriptor).st_size != self.manifest.image_bytes:
            raise manifest.damaged("A received snapshot has a wrong length.")
        digest = hashlib.sha256()
        for offset in range(0, self.manifest.image_bytes, _READ_BYTES):
            digest.update(os.pread(self._descriptor, _READ_BYTES, offset))
        if digest.hexdigest() != self.manifest.sha256:
            raise manifest.damaged("A received snapshot has a wrong SHA-256.")
        check_facts(verify_image(self._path, every_record=False), self.manifest)

    def discard(self) -> None:
        """Give it up and remove what is there."""
        self.close()
        discard_incoming(self._directory.parent)

    def close(self) -> None:
        """Close the file; what is there can be resumed. A second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def check_facts(found: Facts, expected: SnapshotManifest) -> None:
    """Corruption unless an image holds the entry and the replicas its manifest says."""
    if (found.applied, found.membership) != (expected.applied, expected.membership):
        raise manifest.damaged("A snapshot does not hold what its manifest says.")


def discard_incoming(shard_directory: Path) -> None:
    """Remove what an interrupted transfer left; RecoveryRequired when that fails."""
    with as_contract("A snapshot could not be removed."):
        directory = snapshot_directory(shard_directory)
        for name in (INCOMING_MANIFEST, RECEIVED_MANIFEST, INCOMING):
            (directory / name).unlink(missing_ok=True)
        files.sync_directory(directory)
