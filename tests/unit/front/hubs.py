"""A hub with a worker peer for each worker, and the catalog they feed it."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from keyload.contract.security import ApiKeyRecord, PrincipalRecord
from keyload.contract.tables import KEYS, PRINCIPALS
from keyload.front.workers import WorkerHub
from keyload.link.messages import CatalogDelta

from .peers import WorkerPeer

ROOT = "root.0123456789abcdef0123456789abcdef"
READER = "reader.secret"
VERSION = 7


def run(main: Coroutine[Any, Any, None], seconds: float = 30) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(main, seconds)

    uvloop.run(bounded())


def key(text: str, principal: str, **members: Any) -> tuple[str, tuple[str, ...], bytes]:
    verifier = hashlib.sha256(text.encode()).hexdigest()
    record = ApiKeyRecord(id=text.split(".")[0], principal_id=principal, verifier=verifier, **members)
    return KEYS, (record.id,), msgspec.msgpack.encode(record)


def principal(name: str, tenant: str = "t", **members: Any) -> tuple[str, tuple[str, ...], bytes]:
    record = PrincipalRecord(id=name, tenant_id=tenant, grants=(), field_grants=(), **members)
    return PRINCIPALS, (record.id,), msgspec.msgpack.encode(record)


def catalog(*rows: tuple[str, tuple[str, ...], bytes | None], version: int = VERSION) -> CatalogDelta:
    """The catalog of an administrator, a reader, and `rows`."""
    common = [
        principal("root", "system", cluster_administrator=True),
        key(ROOT, "root"),
        principal("reader"),
        key(READER, "reader"),
    ]
    return CatalogDelta(version, True, [*common, *rows])


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something another thread or task brings about."""
    while not condition():
        await asyncio.sleep(0.002)


@asynccontextmanager
async def hub_of(
    workers: int, delta: CatalogDelta | None = None, **options: Any
) -> AsyncIterator[tuple[WorkerHub, list[WorkerPeer], Path]]:
    """A hub with a peer for each worker."""
    with tempfile.TemporaryDirectory(prefix="kl-") as name:
        directory = Path(name)
        hub = WorkerHub(workers, **options)
        peers: list[WorkerPeer] = []
        try:
            for worker in range(workers):
                endpoint = f"ipc://{directory}/{worker}-0"
                hub.attach(worker, endpoint)
                peers.append(WorkerPeer(worker, endpoint, delta if worker == 0 else None))
            await until(lambda: hub.replayed)
            yield hub, peers, directory
        finally:
            hub.close()
            for peer in peers:
                peer.stop()
