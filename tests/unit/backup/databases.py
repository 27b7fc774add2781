"""Databases with documents in every shard, made by a real worker, and what is stored in them."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from keyload.backup import manifest as manifests
from keyload.backup.manifest import IDENTITY, MANIFEST, Manifest
from keyload.backup.streams import Tally
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.link.messages import Reply
from keyload.storage import Guard, Identity, NodeDirectory, Store
from tests.unit.worker.support import INCARNATION, SHARDS, WorkerUnderTest, problem, put

DOCUMENTS = 12
ALONE = Identity(INCARNATION, "node1", Guard((), 1, SHARDS))


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KeyLoadError) as failure:
        call()
    return failure.value.code


def command(number: int) -> dict[str, Any]:
    """The commit of one document; the same command for the same number."""
    tree = put(f"key{number}", "doc", f'{{"n": {number}}}')
    tree["commandId"] = str(uuid.UUID(int=1 + number))
    return tree


@contextmanager
def running(database: Path, sockets: Path, **settings: Any) -> Iterator[WorkerUnderTest]:
    """A worker on a database; it is stopped in order."""
    worker = WorkerUnderTest(database, f"ipc://{sockets}/{uuid.uuid4().hex}", **settings)
    try:
        worker.wait_ready()
        yield worker
    finally:
        worker.stop()


def make_database(database: Path, sockets: Path) -> None:
    """A node alone with `DOCUMENTS` documents, stopped in order."""
    with NodeDirectory(database) as directory:
        directory.establish(ALONE)
    with running(database, sockets) as worker:
        worker.configure_collection()
        for number in range(DOCUMENTS):
            answer = worker.commit(command(number))
            assert isinstance(answer, Reply), problem(answer)


def shard_files(database: Path) -> dict[int, Path]:
    """The state file of every shard."""
    return {
        int(path.parent.name.removeprefix("shard-")): path
        for path in database.glob("worker-*/shard-*/data.mdb")
    }


@contextmanager
def opened(state: Path, scratch: Path) -> Iterator[Store]:
    """The store of a state file, which stays as it is."""
    place = scratch / uuid.uuid4().hex
    place.mkdir()
    shutil.copyfile(state, place / "data.mdb")
    store = Store(place, 1 << 40)
    try:
        yield store
    finally:
        store.close()
        shutil.rmtree(place)


def records(state: Path, scratch: Path) -> dict[bytes, bytes]:
    """Everything in a state file."""
    with opened(state, scratch) as store, store.reader() as reader:
        return dict(reader.scan(b"", b"\xff" * 600))


def give_voters(backup: Path, voters: tuple[str, ...], numbers: tuple[int, ...] = ()) -> Manifest:
    """Make a backup look as if it came from a cluster of these voters, with `numbers` after an exchange."""
    manifest = manifests.decode((backup / MANIFEST).read_bytes())
    former = msgspec.json.decode((backup / IDENTITY).read_bytes(), type=Identity)
    guard = msgspec.structs.replace(former.guard, voters=voters, numbers=numbers)
    content = msgspec.json.encode(msgspec.structs.replace(former, guard=guard))
    (backup / IDENTITY).write_bytes(content)
    tally = Tally()
    tally.add(content)
    changed = msgspec.structs.replace(manifest, identity=tally.entry(IDENTITY))
    (backup / MANIFEST).write_bytes(manifests.encode(changed))
    return manifests.decode((backup / MANIFEST).read_bytes())
