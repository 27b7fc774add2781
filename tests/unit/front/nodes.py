"""A front with worker peers, served on a free loopback port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from keyload.backup.shelf import Shelf
from keyload.front.app import Front, FrontSettings, build, serve
from keyload.front.server import listen
from keyload.link.messages import CatalogDelta
from keyload.storage.directory import Guard, Identity

from .hubs import ROOT, catalog, hub_of, until
from .peers import WorkerPeer

NOW = 1_800_000_000 * 10_000_000
ID = "0b1d3f5a-7c9e-4b2d-8f60-112233445566"
IDENTITY = Identity("0f8fad5b-d9cb-469f-a165-70867728950e", "node1", Guard(("node1",), 2, 6))
PARTITION = {"tenantId": "t", "databaseId": "d", "transactionDomainId": "x", "partitionKey": "p"}


class Node:
    """What tests see of a running front."""

    def __init__(self, front: Front, peers: list[WorkerPeer], port: int, directory: Path) -> None:
        self.front = front
        self.hub = front.hub
        self.peers = peers
        self.port = port
        self.directory = directory

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def idle(self) -> None:
        """Wait until every lease is given back."""
        await until(lambda: self.front.gate.idle)


@asynccontextmanager
async def node_of(
    delta: CatalogDelta | None = None,
    *,
    workers: int = 2,
    settings: FrontSettings | None = None,
    call_ms: int = 2000,
    clock: Callable[[], int] = lambda: NOW,
    user_timeout_seconds: float = 30.0,
) -> AsyncIterator[Node]:
    """A front that serves."""
    async with hub_of(workers, delta or catalog(), call_ms=call_ms) as (hub, peers, directory):
        front = build(hub, settings or FrontSettings(shards=6), Shelf(directory, IDENTITY), clock)
        listener = listen("127.0.0.1", 0, user_timeout_seconds=user_timeout_seconds)
        port = listener.getsockname()[1]
        stop = asyncio.Event()
        serving = asyncio.create_task(serve(front, listener, stop.wait))
        try:
            await until(lambda: front.readiness.ready() or serving.done())
            yield Node(front, peers, port, directory)
        finally:
            stop.set()
            await serving


class RawResponse(msgspec.Struct, frozen=True):
    """An HTTP answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class RawConnection:
    """One connection on which a test writes its bytes itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(
        self,
        method: str,
        target: str,
        headers: list[tuple[str, str]] | None = None,
        body: bytes | None = None,
    ) -> None:
        lines = [f"{method} {target} HTTP/1.1", "host: localhost"]
        lines += [f"{name}: {value}" for name, value in headers or []]
        if body is not None:
            lines.append(f"content-length: {len(body)}")
        self.writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))
        await self.writer.drain()

    async def chunk(self, data: bytes) -> None:
        self.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self.writer.drain()

    async def response(self) -> RawResponse:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = [line.split(": ", 1) for line in head[1:] if line]
        headers = {name.lower(): value for name, value in pairs}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return RawResponse(int(head[0].split(" ")[1]), headers, body)

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):  # the node may have been first
            await self.writer.wait_closed()


@asynccontextmanager
async def connect(node: Node) -> AsyncIterator[RawConnection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port, limit=64 << 20)
    connection = RawConnection(reader, writer)
    try:
        yield connection
    finally:
        await connection.close()


def bearer(text: str = ROOT) -> tuple[str, str]:
    return "authorization", f"Bearer {text}"


async def ask(
    node: Node,
    method: str,
    target: str,
    body: Any = None,
    *,
    headers: list[tuple[str, str]] | None = None,
    key_text: str | None = ROOT,
) -> RawResponse:
    """One request on a connection of its own; `body` is bytes or a JSON tree."""
    content = body if isinstance(body, bytes) else None if body is None else msgspec.json.encode(body)
    credentials = [bearer(key_text)] if key_text is not None else []
    async with connect(node) as connection:
        await connection.send(method, target, [*credentials, *(headers or [])], content)
        return await connection.response()


def commit(command_id: str = ID) -> dict[str, Any]:
    mutation = {"kind": "putDocument", "collection": "c", "id": "1", "json": "{}"}
    return {"commandId": command_id, "partition": PARTITION, "mutations": [mutation]}


def get_document(document_id: str = "1") -> dict[str, Any]:
    return {"reference": {"partition": PARTITION, "collection": "c", "id": document_id}}
