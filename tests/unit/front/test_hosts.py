"""Host and Origin of requests to a node on loopback: no page in a browser reaches it under another name."""

from __future__ import annotations

import httpx
import pytest

from keyload.front.app import FrontSettings
from keyload.front.hosts import Hosts

from .hubs import run
from .nodes import Node, RawResponse, bearer, connect, node_of
from .test_exchange import BODY

LOCAL = FrontSettings(shards=6, hosts=Hosts("https://db.example", on_loopback=True))
KEY = "authorization: Bearer root.0123456789abcdef0123456789abcdef\r\n"
OWN = ["localhost", "localhost:5101", "LOCALHOST", "127.0.0.1:1", "127.0.0.9", "[::1]:5101", "DB.example:443"]
FOREIGN = ["evil.example", "evil.example:5101", "localhost.evil.example", "127.0.0.1.evil.example",
           "10.0.0.1", "0.0.0.0", "2130706433", "db.example.evil", "[::2]", "[::1", "", "\xe9"]  # fmt: skip


async def send(node: Node, fields: str, path: str = "/v1/documents/get") -> RawResponse:
    head = f"POST {path} HTTP/1.1\r\n{KEY}{fields}content-length: {len(BODY)}\r\n\r\n"
    async with connect(node) as connection:
        connection.writer.write(head.encode("latin-1") + BODY)
        return await connection.response()


@pytest.mark.covers("SEC-1", "MCP-6")
def test_a_node_on_loopback_answers_to_its_own_names_only() -> None:
    async def main() -> None:
        async with node_of(settings=LOCAL) as node:
            for host in OWN:
                assert (await send(node, f"host: {host}\r\n")).status == 200, host
            for host in FOREIGN:
                refused = await send(node, f"host: {host}\r\n")
                assert (refused.status, refused.json["errorCode"]) == (403, "PermissionDenied"), host
                assert "x-keyload-request-id" not in refused.headers
            await node.idle()

    run(main())


@pytest.mark.covers("SEC-1", "MCP-6")
def test_a_page_of_another_origin_is_refused() -> None:
    async def main() -> None:
        async with node_of(settings=LOCAL) as node:
            for origin in ("http://localhost:3000", "http://127.0.0.1:5101", "https://db.example"):
                assert (await send(node, f"host: localhost\r\norigin: {origin}\r\n")).status == 200, origin
            for origin in ("null", "http://evil.example", "https://localhost.evil.example", "localhost", ""):
                refused = await send(node, f"host: localhost\r\norigin: {origin}\r\n")
                assert (refused.status, refused.json["errorCode"]) == (403, "PermissionDenied"), origin
            for path in ("/health/live", "/metrics", "/nothing"):
                assert (await send(node, "host: evil.example\r\n", path)).status == 403
            over_mcp = await send(node, "host: evil.example\r\n", "/mcp")
            assert (over_mcp.status, over_mcp.json["id"]) == (403, None)
            assert over_mcp.json["error"]["data"]["errorCode"] == "PermissionDenied"

    run(main())


@pytest.mark.covers("SEC-1")
def test_http_2_names_its_host_as_well() -> None:
    async def main() -> None:
        async with (
            node_of(settings=LOCAL) as node,
            httpx.AsyncClient(http1=False, http2=True, trust_env=False) as client,
        ):
            url, key = f"{node.address}/v1/documents/get", dict([bearer()])
            for host, status in (("localhost", 200), ("evil.example", 403)):
                answer = await client.post(url, content=BODY, headers=key | {"host": host})
                assert (answer.status_code, answer.http_version) == (status, "HTTP/2")

    run(main())


def test_a_node_that_listens_elsewhere_has_names_it_does_not_know() -> None:
    async def main() -> None:
        async with node_of() as node:
            assert (await send(node, "host: evil.example\r\norigin: http://a.example\r\n")).status == 200

    run(main())
