"""Whether the state survived the last stop of the machine (STO-5).

State is written without syncing. A killed process leaves it whole in the page cache; a machine that stops
does not. A small file of the worker therefore says in which boot of the machine it ran, and whether it
synced its state and stopped in order. After any other stop each shard is put back to its last checkpoint,
and the log makes the rest again. A shard that never had a checkpoint loses its state: its log is whole.

The same holds after a sync of a state has failed: pages that never reached the disk are then no longer known
to be missing there, and the next sync would not write them. `Checkpoint` removes the file for that.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import checkpoint, files, layout, pages
from keyload.storage.checkpoint import SavedCheckpoint
from keyload.storage.install import installing
from keyload.storage.verify import verify_images

_MARKER_BYTES = 256
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class _Boot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In which boot a worker ran, and whether it stopped in order."""

    boot_id: str
    clean: bool


def boot_id() -> str:
    """Name of this boot of the machine; empty where the system has none, and then no boot equals another."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


class _Plan(NamedTuple):
    """What is to be done with one shard: put it back to `saved`, or remove its state when there is none."""

    shard: int
    directory: Path
    saved: SavedCheckpoint | None


def recover_state(worker_directory: Path) -> list[int]:
    """Put state that may be torn back to what is certain, and note that the worker runs now.

    To be called before the stores of a worker are opened. Returns the shards whose state was removed: they
    are applied again from the start of the log. Corruption for a damaged checkpoint, or a state that is not
    the one its checkpoint was made of; FormatUnsupported for an unknown version. No file is changed before
    all checkpoints were read.
    """
    stored = files.read_small(worker_directory / layout.BOOT_MARKER, _MARKER_BYTES)
    now = boot_id()
    removed: list[int] = []
    if not _trusted(stored, now):
        plans = [plan for directory in sorted(worker_directory.glob("shard-*")) for plan in _plans(directory)]
        for plan in plans:
            if plan.saved is None:
                removed.append(plan.shard)
                _remove(plan.directory)
            else:
                _put_back(plan.directory, plan.saved)
        _check([plan for plan in plans if plan.saved is not None])
    _write(worker_directory, _Boot(now, clean=False))
    return sorted(removed)


def _plans(directory: Path) -> list[_Plan]:
    """What is to be done with a shard's directory, after all its files were looked at."""
    saved = checkpoint.load(directory)
    if saved is None and installing(directory):
        return []  # the image was synced before it was moved, and nothing is written before a checkpoint
    data = directory / layout.DATA_FILE
    if saved is not None and (not data.exists() or data.stat().st_size < saved.file_bytes):
        raise KeyLoadError(ErrorCode.CORRUPTION, "The state of a shard is shorter than its checkpoint says.")
    return [_Plan(int(directory.name.removeprefix("shard-")), directory, saved)]


def _remove(directory: Path) -> None:
    for name in (layout.DATA_FILE, layout.LOCK_FILE):
        (directory / name).unlink(missing_ok=True)
    files.sync_directory(directory)


def _put_back(directory: Path, saved: SavedCheckpoint) -> None:
    """Lead the engine to the tree of the checkpoint."""
    (directory / layout.LOCK_FILE).unlink(missing_ok=True)
    pages.put_back(directory / layout.DATA_FILE, saved.page)
    files.sync_directory(directory)


def _check(plans: list[_Plan]) -> None:
    """See that the states which were put back are those of their checkpoints."""
    if not plans:
        return
    found = verify_images([plan.directory / layout.DATA_FILE for plan in plans], every_record=False)
    for plan, facts in zip(plans, found, strict=True):
        if plan.saved is None or facts.applied != plan.saved.position:
            raise KeyLoadError(ErrorCode.CORRUPTION, "The state of a shard is not that of its checkpoint.")


def mark_clean(worker_directory: Path) -> None:
    """Note that every store of the worker was synced and closed; nothing may be applied afterwards."""
    _write(worker_directory, _Boot(boot_id(), clean=True))


def _trusted(stored: bytes | None, now: str) -> bool:
    """Whether the state is as the last process left it."""
    if stored is None:
        return False
    try:
        boot = msgspec.json.decode(stored, type=_Boot)
    except msgspec.DecodeError:
        return False
    return boot.clean or (boot.boot_id == now != "")


def _write(worker_directory: Path, boot: _Boot) -> None:
    files.write_durably(worker_directory / layout.BOOT_MARKER, msgspec.json.encode(boot))
