"""A backup directory, looked at byte by byte before anybody uses it (BKP-10, BKP-12)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from keyload.backup import manifest as manifests
from keyload.backup.manifest import IDENTITY, MANIFEST, MANIFEST_BYTES, Manifest, damaged
from keyload.backup.streams import checked, drain, pieces, read_whole
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import Position, verify_images
from keyload.storage.directory import IDENTITY_BYTES, Identity


class Backup(msgspec.Struct, frozen=True):
    """A backup whose files are what its manifest says."""

    directory: Path
    manifest: Manifest
    identity: Identity


def check(directory: Path) -> Backup:
    """Read all of a backup.

    FormatUnsupported without a manifest or with one of another format; Corruption for a file that is
    missing, surplus, a link, or of another length or hash; NotFound when there is no such directory.
    """
    if not directory.is_dir():
        raise KeyLoadError(ErrorCode.NOT_FOUND, f"{directory}: there is no such directory.")
    path = directory / MANIFEST
    manifest = manifests.decode(read_whole(path, MANIFEST_BYTES) if path.exists() else None)
    expected = {MANIFEST, *(entry.name for entry in manifest.files)}
    found = {child.name for child in directory.iterdir()}
    if found != expected:
        names = ", ".join(sorted(found ^ expected)[:4])
        raise damaged(f"The backup has missing or surplus files: {names}.")
    for entry in manifest.files:
        drain(checked(entry, pieces(directory / entry.name)))
    identity = manifests.decode_identity(read_whole(directory / IDENTITY, IDENTITY_BYTES), manifest)
    return Backup(directory, manifest, identity)


def check_images(backup: Backup) -> None:
    """Read every record of the images of a backup, and see that they are at the positions its manifest says;
    Corruption for anything else (BKP-12).
    """
    images = backup.manifest.shards
    found = verify_images([backup.directory / image.file.name for image in images], every_record=True)
    for image, facts in zip(images, found, strict=True):
        if facts.applied != Position(image.index, image.term):
            raise damaged(f"{image.file.name} is an image of another position than the manifest says.")


def checked_backup(directory: Path) -> Backup:
    """A backup of which every file and every record was checked."""
    backup = check(directory)
    check_images(backup)
    return backup
