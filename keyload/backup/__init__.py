"""Copies of the database that can be checked, carried and turned back into a store (spec backup.md).

`check` looks at a backup, `pack`, `unpack`, `inspect` and `copy` are for archives. Everything here works with
files alone, with bounded memory, and leaves a whole result or none.
"""

from keyload.backup.checking import Backup, check
from keyload.backup.manifest import FileEntry, Manifest, ShardImage
from keyload.backup.packing import Artifact, copy, inspect, pack, unpack

__all__ = [
    "Artifact",
    "Backup",
    "FileEntry",
    "Manifest",
    "ShardImage",
    "check",
    "copy",
    "inspect",
    "pack",
    "unpack",
]
