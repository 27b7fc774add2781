"""The states of a worker's shards, opened in the order in which damage is seen before anything changes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage.hooks import Step, unwatched
from keyload.storage.install import finish_install, pending_install
from keyload.storage.manifest import SnapshotManifest
from keyload.storage.store import Store
from keyload.storage.wal import Wal


def open_states(
    directory: Path,
    wal: Wal,
    shards: Iterable[int],
    maximum_bytes: int,
    *,
    membership: bytes | None = None,
    step: Step = unwatched,
) -> dict[int, Store]:
    """Open the state of every shard in a worker's directory, compare it with the log before anything of that
    is changed, and begin the log; a snapshot whose installation was cut short is installed.

    `membership` is what a new state begins with. Corruption when the log lacks entries that a state holds;
    else errors as of `Store` and `Wal.begin`.
    """
    stores: dict[int, Store] = {}
    installed: dict[Path, SnapshotManifest] = {}
    try:
        for number in shards:
            place = directory / f"shard-{number}"
            snapshot = pending_install(place)
            store = stores[number] = Store(place, maximum_bytes, membership=membership, step=step)
            if snapshot is not None:
                installed[place] = snapshot
            elif not wal.log(number).holds(store.applied.index, store.applied.term):
                detail = "The log lacks entries that the state of a shard holds."
                raise KeyLoadError(ErrorCode.CORRUPTION, detail)
        wal.begin()
        for place, snapshot in installed.items():
            wal.rebase(snapshot.shard, snapshot.index, snapshot.term)
            finish_install(place)
    except BaseException:
        for store in stores.values():
            store.close(durable=False)
        raise
    return stores
