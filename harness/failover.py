"""How soon a shard takes writes again after its leader was killed (`apphost --measure=failover`, CLU-10).

In each of 100 trials one shard's leader is killed, in turn its worker alone and its whole node, while a light
load goes on; the time is that from the signal to the first acknowledged write in that shard, asked for
through the two other nodes.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from itertools import count, cycle
from pathlib import Path

import msgspec

from harness.acknowledged import COLLECTION, DATABASE, DOMAIN, TENANT, Ledger, partition_of
from harness.cluster import Cluster, wait_until
from harness.load import prepare, stream_of_commits
from harness.measured import Row, Table, at_least, below, middle, nearest_rank
from harness.metrics import leaders
from keyload.client import AsyncClient, KeyLoadError
from keyload.codec.identity import atomic_partition_id, data_shard, partition_key
from keyload.contract.catalog import ResourceDefinition, ResourceKind
from keyload.contract.documents import PutDocument
from keyload.contract.shared import PartitionRef
from keyload.worker.leadership import preferred_node

TRIALS = 100
WORKERS = 1
SHARDS = 3
LOADING_CLIENTS = 2
ASK_AGAIN_SECONDS = 0.1
LOST_SECONDS = 30.0
SPREAD_SECONDS = 30.0
WANTED_SECONDS = 2.0
LONGEST_SECONDS = 4.0


class Trial(msgspec.Struct, frozen=True):
    """One leader that was killed: `whole` with its node; the shard served again after `seconds`."""

    shard: int
    whole: bool
    seconds: float


def measure() -> Table:
    """All trials in one running cluster."""
    with (
        tempfile.TemporaryDirectory(prefix="keyload-failover-") as name,
        Cluster(Path(name) / "cluster", workers=WORKERS, shards=SHARDS) as cluster,
    ):
        trials = asyncio.run(_trials(cluster, TRIALS))
    return table(trials)


def table(trials: list[Trial]) -> Table:
    """The figures of the trials: all, and by what was killed."""
    seconds = [trial.seconds for trial in trials]
    rows = [
        at_least("within 2 s", [sum(one <= WANTED_SECONDS for one in seconds)], f"of {len(trials)}", 95),
        below("over 4 s", [sum(one > LONGEST_SECONDS for one in seconds)], f"of {len(trials)}", 1),
    ]
    raw: dict[str, list[float]] = {}
    for what, whole in (("leading worker", False), ("leading node", True)):
        own = [trial.seconds for trial in trials if trial.whole is whole]
        raw[what] = [round(one, 3) for one in own]
        if own:
            for word, value in (
                ("p50", middle(own)),
                ("p95", nearest_rank(own, 0.95)),
                ("longest", max(own)),
            ):
                rows.append(Row(what=f"{what} killed, {word}", values=(value,), unit="s"))
    return Table(title="Failover", runs=1, rows=rows, raw=raw)


async def _trials(cluster: Cluster, number: int) -> list[Trial]:
    await prepare(cluster.urls, cluster.key)
    found: list[Trial] = []
    async with stream_of_commits(Ledger(1), cluster.urls, cluster.key, LOADING_CLIENTS):
        for trial in range(number):
            shard, whole = trial % (SHARDS + 1), trial // (SHARDS + 1) % 2 == 1
            leader = await asyncio.to_thread(_settled_leader, cluster, shard)
            found.append(Trial(shard, whole, await _trial(cluster, shard, leader, whole)))
            if whole:
                await asyncio.to_thread(cluster.restart, leader)
            await asyncio.to_thread(cluster.wait_ready)
    return found


def _settled_leader(cluster: Cluster, shard: int) -> int:
    """Who leads the shard, once every shard is led by the node it prefers (CLU-8)."""
    wanted = {one: preferred_node(one, (1, 2, 3)) for one in range(SHARDS + 1)}
    wait_until(
        "every shard is led by the node it prefers",
        lambda: leaders(cluster.urls, cluster.key) == wanted,
        SPREAD_SECONDS,
    )
    return wanted[shard]


async def _trial(cluster: Cluster, shard: int, leader: int, whole: bool) -> float:
    """Kill, and ask the others for a write until it is acknowledged; the seconds in between."""
    urls = [node.url for node in cluster.nodes if node.number != leader]
    clients = [AsyncClient(url, cluster.key, retries=0, timeout=LOST_SECONDS) for url in urls]
    try:
        probe = _probe(shard)
        await asyncio.gather(*(probe(client, -1) for client in clients))  # connections are open
        started = time.monotonic()
        if whole:
            await asyncio.to_thread(cluster.crash, leader)
        else:
            await asyncio.to_thread(cluster.kill_worker, leader, 0)
        await _until_acknowledged(probe, clients)
        return time.monotonic() - started
    finally:
        for client in clients:
            await client.close()


Probe = Callable[[AsyncClient, int], Awaitable[object]]


def _probe(shard: int) -> Probe:
    """A write in a shard; each number is another write."""
    if shard == 0:
        definition = ResourceDefinition(
            name="probe", kind=ResourceKind.COLLECTION, transaction_domain_id=DOMAIN
        )
        return lambda client, _: client.resources_configure(TENANT, DATABASE, definition)
    partition = partition_in(shard, SHARDS)
    return lambda client, number: client.documents_commit(
        partition, [PutDocument(collection=COLLECTION, id="probe", json=f'{{"number": {number}}}')]
    )


def partition_in(shard: int, shards: int) -> PartitionRef:
    """A partition that lives in a data shard."""
    for number in count():
        partition = partition_of(f"in-{shard}-{number}")
        if data_shard(atomic_partition_id(*partition_key(partition)), shards) == shard:
            return partition
    raise AssertionError("numbers do not end")


async def _until_acknowledged(probe: Probe, clients: list[AsyncClient]) -> None:
    """Ask one node after the other, again every tenth of a second, while earlier attempts may be answered."""
    waiting: set[asyncio.Future[object]] = set()
    async with asyncio.timeout(LOST_SECONDS):
        for number, client in enumerate(cycle(clients)):
            waiting.add(asyncio.ensure_future(probe(client, number)))
            done, waiting = await asyncio.wait(
                waiting, timeout=ASK_AGAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            failures = [attempt.exception() for attempt in done]
            if any(failure is None for failure in failures):
                break
            for failure in failures:
                if not isinstance(failure, KeyLoadError):
                    raise failure or AssertionError("an attempt without an answer")
            await asyncio.sleep(0.01)
    for attempt in waiting:
        attempt.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
