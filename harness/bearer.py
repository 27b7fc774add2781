"""A door before a node that adds a key to every request, for clients that cannot send a header (MCP-3).

Each connection carries one request: the head is read, `Authorization` and `Connection: close` are put into
it, the address of the door becomes that of the node, and everything behind the head passes as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

HOST = "127.0.0.1"
HEAD_END = b"\r\n\r\n"
MAX_HEAD_BYTES = 64 << 10
PIECE_BYTES = 64 << 10
_REPLACED = (b"authorization", b"connection")


@asynccontextmanager
async def bearer_door(url: str, key: str) -> AsyncIterator[str]:
    """The origin of a door to the node at `url`; it stands until the context is left."""
    door = _Door(url, key)
    server = await asyncio.start_server(door.carry, HOST, 0, limit=MAX_HEAD_BYTES)
    try:
        yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await door.close()


class _Door:
    """Carries requests to one node."""

    def __init__(self, url: str, key: str) -> None:
        node = urlsplit(url)
        self._host, self._port = str(node.hostname), int(node.port or 80)
        self._key = key
        self._open: set[asyncio.Task[None]] = set()

    def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection; it is carried in a task of its own."""
        task = asyncio.create_task(self._carry(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def close(self) -> None:
        """End what is still open."""
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request to the node and its answer back."""
        own = f"{HOST}:{writer.get_extra_info('sockname')[1]}".encode()
        node = f"{self._host}:{self._port}".encode()
        try:
            head = await reader.readuntil(HEAD_END)
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
            far_writer.write(with_key(head, self._key, own, node))
            sending = asyncio.create_task(_pour(reader, far_writer))
            try:
                await _pour(far_reader, writer)
            finally:
                sending.cancel()
                await asyncio.wait({sending})
                far_writer.close()
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # either side has left, or sends no request
        finally:
            writer.close()


async def _pour(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await source.read(PIECE_BYTES):
            target.write(piece)
            await target.drain()


def with_key(head: bytes, key: str, own: bytes, node: bytes) -> bytes:
    """A request head that carries `key`, ends its connection, and names `node` where it named `own`."""
    request, *lines = head.removesuffix(HEAD_END).split(b"\r\n")
    kept = [
        line.replace(own, node) for line in lines if line.partition(b":")[0].strip().lower() not in _REPLACED
    ]
    added = [b"Authorization: Bearer " + key.encode(), b"Connection: close"]
    return b"\r\n".join([request, *kept, *added]) + HEAD_END
