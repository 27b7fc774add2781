"""A received snapshot takes the place of a shard's state, whatever stops in between (CLU-15, CLU-17).

The order: the manifest becomes the durable marker; the old checkpoint goes, for it belongs to the old pages;
the image is moved into the place of the state. While the marker is there, a start does the rest before it
opens the store. The caller then opens the store, which writes a checkpoint, rebases the log, and finishes.
"""

from __future__ import annotations

from pathlib import Path

from keyload.storage import checkpoint, files, generation, layout, manifest
from keyload.storage.failures import as_contract
from keyload.storage.hooks import Step, unwatched
from keyload.storage.manifest import (
    INCOMING,
    INSTALLING_MANIFEST,
    RECEIVED_MANIFEST,
    SNAPSHOT_DIRECTORY,
    SnapshotManifest,
)

INSTALLING = "SnapshotInstalling"
INSTALLED = "SnapshotInstalled"


def received_snapshot(shard_directory: Path) -> SnapshotManifest | None:
    """The snapshot that was received, checked and not installed yet; None when there is none. Corruption and
    FormatUnsupported for a damaged manifest or an image of another length."""
    directory = shard_directory / SNAPSHOT_DIRECTORY
    found = manifest.read_manifest(directory / RECEIVED_MANIFEST)
    if found is None:
        return None
    image = directory / INCOMING
    if not image.exists() or image.stat().st_size != found.image_bytes:
        raise manifest.damaged("The image of a snapshot is missing or has another length.")
    return found


def install(shard_directory: Path, step: Step = unwatched) -> SnapshotManifest:
    """Replace the state of a shard, whose store is closed, by the snapshot that was received; short, for the
    image is moved.

    Corruption when there is no such snapshot, ResourceExhausted and RecoveryRequired when files cannot be
    written: the next start then finishes what the marker says.
    """
    found = received_snapshot(shard_directory)
    if found is None:
        raise manifest.damaged("There is no snapshot to be installed.")
    directory = shard_directory / SNAPSHOT_DIRECTORY
    with as_contract("A snapshot could not be installed."):
        generation.raise_by_one(shard_directory)
        (directory / RECEIVED_MANIFEST).replace(directory / INSTALLING_MANIFEST)
        files.sync_directory(directory)
        step(INSTALLING)
        _replace(shard_directory)
        step(INSTALLED)
    return found


def pending_install(shard_directory: Path) -> SnapshotManifest | None:
    """The snapshot whose installation was begun and not finished, None when there is none. Its image is in
    place of the state when this returns: the caller opens the store, rebases the log, and finishes.

    To be called at a start, before the store is opened. Errors as `install`, FormatUnsupported for an unknown
    version.
    """
    found = manifest.read_manifest(shard_directory / SNAPSHOT_DIRECTORY / INSTALLING_MANIFEST)
    if found is None:
        return None
    with as_contract("A snapshot could not be installed."):
        image = shard_directory / SNAPSHOT_DIRECTORY / INCOMING
        if image.exists():
            _replace(shard_directory)
        elif not (shard_directory / layout.DATA_FILE).exists():
            raise manifest.damaged("A snapshot that was being installed is missing.")
    return found


def installing(shard_directory: Path) -> bool:
    """Whether the state of a shard is being replaced, so that its files need not be those of a checkpoint."""
    return (shard_directory / SNAPSHOT_DIRECTORY / INSTALLING_MANIFEST).exists()


def _replace(shard_directory: Path) -> None:
    """Move the image into the place of the state; may be repeated as long as the image is there."""
    directory = shard_directory / SNAPSHOT_DIRECTORY
    checkpoint.remove(shard_directory)
    (shard_directory / layout.LOCK_FILE).unlink(missing_ok=True)
    files.sync_directory(shard_directory)
    (directory / INCOMING).replace(shard_directory / layout.DATA_FILE)
    files.sync_directory(shard_directory)
    files.sync_directory(directory)


def finish_install(shard_directory: Path) -> None:
    """Take the marker away, after the store was opened and the log rebased."""
    directory = shard_directory / SNAPSHOT_DIRECTORY
    with as_contract("A snapshot could not be installed."):
        (directory / INSTALLING_MANIFEST).unlink(missing_ok=True)
        files.sync_directory(directory)
