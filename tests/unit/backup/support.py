"""Backups made of plain bytes, and what a directory holds."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec

from keyload.backup import manifest as manifests
from keyload.backup.manifest import IDENTITY, MANIFEST, Manifest, ShardImage, image_name
from keyload.backup.streams import write_file
from keyload.storage.directory import Guard, Identity

INCARNATION = "0f8fad5b-d9cb-469f-a165-70867728950e"
SIZES = (3_000_000, 70_000, 1, 1 << 20)


def make_backup(directory: Path, sizes: tuple[int, ...] = SIZES) -> Manifest:
    """A whole backup whose images are random bytes; the manifest and archive code does not care."""
    directory.mkdir()
    chance = Random(7)
    identity = Identity(INCARNATION, "node1", Guard(("node1", "node2", "node3"), 2, len(sizes) - 1))
    entry = write_file(directory / IDENTITY, iter([msgspec.json.encode(identity)]))
    images = [
        ShardImage(
            shard=shard,
            index=100 + shard,
            term=3,
            position=90 + shard,
            file=write_file(directory / image_name(shard), iter([chance.randbytes(size)])),
        )
        for shard, size in enumerate(sizes)
    ]
    manifest = Manifest(
        id=f"{len(sizes):032x}", incarnation=INCARNATION, identity=entry, shards=tuple(images)
    )
    write_file(directory / MANIFEST, iter([manifests.encode(manifest)]))
    return manifests.decode((directory / MANIFEST).read_bytes())


def content(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def left_over(directory: Path) -> list[str]:
    """What stands in a directory, hidden names included."""
    return sorted(path.name for path in directory.iterdir())
