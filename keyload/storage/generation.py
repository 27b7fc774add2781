"""How often all of a shard's state was replaced on this node (CLU-26): one number in a small file."""

from __future__ import annotations

from pathlib import Path

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import files

_FILE = "generation"
_FILE_BYTES = 20


def load(directory: Path) -> int:
    """The generation of a shard's state, 0 before the first replacement; Corruption for a damaged file."""
    content = files.read_small(directory / _FILE, _FILE_BYTES)
    if content is None:
        return 0
    if len(content) > _FILE_BYTES or not content.isdigit():
        raise KeyLoadError(ErrorCode.CORRUPTION, "The generation of a shard's state is damaged.")
    return int(content)


def raise_by_one(directory: Path) -> None:
    """Count one more replacement, durably."""
    files.write_durably(directory / _FILE, b"%d" % (load(directory) + 1))
