"""Copies of the database that can be checked, carried and turned back into a store (spec backup.md).

`back_up` makes a backup of a database at rest, `check` looks at its files and `checked_backup` at every
record. `pack`, `unpack`, `inspect` and `copy` are for archives, `restore` and `cluster_restore` make
databases, `verify` checks one. Everything here works with files alone, with bounded memory, and leaves a
whole result or none. The server's own backups stand on a `shelf`.
"""

from keyload.backup.checking import Backup, check, checked_backup
from keyload.backup.manifest import FileEntry, Manifest, ShardImage
from keyload.backup.offline import DatabaseFacts, back_up, verify
from keyload.backup.packing import Artifact, copy, inspect, pack, unpack
from keyload.backup.restoring import Restored, restore
from keyload.backup.voters import RestoredCluster, cluster_restore

__all__ = [
    "Artifact",
    "Backup",
    "DatabaseFacts",
    "FileEntry",
    "Manifest",
    "Restored",
    "RestoredCluster",
    "ShardImage",
    "back_up",
    "check",
    "checked_backup",
    "cluster_restore",
    "copy",
    "inspect",
    "pack",
    "restore",
    "unpack",
    "verify",
]
