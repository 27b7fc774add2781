"""Commands on files at rest: archives of backups (BKP-7..BKP-9). Each prints one JSON object (CLI-1)."""

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


def pack_backup(words: Words) -> int:
    """Make an archive of a backup."""
    source, target = _paths(words)
    with _told():
        artifact = backup.pack(source, target)
    return _show(_named(artifact) | {"file": target, "bytes": artifact.bytes, "sha256": artifact.sha256})


def unpack_backup(words: Words) -> int:
    """Make a backup of an archive."""
    source, target = _paths(words)
    with _told():
        artifact = backup.unpack(source, target)
    return _show(_named(artifact) | {"directory": target})


def inspect_artifact(words: Words) -> int:
    """Check an archive and list what it holds."""
    (source,) = _paths(words)
    with _told():
        return _show(msgspec.structs.asdict(backup.inspect(source)))


def copy_artifact(words: Words) -> int:
    """Copy an archive under its hash."""
    source, store = _paths(words)
    with _told():
        artifact, target = backup.copy(source, store)
    return _show(_named(artifact) | {"file": target, "bytes": artifact.bytes, "sha256": artifact.sha256})


def _paths(words: Words) -> list[Path]:
    return [Path(operand) for operand in words.operands]


def _named(artifact: Artifact) -> dict[str, Any]:
    return {"id": artifact.id, "position": artifact.position}


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
