"""A whole cluster restored from one backup: a database for each voter, one incarnation, one new signing key
(BKP-16, BKP-24)."""

from __future__ import annotations

import base64
import secrets
import shutil
import uuid
from pathlib import Path

import msgspec

from keyload.backup.checking import Backup, check, check_images
from keyload.backup.manifest import Hash, Id
from keyload.backup.restoring import build
from keyload.backup.staging import directory_for, sync_tree
from keyload.backup.streams import read_whole
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import Identity, files

PLAN = "restore.json"
SIGNING_KEY = "signing.key"
_DRAFT = ".partial"
_TAKEN = frozenset((".", "..", PLAN, SIGNING_KEY, _DRAFT))
_PLAN_BYTES = 4096
_NAME_BYTES = 255


class _Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must stay the same when an interrupted restore goes on: the backup, and the new incarnation."""

    backup: Id
    checksum: Hash
    incarnation: str


class RestoredVoter(msgspec.Struct, frozen=True, rename="camel"):
    """One node of a restored cluster and its data directory."""

    id: str
    directory: str


class RestoredCluster(msgspec.Struct, frozen=True, rename="camel"):
    """The receipt of a cluster restore: what the settings of all nodes need."""

    id: str
    position: int
    incarnation: str
    signing_key_file: str
    workers: int
    shards: int
    nodes: tuple[RestoredVoter, ...]


def cluster_restore(source: Path, target: Path) -> RestoredCluster:
    """Make the databases of all voters that the backup's cluster had, or of the node alone that it was.

    A restore that was killed goes on where it stopped, with the same incarnation; a finished one of the same
    backup gives its receipt again. Conflict for any other target that is not absent or empty.
    """
    backup = check(source)
    voters = _voters(backup)
    check_images(backup)
    target = target.absolute()
    done = _stored_plan(target, backup)
    if done is not None:
        return _receipt(backup, done, target)
    with directory_for(target, resumes=True) as stage:
        plan = _stored_plan(stage, backup) or _new_plan(stage, backup)
        for voter in voters:
            _restore_voter(backup, plan, voter, stage)
    return _receipt(backup, plan, target)


def _restore_voter(backup: Backup, plan: _Plan, voter: str, stage: Path) -> None:
    home = stage / voter
    if home.exists():
        return
    draft = stage / _DRAFT
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=files.DIRECTORY_MODE)
    build(backup, Identity(plan.incarnation, voter, backup.identity.guard), draft)
    sync_tree(draft)
    draft.rename(home)
    files.sync_directory(stage)


def _voters(backup: Backup) -> tuple[str, ...]:
    """The names of the databases. A name that cannot be that of a directory is refused."""
    voters = backup.identity.guard.voters or (backup.identity.node_id,)
    for voter in voters:
        if "/" in voter or "\0" in voter or voter in _TAKEN or len(voter.encode()) > _NAME_BYTES:
            raise KeyLoadError(ErrorCode.VALIDATION, "The name of a node cannot be the name of a directory.")
    return voters


def _stored_plan(directory: Path, backup: Backup) -> _Plan | None:
    """The plan of a restore of this backup; one of another backup is none of ours."""
    try:
        plan = msgspec.json.decode(read_whole(directory / PLAN, _PLAN_BYTES), type=_Plan)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    manifest = backup.manifest
    return plan if (plan.backup, plan.checksum) == (manifest.id, manifest.checksum) else None


def _new_plan(stage: Path, backup: Backup) -> _Plan:
    """Begin a restore: the plan is durable before anything depends on it."""
    for child in stage.iterdir():
        shutil.rmtree(child) if child.is_dir() else child.unlink()
    key = base64.b64encode(secrets.token_bytes(32))
    files.write_durably(stage / SIGNING_KEY, key + b"\n")
    plan = _Plan(backup.manifest.id, backup.manifest.checksum, str(uuid.uuid4()))
    files.write_durably(stage / PLAN, msgspec.json.format(msgspec.json.encode(plan)) + b"\n")
    return plan


def _receipt(backup: Backup, plan: _Plan, target: Path) -> RestoredCluster:
    guard = backup.identity.guard
    return RestoredCluster(
        id=backup.manifest.id,
        position=backup.manifest.position,
        incarnation=plan.incarnation,
        signing_key_file=str(target / SIGNING_KEY),
        workers=guard.workers,
        shards=guard.shards,
        nodes=tuple(RestoredVoter(voter, str(target / voter)) for voter in _voters(backup)),
    )
