"""Checkpoints: the state as of one transaction, made durable beside running writes (STO-5, STO-17).

The engine never writes over a page that a reader may still use. A checkpoint therefore pins its tree with a
read transaction and notes the newest meta page; everything is synced, and the meta page is saved in a file
of its own. Only then the pin of the checkpoint before is dropped. Whatever a power loss does to later pages,
the saved meta page leads to a tree that is whole on disk, and the log replays what came after.
"""

from __future__ import annotations

import errno
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import lmdb

from keyload.codec.checksums import crc32
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import files, layout, pages
from keyload.storage.hooks import Step
from keyload.storage.layout import Position
from keyload.storage.reader import StoreReader

PINNED = "CheckpointPinned"
SYNCING = "CheckpointSyncing"
SYNCED = "CheckpointSynced"
SAVED = "CheckpointSaved"

_FILE = "checkpoint"
_SIGNATURE = b"KEYLDCHK"
_VERSION = 1
_HEAD = struct.Struct("<8sHH32sIQQQ")
"""Signature, version, zero, name of the shard's directory, page size, bytes of the state, index, term; the meta
page and a CRC-32 over everything follow."""

_FILE_BYTES = _HEAD.size + pages.PAGE_BYTES + 4


class SavedCheckpoint(NamedTuple):
    """What the checkpoint file holds: the position, the length the state file had, its newest meta page."""

    position: Position
    file_bytes: int
    page: bytes


class Checkpoint:
    """One checkpoint on its way; made by `Store.begin_checkpoint`, handed back to `Store.adopt`."""

    def __init__(
        self,
        environment: lmdb.Environment,
        directory: Path,
        pin: StoreReader,
        saved: SavedCheckpoint,
        step: Step,
    ) -> None:
        self.saved = saved
        self.done = False
        self.failed = False
        self.sync_failed = False
        """A failed sync may not be tried again on this handle (STO-11)."""
        self._environment = environment
        self._directory = directory
        self._pin = pin
        self._step = step
        self._working = threading.Lock()

    @property
    def position(self) -> Position:
        """The last entry applied in this cut."""
        return self.saved.position

    def complete(self) -> None:
        """Make the cut durable; slow, so it runs in a thread, beside reads and writes.

        ResourceExhausted when there is no room for the small file: the next checkpoint may succeed.
        RecoveryRequired when a sync or write failed: the store has to be opened anew. Either way this one is
        given up and the checkpoint before stays the durable one. Nothing happens when the store was closed
        before this began.
        """
        with self._working:
            if self.failed:
                return
            try:
                self._sync()
                self._step(SYNCED)
                self._save()
                self._step(SAVED)
                self.done = True
            finally:
                if not self.done:
                    self.failed = True
                    self.unpin()

    def _sync(self) -> None:
        try:
            self._step(SYNCING)
            self._environment.sync(True)
        except (lmdb.Error, OSError) as error:
            self.sync_failed = True
            distrust(self._directory.parent)
            raise sync_failure() from error

    def _save(self) -> None:
        try:
            save(self._directory, self.saved)
        except OSError as error:
            replaced = load(self._directory) == self.saved  # only its name may not be durable
            if error.errno in (errno.ENOSPC, errno.EDQUOT) and not replaced:
                detail = "There is no room for a checkpoint."
                raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, detail) from error
            self.sync_failed = True
            raise sync_failure() from error

    def already_saved(self) -> None:
        """The file says exactly this. A process that was killed may not have made its name durable.

        RecoveryRequired when that fails.
        """
        try:
            files.sync_directory(self._directory)
        except OSError as error:
            self.sync_failed = True
            raise sync_failure() from error
        self.done = True

    def give_up(self) -> None:
        """Wait for a thread that works at it; if none has begun, none will."""
        with self._working:
            if not self.done:
                self.failed = True
                self.unpin()

    def unpin(self) -> None:
        """Let the pages that only this cut holds be used again."""
        self._pin.close()


def distrust(worker_directory: Path) -> None:
    """Let the next start put all states of a worker back to their checkpoints, for a sync has failed.

    Need not be durable: after a stop of the machine no state is trusted anyway.
    """
    with suppress(OSError):
        (worker_directory / layout.BOOT_MARKER).unlink(missing_ok=True)


def sync_failure() -> KeyLoadError:
    """The answer when state could not be made durable."""
    detail = "The state of a shard could not be made durable; it must be opened anew."
    return KeyLoadError(ErrorCode.RECOVERY_REQUIRED, detail)


def save(directory: Path, saved: SavedCheckpoint) -> None:
    """Replace the checkpoint file of a shard's directory durably; OSError when that fails."""
    head = _HEAD.pack(
        _SIGNATURE,
        _VERSION,
        0,
        _owner(directory),
        pages.PAGE_BYTES,
        saved.file_bytes,
        saved.position.index,
        saved.position.term,
    )
    content = head + saved.page
    files.write_durably(directory / _FILE, content + crc32(content).to_bytes(4, "little"))


def load(directory: Path) -> SavedCheckpoint | None:
    """The checkpoint a shard's directory holds, None when there is none.

    FormatUnsupported for an unknown signature, version or page size, Corruption for damage and for the
    checkpoint of another shard; nothing is changed.
    """
    content = files.read_small(directory / _FILE, _FILE_BYTES)
    if content is None:
        return None
    if len(content) < _HEAD.size:
        raise _damaged()
    signature, version, zero, owner, page_bytes, file_bytes, index, term = _HEAD.unpack_from(content)
    if signature != _SIGNATURE or version != _VERSION:
        raise KeyLoadError(ErrorCode.FORMAT_UNSUPPORTED, "A checkpoint has an unknown format.")
    if len(content) != _FILE_BYTES or crc32(content[:-4]) != int.from_bytes(content[-4:], "little"):
        raise _damaged()
    if page_bytes != pages.PAGE_BYTES:
        raise KeyLoadError(ErrorCode.FORMAT_UNSUPPORTED, "A checkpoint was made with another page size.")
    page = content[_HEAD.size : -4]
    if zero or owner != _owner(directory) or not pages.is_meta_page(page):
        raise _damaged()
    return SavedCheckpoint(Position(index, term), file_bytes, page)


def remove(directory: Path) -> None:
    """Take the checkpoint file away; the caller syncs the directory."""
    (directory / _FILE).unlink(missing_ok=True)


def _owner(directory: Path) -> bytes:
    """The name of a shard's directory as it stands in its checkpoint, so that files are not mixed up."""
    return directory.name.encode()[:32].ljust(32, b"\0")


def _damaged() -> KeyLoadError:
    return KeyLoadError(ErrorCode.CORRUPTION, "The checkpoint of a shard is damaged.")
