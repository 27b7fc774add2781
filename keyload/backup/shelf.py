"""Backups being made: a directory each, whose manifest is written last (BKP-2, BKP-4)."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from keyload.backup import manifest as manifests
from keyload.backup.manifest import IDENTITY, MANIFEST, Manifest, ShardImage
from keyload.backup.streams import write_file
from keyload.storage import files
from keyload.storage.directory import Identity

SHELF = "backups"
"""The directory of a node that holds the backups it made."""


class Shelf:
    """The backups of one node; `identity` is copied into each."""

    def __init__(self, node: Path, identity: Identity) -> None:
        self._directory = node / SHELF
        self._identity = identity
        self.shards = identity.guard.shards

    def remove_leftovers(self) -> None:
        """Remove what interrupted runs left behind; to be called before the first backup of a start."""
        for child in self._children():
            if not (child / MANIFEST).exists():
                shutil.rmtree(child)

    def begin(self) -> str:
        """Make the directory of a new backup; returns its id."""
        files.private_directory(self._directory)
        identifier = new_id()
        files.private_directory(self._directory / identifier)
        return identifier

    def finish(self, identifier: str, images: Iterable[ShardImage]) -> Manifest:
        """Complete a backup whose images are durable."""
        return complete(self._directory / identifier, identifier, self._identity, images)

    def drop(self, identifier: str) -> None:
        """Remove a backup that was not finished; a worker that is still at it can add no image any more."""
        directory = self._directory / identifier
        with suppress(OSError):
            directory = directory.rename(self._directory / f"{identifier}.dropped")
        shutil.rmtree(directory, ignore_errors=True)

    def _children(self) -> Iterator[Path]:
        return self._directory.iterdir() if self._directory.is_dir() else iter(())


def new_id() -> str:
    """An id for a new backup."""
    return secrets.token_hex(16)


def complete(directory: Path, identifier: str, identity: Identity, images: Iterable[ShardImage]) -> Manifest:
    """Add identity and manifest to a directory of durable images; then it is a backup."""
    entry = write_file(directory / IDENTITY, iter([msgspec.json.encode(identity)]))
    manifest = Manifest(
        id=identifier,
        incarnation=identity.incarnation,
        identity=entry,
        shards=tuple(sorted(images, key=lambda image: image.shard)),
    )
    content = manifests.encode(manifest)
    files.sync_directory(directory)
    files.write_durably(directory / MANIFEST, content)
    return manifest
