"""The short speed table (`apphost --measure=bench`): executor, workers, HTTP, MCP.

Closed loops throughout: each client sends its next operation after the answer (BEN-7). Every answer is
checked to be a success; the load generator shares the machine with the three nodes.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from itertools import count, cycle
from pathlib import Path
from time import perf_counter
from uuid import uuid4

import msgspec
import uvloop

from harness import bench_executor
from harness.acknowledged import COLLECTION, partition_of
from harness.cluster import Cluster
from harness.doors import tree
from harness.injection import TEXT_BYTES, make_put, send_put, three_nodes
from harness.load import prepare
from harness.measured import Row, Table, at_least, below, nearest_rank
from harness.raw_http import closed_loop, mcp_invoke, request
from keyload.contract.commands import CommandRequest
from keyload.contract.documents import GetDocumentRequest, PutDocument
from keyload.contract.shared import EntityRef
from keyload.front.workers import WorkerHub
from keyload.storage.store import Store
from keyload.worker.executor import Executor

RUNS = 3
SECONDS = 5.0
CONNECTIONS = 16
PARTITIONS = 48
DOCUMENTS = 1000
EXECUTOR_COMMANDS = 20_000
MANY = 256


def measure() -> Table:
    """All four cases, each several times."""
    rows = [executor_row(), *asyncio.run(injection_rows())]
    with (
        tempfile.TemporaryDirectory(prefix="keyload-bench-") as name,
        Cluster(Path(name) / "cluster", workers=1, shards=None) as cluster,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        rows += runner.run(http_rows(cluster))
    return Table(title="Speed", runs=RUNS, rows=rows)


def executor_row() -> Row:
    """(a) One process executes, forms the log entry and applies; no network, no log."""
    speeds: list[float] = []
    pending = [bench_executor.make_command(number, PARTITIONS) for number in range(EXECUTOR_COMMANDS)]
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as directory:
            store = Store(Path(directory) / "shard", 8 << 30)
            executor = Executor(
                shard=1, incarnation=bench_executor.INCARNATION, durability="LocalDurable", data_shards=1
            )
            spent = bench_executor.measure(pending, 64, store, executor)
            store.close()
        speeds.append(EXECUTOR_COMMANDS / sum(spent.values()))
    return at_least("(a) executor alone, 200-byte puts", speeds, "commands/s", 8000)


async def injection_rows() -> list[Row]:
    """(b) Commands at the workers' sockets of three nodes, many and one outstanding."""
    many: list[float] = []
    one: list[float] = []
    numbers = count(1)
    with tempfile.TemporaryDirectory(prefix="keyload-bench-") as name:
        async with three_nodes(Path(name)) as nodes:
            hubs = [node.hub for node in nodes]
            await outstanding(hubs, MANY, 1.0, numbers)
            for _ in range(RUNS):
                many.append(len(await outstanding(hubs, MANY, SECONDS, numbers)) / SECONDS)
                latencies = await outstanding(hubs[:1], 1, SECONDS, numbers)
                one.append(nearest_rank(latencies, 0.5) * 1000)
    return [
        at_least(f"(b) three nodes, {MANY} outstanding at the workers' sockets", many, "commits/s", 4000),
        below("(b) three nodes, 1 outstanding, p50", one, "ms", 3),
    ]


async def outstanding(
    hubs: list[WorkerHub], clients: int, seconds: float, numbers: count[int]
) -> list[float]:
    """Latencies of all puts that so many clients, spread over the nodes, got done."""
    latencies: list[float] = []
    prepared = [
        make_put(next(numbers), PARTITIONS, 3) for _ in range(int(12_000 * seconds) if clients > 1 else 4000)
    ]
    puts = iter(prepared)
    deadline = perf_counter() + seconds

    async def run(hub: WorkerHub) -> None:
        while (before := perf_counter()) < deadline:
            await send_put(hub, next(puts))
            latencies.append(perf_counter() - before)

    await asyncio.gather(*(run(hub) for _, hub in zip(range(clients), cycle(hubs), strict=False)))
    return latencies


async def http_rows(cluster: Cluster) -> list[Row]:
    """(c) HTTP commits and point reads, (d) MCP point reads, 16 connections over the three nodes."""
    await prepare(cluster.urls, cluster.key)
    await put_documents(cluster)
    cases: list[tuple[str, str, float, Callable[[int], Awaitable[bytes]]]] = [
        ("(c) HTTP commits", "commits/s", 800, commits(cluster.key)),
        ("(c) HTTP point reads", "reads/s", 1200, point_reads(cluster.key)),
        ("(d) MCP invoke of a point read", "calls/s", 300, mcp_reads(cluster.key)),
    ]
    rows: list[Row] = []
    for what, unit, target, requests in cases:
        await closed_loop(cluster.urls, CONNECTIONS, 1.0, requests)
        speeds: list[float] = []
        middles: list[float] = []
        for _ in range(RUNS):
            speed, latencies = await closed_loop(cluster.urls, CONNECTIONS, SECONDS, requests)
            speeds.append(speed)
            middles.append(nearest_rank(latencies, 0.5) * 1000)
        rows.append(at_least(f"{what}, {CONNECTIONS} connections", speeds, unit, target))
        rows.append(Row(what=f"{what}, p50", values=tuple(middles), unit="ms"))
    return rows


def reference(number: int) -> EntityRef:
    """Where a prepared document is."""
    return EntityRef(
        partition=partition_of(f"bench-{number % PARTITIONS}"), collection=COLLECTION, id=f"r{number}"
    )


def commit_body(partition: str, name: str) -> bytes:
    """The body of a put of about 200 bytes."""
    put = PutDocument(
        collection=COLLECTION, id=name, json=f'{{"number":0,"filler":"{"x" * (TEXT_BYTES - 30)}"}}'
    )
    command = CommandRequest(command_id=str(uuid4()), partition=partition_of(partition), mutations=(put,))
    return msgspec.json.encode(command)


async def put_documents(cluster: Cluster) -> None:
    """Write the documents that are read later."""
    numbers = iter(range(DOCUMENTS))
    done = asyncio.Event()

    async def next_request(_: int) -> bytes:
        number = next(numbers, DOCUMENTS - 1)
        if number == DOCUMENTS - 1:
            done.set()
        body = commit_body(f"bench-{number % PARTITIONS}", f"r{number}")
        return request("POST", "/v1/commands", cluster.key, body)

    while not done.is_set():
        await closed_loop(cluster.urls, CONNECTIONS, 0.5, next_request)


def commits(key: str) -> Callable[[int], Awaitable[bytes]]:
    """Puts of new documents."""

    async def make(client: int) -> bytes:
        return request("POST", "/v1/commands", key, commit_body(f"bench-{client % PARTITIONS}", str(uuid4())))

    return make


def point_reads(key: str) -> Callable[[int], Awaitable[bytes]]:
    """Reads of the prepared documents in turn."""
    made = cycle(
        [
            request(
                "POST",
                "/v1/documents/get",
                key,
                msgspec.json.encode(GetDocumentRequest(reference=reference(n))),
            )
            for n in range(DOCUMENTS)
        ]
    )

    async def make(client: int) -> bytes:
        return next(made)

    return make


def mcp_reads(key: str) -> Callable[[int], Awaitable[bytes]]:
    """The same reads through `gateway_tool_invoke`."""
    made = cycle(
        [
            mcp_invoke(key, "keyload_documents_get", {"request": {"reference": tree(reference(number))}})
            for number in range(DOCUMENTS)
        ]
    )

    async def make(client: int) -> bytes:
        return next(made)

    return make
