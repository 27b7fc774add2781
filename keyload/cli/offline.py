"""Commands on files at rest: backups, archives, restore, verification (spec backup.md, STO-16).

Each prints one JSON object (CLI-1). Those on backups begin with the backup's id and position, so that a
script can compare them from step to step.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from keyload import backup
from keyload.backup import Artifact
from keyload.backup.manifest import MANIFEST
from keyload.cli.commands import Words
from keyload.contract.errors import ErrorCode, KeyLoadError

_CODES = {
    errno.ENOENT: ErrorCode.NOT_FOUND,
    errno.ENOSPC: ErrorCode.RESOURCE_EXHAUSTED,
    errno.EDQUOT: ErrorCode.RESOURCE_EXHAUSTED,
    errno.EACCES: ErrorCode.PERMISSION_DENIED,
    errno.EPERM: ErrorCode.PERMISSION_DENIED,
    errno.EROFS: ErrorCode.PERMISSION_DENIED,
}


def back_up(words: Words) -> int:
    """Make a backup of a database at rest."""
    database, target = _paths(words)
    with _told():
        manifest = backup.back_up(database, target)
    return _show({"id": manifest.id, "position": manifest.position, "directory": target.absolute()})


def restore(words: Words) -> int:
    """Make the database of a node alone out of a backup."""
    source, target = _paths(words)
    with _told():
        return _show(msgspec.to_builtins(backup.restore(source, target)))


def cluster_restore(words: Words) -> int:
    """Make the databases of all voters out of a backup."""
    source, target = _paths(words)
    with _told():
        return _show(msgspec.to_builtins(backup.cluster_restore(source, target)))


def verify(words: Words) -> int:
    """Check every record of a database, or of a backup."""
    (directory,) = _paths(words)
    with _told():
        if (directory / MANIFEST).exists():
            manifest = backup.checked_backup(directory).manifest
            return _show({"id": manifest.id, "position": manifest.position, "shards": manifest.shards})
        return _show(msgspec.to_builtins(backup.verify(directory)))


def pack_backup(words: Words) -> int:
    """Make an archive of a backup."""
    source, target = _paths(words)
    with _told():
        return _show(_archive(backup.pack(source, target), target))


def unpack_backup(words: Words) -> int:
    """Make a backup of an archive."""
    source, target = _paths(words)
    with _told():
        artifact = backup.unpack(source, target)
    return _show({"id": artifact.id, "position": artifact.position, "directory": target.absolute()})


def inspect_artifact(words: Words) -> int:
    """Check an archive and list what it holds."""
    (source,) = _paths(words)
    with _told():
        return _show(msgspec.to_builtins(backup.inspect(source)))


def copy_artifact(words: Words) -> int:
    """Copy an archive under its hash."""
    source, store = _paths(words)
    with _told():
        return _show(_archive(*backup.copy(source, store)))


def _paths(words: Words) -> list[Path]:
    return [Path(operand) for operand in words.operands]


def _archive(artifact: Artifact, file: Path) -> dict[str, Any]:
    return {
        "id": artifact.id,
        "position": artifact.position,
        "file": file.absolute(),
        "bytes": artifact.bytes,
        "sha256": artifact.sha256,
    }


@contextmanager
def _told() -> Generator[None, None, None]:
    """Tell a failure of the file system as a Problem."""
    try:
        yield
    except OSError as error:
        code = _CODES.get(error.errno or 0, ErrorCode.RECOVERY_REQUIRED)
        detail = f"{error.filename or 'A file'}: {error.strerror}."
        raise KeyLoadError(code, detail) from error


def _show(result: Mapping[str, Any]) -> int:
    text = msgspec.json.encode(result, enc_hook=str).decode()
    sys.stdout.write(text + "\n")
    return 0
