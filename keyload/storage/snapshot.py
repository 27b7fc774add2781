"""Snapshots of a shard: taken beside running writes, and read in pieces to be sent (CLU-15, CLU-16).

An image is a compacted copy of one cut. A backup holds the same images.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import files, manifest
from keyload.storage.failures import as_contract
from keyload.storage.hooks import Step
from keyload.storage.manifest import CHUNK_BYTES, IMAGE, MANIFEST, SNAPSHOT_DIRECTORY, SnapshotManifest
from keyload.storage.store import Cut

TAKEN = "SnapshotTaken"

SYNC_BYTES = 8 << 20
"""A long file is synced this often while it is written, so that the log never waits for all of it at once."""

_PIPE_BYTES = 1 << 20
_TAKING = "taking"


class Image(NamedTuple):
    """Length and SHA-256 (hex digits) of a state image."""

    image_bytes: int
    sha256: str


def take_snapshot(
    cut: Cut,
    shard_directory: Path,
    *,
    incarnation: str,
    shard: int,
    position: int,
    stop: threading.Event | None = None,
    step: Step | None = None,
) -> SnapshotManifest:
    """Write a cut to the shard's `snapshot` directory in place of the snapshot there; for a thread.

    `position` is the shard's commit position in the cut. The cut is left open. ResourceExhausted when there
    is no room, RecoveryRequired when files cannot be written or `stop` was set, Corruption for a damaged
    state; the snapshot before stays then.
    """
    directory = snapshot_directory(shard_directory)
    with as_contract("A snapshot could not be written."):
        image = write_image(cut, directory / _TAKING, stop)
        taken = SnapshotManifest(
            manifest.FORMAT,
            incarnation,
            shard,
            cut.position.index,
            cut.position.term,
            position,
            cut.membership,
            *image,
        ).named()
        _publish(directory, taken)
    if step is not None:
        step(TAKEN)
    return taken


def write_image(cut: Cut, path: Path, stop: threading.Event | None = None) -> Image:
    """Write a cut to a file of its own, durably but for its name; for a thread.

    Memory stays below 2 MiB. Errors as `take_snapshot`, and OSError; nothing is left of the file then.
    """
    source, sink = os.pipe()
    failures: list[KeyLoadError] = []
    copier = threading.Thread(target=_copy, args=(cut, sink, failures), name="snapshot-copy")
    copier.start()
    try:
        try:
            image = _drain(source, path, stop)
        finally:
            os.close(source)
            copier.join()
        if failures:
            raise failures[0]
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return image


def _copy(cut: Cut, sink: int, failures: list[KeyLoadError]) -> None:
    try:
        cut.copy(sink)
    except KeyLoadError as error:
        failures.append(error)
    finally:
        os.close(sink)


def _drain(source: int, path: Path, stop: threading.Event | None) -> Image:
    """Everything a pipe brings, in a new file."""
    with suppress(OSError):  # a smaller pipe does as well
        fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    digest = hashlib.sha256()
    length = unsynced = 0
    descriptor = files.open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        while part := os.read(source, _PIPE_BYTES):
            if stop is not None and stop.is_set():
                raise KeyLoadError(ErrorCode.RECOVERY_REQUIRED, "A snapshot was given up.")
            write_all(descriptor, part)
            digest.update(part)
            length += len(part)
            unsynced += len(part)
            if unsynced >= SYNC_BYTES:
                os.fdatasync(descriptor)
                unsynced = 0
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return Image(length, digest.hexdigest())


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of `content` at the descriptor's place."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _publish(directory: Path, taken: SnapshotManifest) -> None:
    """Give a synced image and its manifest their names; a stop in between leaves no snapshot at all."""
    (directory / MANIFEST).unlink(missing_ok=True)
    files.sync_directory(directory)
    (directory / _TAKING).replace(directory / IMAGE)
    files.write_durably(directory / MANIFEST, taken.packed())


def snapshot_directory(shard_directory: Path) -> Path:
    """The directory of a shard's snapshots, made when it is missing."""
    directory = shard_directory / SNAPSHOT_DIRECTORY
    files.private_directory(directory)
    return directory


def stored_snapshot(shard_directory: Path) -> SnapshotManifest | None:
    """The complete snapshot a shard has, None when it has none. Corruption and FormatUnsupported for a
    damaged manifest or an image of another length."""
    directory = shard_directory / SNAPSHOT_DIRECTORY
    found = manifest.read_manifest(directory / MANIFEST)
    if found is None:
        return None
    image = directory / IMAGE
    if not image.exists() or image.stat().st_size != found.image_bytes:
        raise manifest.damaged("The image of a snapshot is missing or has another length.")
    return found


def discard_snapshot(shard_directory: Path) -> None:
    """Remove the snapshot taken here and what an interrupted taking left; one that is being sent stays
    readable. RecoveryRequired when that fails."""
    with as_contract("A snapshot could not be removed."):
        directory = snapshot_directory(shard_directory)
        for name in (MANIFEST, IMAGE, _TAKING):
            (directory / name).unlink(missing_ok=True)
        files.sync_directory(directory)


class OutgoingSnapshot:
    """A snapshot being sent; it stays readable when another one takes its place. `manifest` says which.

    Raises as `stored_snapshot`, and ValueError when there is none.
    """

    def __init__(self, shard_directory: Path) -> None:
        found = stored_snapshot(shard_directory)
        if found is None:
            raise ValueError("there is no snapshot to be sent")
        self.manifest = found
        self._descriptor = files.open_private(shard_directory / SNAPSHOT_DIRECTORY / IMAGE, os.O_RDONLY)

    def chunk(self, offset: int) -> bytes:
        """At most `CHUNK_BYTES` at an offset, empty behind the end; RecoveryRequired when they cannot be
        read."""
        with as_contract("A snapshot could not be read."):
            return os.pread(self._descriptor, CHUNK_BYTES, offset)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
