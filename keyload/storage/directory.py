"""The directory of a node: who may open it, and whose it is (STO-1, STO-2, CLU-6)."""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path
from typing import Annotated, Self

import msgspec

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import files, segments

IDENTITY_BYTES = 4096
"""Largest identity file."""

FORMATS = {"identity": 1, "log": 1, "state": 1, "checkpoint": 1, "snapshot": 1, "archive": 1}
"""Format versions of this program (STO-3)."""

_LOCK = "owner.lock"
_IDENTITY = "identity.json"
_BEGUN = "identity.begun"

Count = Annotated[int, msgspec.Meta(ge=1, le=65_535)]


class Guard(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What must never change silently: the ordered voters (none for a node alone), workers per node, data
    shards, and the voters' numbers where those are not their places (`kept_numbers`)."""

    voters: tuple[str, ...]
    workers: Count
    shards: Count
    numbers: tuple[Count, ...] = ()

    @property
    def voter_numbers(self) -> tuple[int, ...]:
        """The number of each voter, in their order."""
        return self.numbers or tuple(range(1, len(self.voters) + 1))


def kept_numbers(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers of voters as a guard record keeps them: nothing while they are the places (CLU-19)."""
    return () if numbers == tuple(range(1, len(numbers) + 1)) else numbers


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Whose directory it is."""

    incarnation: str
    node_id: str
    guard: Guard
    formats: dict[str, int] = msgspec.field(default_factory=lambda: dict(FORMATS))

    def digest(self) -> bytes:
        """SHA-256 of what never changes, equal on all nodes of a cluster; peers compare it (CLU-21)."""
        fixed = (self.incarnation, self.guard.workers, self.guard.shards, sorted(self.formats.items()))
        return hashlib.sha256(msgspec.json.encode(fixed)).digest()


class NodeDirectory:
    """The one opener of a node's directory.

    The lock belongs to the front and to every worker that inherits `lock_descriptor`; it ends with the last
    of them, also when they are killed. Conflict when another process holds the directory, Corruption when it
    holds a symbolic link.
    """

    def __init__(self, root: Path) -> None:
        root = root.resolve()
        files.private_directory(root)
        self.root = root
        self.lock_descriptor = files.open_private(root / _LOCK, os.O_RDWR | os.O_CREAT)
        try:
            try:
                fcntl.flock(self.lock_descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                detail = "The data directory is in use by another process."
                raise KeyLoadError(ErrorCode.CONFLICT, detail) from error
            files.refuse_links(root)
            os.set_inheritable(self.lock_descriptor, True)
        except BaseException:
            self.close()
            raise

    def worker_directory(self, worker: int) -> Path:
        """Where a worker keeps its files."""
        return self.root / f"worker-{worker}"

    def identity(self) -> Identity:
        """Whose directory it is. NotFound when it holds no store; Corruption and FormatUnsupported as
        `establish`.
        """
        stored = files.read_small(self.root / _IDENTITY, IDENTITY_BYTES)
        if stored is None:
            raise KeyLoadError(ErrorCode.NOT_FOUND, "The directory holds no store.")
        identity = _decoded(stored)
        if identity.formats != FORMATS:
            raise KeyLoadError(ErrorCode.FORMAT_UNSUPPORTED, "The directory has unknown format versions.")
        return identity

    def establish(self, identity: Identity, *, segment_bytes: int = segments.SEGMENT_BYTES) -> None:
        """Make an empty directory that of `identity`, or make sure it is already.

        To be called before any worker starts, so that the guard record is durable before the first vote.
        Errors: Conflict when the stored identity differs; Corruption when it is malformed, when it is
        missing although there is data, or when the data is missing; FormatUnsupported for another format
        version. Nothing is changed then.
        """
        stored = files.read_small(self.root / _IDENTITY, IDENTITY_BYTES)
        if stored is not None:
            _compare(_decoded(stored), identity)
            self._check_logs(identity.guard.workers)
            return
        content = msgspec.json.format(msgspec.json.encode(identity))
        if len(content) > IDENTITY_BYTES:
            raise KeyLoadError(ErrorCode.VALIDATION, "The identity of the node is longer than 4096 bytes.")
        begun = files.read_small(self.root / _BEGUN, IDENTITY_BYTES)
        if begun is not None:
            _compare(_decoded(begun), identity)
        elif any(self.root.glob("worker-*")):
            raise KeyLoadError(ErrorCode.CORRUPTION, "The directory holds data but no identity.")
        else:
            files.write_durably(self.root / _BEGUN, content)
        # Until the identity has its name no worker has run: a start that was cut short here is begun again.
        for worker in range(identity.guard.workers):
            directory = self.worker_directory(worker)
            files.private_directory(directory)
            files.private_directory(directory / "wal")
            segments.begin_log(
                directory / "wal", segments.LogOwner(worker, identity.incarnation), segment_bytes
            )
        files.write_durably(self.root / _IDENTITY, content)
        (self.root / _BEGUN).unlink()

    def follow(self, voters: tuple[str, ...], numbers: tuple[int, ...]) -> bool:
        """Take the voters after an exchange into the guard record, durably (CLU-19); False when the record
        knows of a later exchange, or of this one, and nothing was changed.

        Errors: Corruption when the record is missing or malformed.
        """
        stored = _decoded(files.read_small(self.root / _IDENTITY, IDENTITY_BYTES) or b"")
        guard = stored.guard
        changed = msgspec.structs.replace(guard, voters=voters, numbers=kept_numbers(numbers))
        if changed == guard or max(numbers) < max(guard.voter_numbers, default=0):
            return False
        content = msgspec.json.encode(msgspec.structs.replace(stored, guard=changed))
        files.write_durably(self.root / _IDENTITY, msgspec.json.format(content))
        return True

    def close(self) -> None:
        """Give up this process's share of the lock."""
        if self.lock_descriptor >= 0:
            os.close(self.lock_descriptor)
            self.lock_descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_logs(self, workers: int) -> None:
        """Refuse a directory whose logs are gone."""
        for worker in range(workers):
            if not segments.segment_numbers(self.worker_directory(worker) / "wal"):
                raise KeyLoadError(ErrorCode.CORRUPTION, f"The log of worker {worker} is missing.")


def _compare(stored: Identity, expected: Identity) -> None:
    """Refuse a directory that is another node's, naming what differs."""
    if stored.formats != FORMATS:
        raise KeyLoadError(ErrorCode.FORMAT_UNSUPPORTED, "The directory has unknown format versions.")
    _compare_voters(stored, expected)
    for name in ("incarnation", "node_id", "guard"):
        if getattr(stored, name) != getattr(expected, name):
            detail = f"The directory belongs to another node: its {name} differs from the configured one."
            raise KeyLoadError(ErrorCode.CONFLICT, detail)


def _compare_voters(stored: Identity, expected: Identity) -> None:
    """Tell apart the one difference that an exchange of voters explains."""
    same = msgspec.structs.replace(expected.guard, voters=stored.guard.voters, numbers=stored.guard.numbers)
    if stored.node_id != expected.node_id or same != stored.guard or same == expected.guard:
        return
    kept = zip(stored.guard.voters, stored.guard.voter_numbers, strict=True)
    voters = ", ".join(f"{name} (number {number})" for name, number in kept)
    detail = f"The guard record of this directory has the voters {voters}; the settings name others (peers)."
    raise KeyLoadError(ErrorCode.CONFLICT, detail)


def _decoded(content: bytes) -> Identity:
    if len(content) > IDENTITY_BYTES:
        raise KeyLoadError(ErrorCode.CORRUPTION, "The identity of the directory is longer than 4096 bytes.")
    try:
        return msgspec.json.decode(content, type=Identity)
    except msgspec.DecodeError as error:
        raise KeyLoadError(ErrorCode.CORRUPTION, "The identity of the directory is malformed.") from error
