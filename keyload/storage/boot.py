"""Whether the state survived the last stop of the machine (STO-5).

State is written without syncing. A killed process leaves it whole in the page cache; a machine that stops
does not. A small file of the worker therefore says in which boot of the machine it ran, and whether it
synced its state and stopped in order. After any other stop the state is removed, and the log, which is
whole, makes it again.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from keyload.storage import files

_MARKER = "boot"
_MARKER_BYTES = 256
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STATE_FILES = ("data.mdb", "lock.mdb")


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


def recover_state(worker_directory: Path) -> list[int]:
    """Remove state that may be torn, and note that the worker runs now.

    To be called before the stores of a worker are opened. Returns the shards whose state was removed: they
    are applied again from the start of the log.
    """
    stored = files.read_small(worker_directory / _MARKER, _MARKER_BYTES)
    now = boot_id()
    removed: list[int] = []
    if not _trusted(stored, now):
        for directory in sorted(worker_directory.glob("shard-*")):
            removed.append(int(directory.name.removeprefix("shard-")))
            for name in _STATE_FILES:
                (directory / name).unlink(missing_ok=True)
            files.sync_directory(directory)
    _write(worker_directory, _Boot(now, clean=False))
    return sorted(removed)


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
    files.write_durably(worker_directory / _MARKER, msgspec.json.encode(boot))
