"""What many calls and broken connections leave in a front: memory, descriptors, requests that are held."""

from __future__ import annotations

import asyncio
import socket
import struct
import tempfile
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil

from harness.acknowledged import COLLECTION, partition_of
from harness.bench import commit_body
from harness.cluster import Cluster, HarnessError
from harness.doors import tree
from harness.load import prepare
from harness.measured import Row, Table, below
from harness.raw_http import Connection, mcp_call, mcp_invoke, request
from keyload.client import AsyncClient

FIRST_CALLS = 5_000
CALLS = 45_000
ABORTED = 10_000
CONNECTIONS = 16
LIMIT_MEGABYTES = 10.0
MEGABYTE = 1 << 20
SETTLE_SECONDS = 60.0
POLL_SECONDS = 0.1
LATE = 503
MOST_LATE = 100
_RESET = struct.pack("ii", 1, 0)
"""Linger for no time: closing sends a reset."""


class State(NamedTuple):
    """What a front holds: resident bytes, descriptors, requests in its lanes."""

    resident: int
    descriptors: int
    requests: int


def mcp_calls(key: str) -> list[bytes]:
    """Calls of both revisions of the protocol: invocations, searches, lists, failures."""
    reference = {"partition": tree(partition_of("leftovers")), "collection": COLLECTION, "id": "none"}
    get = {"request": {"reference": reference}}
    return [
        mcp_invoke(key, "keyload_documents_get", get),
        mcp_invoke(key, "keyload_documents_get", get, handshake=True),
        mcp_invoke(key, "keyload_documents_get", {"request": {}}),
        mcp_call(key, "tools/call", {"name": "gateway_tools_search", "arguments": {"query": "read one"}}),
        mcp_call(key, "tools/list", {}),
        mcp_call(key, "tools/list", {}, handshake=True),
    ]


async def call(url: str, requests: list[bytes], count: int, connections: int = CONNECTIONS) -> None:
    """So many calls in turn over some connections. Each has to be answered; a node that is late is asked
    again, within bounds.
    """
    late = iter(range(MOST_LATE))
    turn = iter(zip(range(count), cycle(requests), strict=False))

    async def run() -> None:
        connection = await Connection.open(url)
        for _, sent in turn:
            while (answer := await connection.ask(sent))[0] == LATE and next(late, None) is not None:
                await asyncio.sleep(POLL_SECONDS)
            status, body = answer
            if status != 200:
                raise HarnessError(f"answered {status}: {body[:300]!r}")
        connection.close()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(connections):
            tasks.create_task(run())


def broken(key: str) -> list[tuple[bytes, bool]]:
    """Beginnings of requests after which a peer leaves; whether it resets the connection."""
    commit = request("POST", "/v1/commands", key, commit_body("leftovers", "same"))
    invocation = mcp_calls(key)[0]
    head = commit.partition(b"\r\n\r\n")[0].replace(b"Content-Length", b"X-Length")
    return [
        (b"", False),
        (commit[:40], False),
        (commit[:-20], False),
        (invocation[:-20], True),
        (invocation, False),
        (invocation, True),
        (commit, False),
        (commit, True),
        (head + b"\r\nTransfer-Encoding: chunked\r\n\r\n100\r\nabc", True),
    ]


async def abort(url: str, beginnings: list[tuple[bytes, bool]], count: int) -> None:
    """So many connections that are given up in the middle of something, some at once."""
    parts = urlsplit(url)
    turn = iter(zip(range(count), cycle(beginnings), strict=False))

    async def run() -> None:
        for _, (sent, resets) in turn:
            _, writer = await asyncio.open_connection(parts.hostname, parts.port)
            if resets:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.write(sent)
            await writer.drain()
            writer.close()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONNECTIONS):
            tasks.create_task(run())


async def state_of(front: psutil.Process, url: str, key: str) -> State:
    """The state of a front; the request that asks for it is not counted."""
    async with AsyncClient(url, key) as client:
        http = (await client.admin_admission()).http
    assert http is not None
    held = http.node
    resident = front.memory_info().rss
    return State(resident, front.num_fds(), held.commands + held.control_commands - 1)


async def settled(
    front: psutil.Process, url: str, key: str, done: Callable[[State], bool] = lambda state: True
) -> State:
    """The state once no request is held and `done` says so."""
    async with asyncio.timeout(SETTLE_SECONDS):
        while True:
            state = await state_of(front, url, key)
            if state.requests == 0 and done(state):
                return state
            await asyncio.sleep(POLL_SECONDS)


def measure() -> Table:
    """50,000 MCP calls and 10,000 broken connections at a node alone."""
    with (
        tempfile.TemporaryDirectory(prefix="keyload-leftovers-") as name,
        Cluster(Path(name) / "cluster", nodes=1, workers=1, shards=None) as cluster,
    ):
        return asyncio.run(_measure(cluster))


async def _measure(cluster: Cluster) -> Table:
    front, url, key = cluster.front(1), cluster.urls[0], cluster.key
    assert front is not None
    await prepare(cluster.urls, key)
    await call(url, mcp_calls(key), FIRST_CALLS)
    before = await settled(front, url, key)
    await call(url, mcp_calls(key), CALLS)
    called = await settled(front, url, key)
    await abort(url, broken(key), ABORTED)
    after = await settled(front, url, key, lambda state: state.descriptors <= before.descriptors)

    def growth(state: State) -> list[float]:
        return [(state.resident - before.resident) / MEGABYTE]

    total = f"{CALLS + FIRST_CALLS:,} MCP calls and {ABORTED:,} broken connections"
    rows = [
        Row(what=f"front after {FIRST_CALLS:,} calls", values=(before.resident / MEGABYTE,), unit="MB"),
        below(f"growth after {CALLS + FIRST_CALLS:,} MCP calls", growth(called), "MB", LIMIT_MEGABYTES),
        below(f"growth after {total}", growth(after), "MB", LIMIT_MEGABYTES),
        below("requests held afterwards", [after.requests], "requests", 1),
        below("descriptors left", [after.descriptors - before.descriptors], "descriptors", 1),
    ]
    return Table(title="What calls and broken connections leave", runs=1, rows=rows)
