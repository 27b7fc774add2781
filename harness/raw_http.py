"""A bare HTTP/1.1 client for load: requests are bytes made beforehand, answers are status and body.

An official client costs milliseconds of processor time a call; a load generator must cost little against the
server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any, Self
from urllib.parse import urlsplit

PROTOCOL = "2026-07-28"
HANDSHAKE_PROTOCOL = "2025-11-25"


class Connection:
    """One kept-alive connection that carries one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connect to an origin."""
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request and read its whole answer."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        status = int(lines[0].split(b" ", 2)[1])
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                return status, await self._reader.readexactly(int(value))
        raise ValueError("the answer does not tell its length")

    def close(self) -> None:
        """Give the connection up."""
        self._writer.close()


def request(method: str, path: str, key: str, body: bytes, headers: dict[str, str] | None = None) -> bytes:
    """The bytes of one request."""
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {key}",
        f"Content-Length: {len(body)}",
        *(
            f"{name}: {value}"
            for name, value in ({"Content-Type": "application/json"} | (headers or {})).items()
        ),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def mcp_invoke(key: str, operation: str, arguments: dict[str, Any], *, handshake: bool = False) -> bytes:
    """The bytes of one stateless `gateway_tool_invoke`."""
    return mcp_call(key, "tools/call", invocation(operation, arguments), handshake=handshake)


def mcp_call(key: str, method: str, params: dict[str, Any], *, handshake: bool = False) -> bytes:
    """The bytes of one stateless MCP request, of the newest protocol revision or of the last one that begins
    with a handshake.
    """
    headers, message = mcp_envelope(method, params, handshake=handshake)
    return request("POST", "/mcp", key, json.dumps(message).encode(), headers)


def invocation(operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The parameters of `tools/call` that invoke an operation."""
    return {"name": "gateway_tool_invoke", "arguments": {"toolId": operation, "arguments": arguments}}


def mcp_envelope(
    method: str, params: dict[str, Any], *, handshake: bool = False
) -> tuple[dict[str, str], dict[str, Any]]:
    """Headers and message of such a request."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if handshake:
        headers["mcp-protocol-version"] = HANDSHAKE_PROTOCOL
    else:
        headers |= {"mcp-protocol-version": PROTOCOL, "mcp-method": method}
        if "name" in params:
            headers["mcp-name"] = params["name"]
        params = params | {
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": PROTOCOL,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
        }
    return headers, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def closed_loop(
    urls: list[str], connections: int, seconds: float, next_request: Callable[[int], Awaitable[bytes]]
) -> tuple[float, list[float]]:
    """So many connections, spread over the nodes, each sending its next request after the answer.

    Useful answers per second and the latency of each in seconds; an answer other than 200 is an error.
    """
    latencies: list[float] = []
    opened = [await Connection.open(urls[number % len(urls)]) for number in range(connections)]
    started = perf_counter()
    deadline = started + seconds

    async def run(number: int, connection: Connection) -> None:
        while (before := perf_counter()) < deadline:
            status, body = await connection.ask(await next_request(number))
            if status != 200:
                raise AssertionError(f"answered {status}: {body[:300]!r}")
            latencies.append(perf_counter() - before)

    async with asyncio.TaskGroup() as tasks:
        for number, connection in enumerate(opened):
            tasks.create_task(run(number, connection))
    elapsed = perf_counter() - started
    for connection in opened:
        connection.close()
    return len(latencies) / elapsed, latencies
