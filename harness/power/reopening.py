"""An image reopened by the real worker code, and the state it has to have."""

from __future__ import annotations

import asyncio
import copy
import os
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import zmq

from harness.acknowledged import Ledger
from harness.power.images import MARKER
from harness.power.nodes import WORKER, hub_doors, until_known, way_to
from keyload.front.workers import WorkerHub
from keyload.node.launching import worker_launch
from keyload.node.settings import NodeSettings
from keyload.storage import Store, Wal, recover_state, unpack_writes
from keyload.storage.boot import boot_id
from keyload.worker.__main__ import build
from keyload.worker.loop import Worker

STOP_SECONDS = 30.0
ENTRY_BYTES = 1 << 30

Digests = dict[int, dict[int, str]]
"""Shard to the digest of its state after each entry."""


class Reopened:
    """A worker that runs in a thread on the files of an image. `held` is the last entry each shard's log had
    when it was opened."""

    def __init__(self, hub: WorkerHub, worker: Worker) -> None:
        self.hub = hub
        self._worker = worker
        shards = worker._shards
        self.held = {number: worker._wal.log(number).last_index for number in shards}

    def digest(self, shard: int) -> str:
        """The digest of a shard's state."""
        return self._worker._shards[shard].store.digest()


@asynccontextmanager
async def reopened(settings: NodeSettings) -> AsyncIterator[Reopened]:
    """Open the worker of a node alone; KeyLoadError when it refuses its files."""
    with tempfile.TemporaryDirectory(prefix="keyload-") as sockets:
        endpoint = f"ipc://{sockets}/0"
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
        hub = WorkerHub(1, call_ms=settings.timings.call_ms)
        lifeline, held = os.pipe()
        try:
            worker = build(
                worker_launch(settings, 0, endpoint), context=context, step=_pass_by, lifeline=lifeline
            )
            hub.attach(0, endpoint)
            thread = threading.Thread(target=worker.run)
            opened = Reopened(hub, worker)
            thread.start()
            try:
                await until_known(hub)
                yield opened
            finally:
                os.close(held)
                held = -1
                await asyncio.to_thread(thread.join, STOP_SECONDS)
                worker.close()
        finally:
            hub.close()
            context.destroy(linger=0)
            for descriptor in (lifeline, held):
                if descriptor >= 0:
                    os.close(descriptor)


def _pass_by(name: str) -> None:
    """No step is watched."""


async def check_image(settings: NodeSettings, ledger: Ledger, expected: Digests) -> int:
    """Reopen an image and hold it against what was acknowledged and against the digests; the number of
    commands in doubt that were there. AssertionError and KeyLoadError tell what is wrong."""
    ledger = copy.deepcopy(ledger)
    async with reopened(settings) as image:
        while not image.hub.replayed:
            await asyncio.sleep(0.005)
        for shard, last in image.held.items():
            digest = await asyncio.to_thread(image.digest, shard)
            assert digest == expected[shard][last], f"shard {shard} differs at entry {last}"
        hubs = {"node": image.hub}
        async with way_to(hubs) as way:
            present = await ledger.settle(way)
        await ledger.check(list(hubs), "", [hub_doors(hubs)])
    return present


def expected_digests(node_directory: Path, settings: NodeSettings) -> Digests:
    """The digest after each entry of the log of a killed node alone, whose files are whole; they are changed.

    Made from the last checkpoint by applying one entry after the other. The live state has to agree, unless
    the node was killed before it had put back what a power loss left: then there is none to compare with.
    """
    worker = node_directory / WORKER
    shards = sorted(int(path.name.removeprefix("shard-")) for path in worker.glob("shard-*"))
    live = {shard: _live_digest(worker / f"shard-{shard}") for shard in shards if _recovered(worker)}
    (worker / MARKER).write_bytes(msgspec.json.encode({"boot_id": "reference", "clean": False}))
    recover_state(worker)
    result: Digests = {number: {0: ""} for number in range(settings.data_shards + 1)}
    with Wal(worker / "wal", worker=0, incarnation=settings.incarnation.lower()) as wal:
        for shard in result:
            result[shard] = _digests(worker / f"shard-{shard}", wal, shard)
    for shard, (index, digest) in live.items():
        assert result[shard].get(index, digest) == digest, f"shard {shard} at entry {index}"
    return result


def _recovered(worker: Path) -> bool:
    """Whether the worker had come past the recovery of its states in this boot."""
    marker = worker / MARKER
    return marker.exists() and msgspec.json.decode(marker.read_bytes())["boot_id"] == boot_id()


def _live_digest(directory: Path) -> tuple[int, str]:
    store = Store(directory, ENTRY_BYTES)
    found = store.applied.index, store.digest()
    store.close()
    return found


def _digests(directory: Path, wal: Wal, shard: int) -> dict[int, str]:
    log = wal.log(shard)
    store = Store(directory, ENTRY_BYTES)
    result = {store.applied.index: store.digest()}
    first = store.applied.index + 1
    for entry in log.entries(first, log.last_index + 1, ENTRY_BYTES) if first <= log.last_index else ():
        writes = [] if entry.membership or not entry.data else [unpack_writes(entry.data)]
        store.apply(entry.index, entry.term, writes, entry.data if entry.membership else None)
        result[entry.index] = store.digest()
    store.close()
    return result
