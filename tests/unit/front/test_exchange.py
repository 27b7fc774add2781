"""Hostile and unlucky peers: large, slow, chunked, broken off, unread. Afterwards nothing is held."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from keyload.contract.errors import ErrorCode
from keyload.front.admission import DEFAULT_LIMITS
from keyload.front.app import FrontSettings
from keyload.front.exchange import Timeouts
from keyload.link.messages import Barrier, Cancel, Command, Read, Reply
from tests.unit.front_mcp.support import headers_for, message

from .hubs import run, until
from .nodes import Node, RawConnection, ask, bearer, commit, connect, get_document, node_of
from .peers import WorkerPeer

CHUNKED = ("transfer-encoding", "chunked")
SMALL = FrontSettings(
    shards=6,
    http=msgspec.structs.replace(DEFAULT_LIMITS, max_body_bytes=4_096, max_control_body_bytes=1_024),
)
INVOCATION = {"toolId": "keyload_documents_commit", "arguments": {"request": commit()}}
BODY = msgspec.json.encode(get_document())


async def send_chunks(connection: RawConnection, count: int, data: bytes = b" " * 512) -> None:
    for _ in range(count):
        await connection.chunk(data)
    await connection.chunk(b"")


async def still_serves(node: Node, connection: RawConnection) -> None:
    """The same connection works on, and nothing is held."""
    await connection.send("POST", "/v1/documents/get", [bearer()], BODY)
    assert (await connection.response()).status == 200
    await node.idle()


@pytest.mark.covers("ADM-10", "HTTP-18")
@pytest.mark.parametrize(("path", "cap"), [("/v1/documents/get", 4_096), ("/v1/admin/dispatch", 1_024)])
def test_a_declared_body_above_the_cap_is_refused_before_the_credential(path: str, cap: int) -> None:
    async def main() -> None:
        async with node_of(settings=SMALL) as node:
            response = await ask(node, "POST", path, b" " * (cap + 1), key_text=None)
            assert (response.status, response.json["errorCode"]) == (429, "ResourceExhausted")
            assert "retry-after" not in response.headers
            assert "x-keyload-request-id" not in response.headers
            within = await ask(node, "POST", path, b" " * cap)
            assert within.json["errorCode"] == "Validation"
            await node.idle()

    run(main())


@pytest.mark.covers("ADM-10")
@pytest.mark.parametrize("path", ["/v1/documents/get", "/mcp"])
def test_a_streamed_body_above_the_cap_is_refused_and_the_connection_lives_on(path: str) -> None:
    async def main() -> None:
        async with node_of(settings=SMALL) as node, connect(node) as connection:
            await connection.send("POST", path, [bearer(), CHUNKED])
            await send_chunks(connection, 64)
            response = await connection.response()
            assert response.status == 429
            assert b"ResourceExhausted" in response.body
            await still_serves(node, connection)
            assert not any(isinstance(message, Read) for message in node.peers[0].received[:1])

    run(main())


@pytest.mark.covers("ADM-6", "HTTP-2")
def test_a_streamed_body_within_the_cap_is_served() -> None:
    async def main() -> None:
        async with node_of(settings=SMALL) as node, connect(node) as connection:
            await connection.send("POST", "/v1/documents/get", [bearer(), CHUNKED])
            for start in range(0, len(BODY), 7):
                await connection.chunk(BODY[start : start + 7])
            await connection.chunk(b"")
            assert (await connection.response()).status == 200
            await still_serves(node, connection)

    run(main())


@pytest.mark.covers("ADM-7", "HTTP-18")
@pytest.mark.parametrize("path", ["/v1/documents/get", "/v1/nothing", "/mcp", "/nothing", "/health/ready"])
@pytest.mark.parametrize("headers", [[], [bearer("nobody.secret")]])
def test_64_chunks_before_a_refusal_hang_nothing(path: str, headers: list[tuple[str, str]]) -> None:
    async def main() -> None:
        async with node_of() as node, connect(node) as connection:
            await connection.send("POST", path, [*headers, CHUNKED])
            await send_chunks(connection, 64)
            response = await connection.response()
            assert response.status == (404 if path in ("/nothing", "/health/ready") else 401)
            await still_serves(node, connection)

    run(main())


@pytest.mark.covers("ADM-7")
def test_a_refused_sender_that_never_ends_is_cut_off() -> None:
    async def main() -> None:
        settings = FrontSettings(shards=6, timeouts=Timeouts(linger=0.5))
        async with node_of(settings=settings) as node, connect(node) as connection:
            await connection.send("POST", "/v1/documents/get", [CHUNKED])
            for _ in range(64):
                await connection.chunk(b" " * 512)
            assert (await connection.response()).status == 401
            await node.idle()  # the lease does not wait for the sender
            assert await connection.reader.read() == b""

    run(main())


@pytest.mark.covers("ADM-9")
def test_a_full_lane_says_when_to_come_again() -> None:
    limits = msgspec.structs.replace(DEFAULT_LIMITS, max_requests=1, max_principal_control_requests=1)

    async def main() -> None:
        async with node_of(settings=FrontSettings(shards=6, http=limits), call_ms=1000) as node:
            held = hold_reads(node)
            first = asyncio.create_task(ask(node, "POST", "/v1/documents/get", get_document()))
            await until(lambda: bool(held))
            refused = await ask(node, "POST", "/v1/documents/get", get_document())
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            assert refused.json["errorCode"] == "ResourceExhausted"
            headers = [("x-keyload-command-id", "0b1d3f5a-7c9e-4b2d-8f60-112233445566")]
            switch = await ask(node, "POST", "/v1/admin/dispatch?paused=true", headers=headers)
            assert switch.status == 200  # saturated data traffic does not stop control
            assert (await first).json["errorCode"] == "OwnershipLost"
            await node.idle()

    run(main())


@pytest.mark.covers("ADM-9")
def test_a_principal_that_is_full_is_refused_after_its_credential() -> None:
    limits = msgspec.structs.replace(DEFAULT_LIMITS, max_principal_requests=1)

    async def main() -> None:
        async with node_of(settings=FrontSettings(shards=6, http=limits), call_ms=500) as node:
            held = hold_reads(node)
            first = asyncio.create_task(ask(node, "POST", "/v1/documents/get", get_document()))
            await until(lambda: bool(held))
            refused = await ask(node, "POST", "/v1/documents/get", get_document())
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            assert (
                await ask(node, "POST", "/v1/documents/get", get_document(), key_text="x.y")
            ).status == 401
            await first
            await node.idle()

    run(main())


def hold_reads(node: Node) -> list[Any]:
    """Reads get no answer any more; they are kept in the list."""
    held: list[Any] = []
    for peer in node.peers:
        normal = peer.answer

        def behave(message: Any, normal: Any = normal) -> Any:
            if isinstance(message, Read):
                held.append(message)
                return ()
            return normal(message)

        peer.behaviour = behave
    return held


@pytest.mark.covers("ADM-7")
def test_a_body_that_does_not_come_is_given_up() -> None:
    async def main() -> None:
        settings = FrontSettings(shards=6, timeouts=Timeouts(body=0.1, linger=0.1))
        async with node_of(settings=settings) as node, connect(node) as connection:
            await connection.send("POST", "/v1/documents/get", [bearer(), ("content-length", "100")])
            response = await connection.response()
            assert (response.status, response.json["errorCode"]) == (400, str(ErrorCode.CANCELLED))
            await node.idle()
            assert await connection.reader.read() == b""

    run(main())


@pytest.mark.covers("ADM-7", "ADM-11")
@pytest.mark.parametrize("path", ["/v1/documents/get", "/mcp"])
def test_a_peer_that_leaves_in_the_middle_of_its_body_leaves_nothing(path: str) -> None:
    async def main() -> None:
        async with node_of() as node:
            async with connect(node) as connection:
                await connection.send("POST", path, [bearer(), ("content-length", "100")])
                await until(lambda: not node.front.gate.idle)
            await node.idle()

    run(main())


@pytest.mark.covers("ADM-7")
def test_a_peer_that_leaves_before_its_answer_leaves_nothing() -> None:
    async def main() -> None:
        async with node_of(call_ms=300) as node:
            held = hold_reads(node)
            async with connect(node) as connection:
                await connection.send("POST", "/v1/documents/get", [bearer()], BODY)
                await until(lambda: bool(held))
            assert not node.front.gate.idle
            await node.idle()

    run(main())


@pytest.mark.covers("ADM-16", "MCP-41", "CMD-27")
@pytest.mark.parametrize("path", ["/v1/commands", "/mcp"])
def test_a_command_whose_caller_leaves_keeps_its_slot_and_runs_on(path: str) -> None:
    async def main() -> None:
        async with node_of() as node:
            held: list[tuple[WorkerPeer, Command]] = []
            for peer in node.peers:
                hold_commands(peer, held)
            body, headers = msgspec.json.encode(commit()), [bearer()]
            if path == "/mcp":
                body = message("tools/call", {"name": "gateway_tool_invoke", "arguments": INVOCATION})
                headers += headers_for(body).items()
            async with connect(node) as connection:
                await connection.send("POST", path, headers, body)
                await until(lambda: bool(held))
            assert (await ask(node, "GET", "/health/live", key_text=None)).status == 200
            assert node.front.gate.status().node.commands == 1
            assert node.hub.outstanding == 1
            ((peer, command),) = held
            assert not any(isinstance(told, Cancel) for told in peer.received)
            peer.say(Reply(command.call, b"{}"))
            await node.idle()
            assert node.hub.outstanding == 0

    run(main())


def hold_commands(peer: WorkerPeer, held: list[tuple[WorkerPeer, Command]]) -> None:
    """Commands get no answer for now."""
    normal = peer.answer

    def behave(message: Any) -> Any:
        if isinstance(message, Command):
            held.append((peer, message))
            return ()
        return normal(message)

    peer.behaviour = behave


@pytest.mark.covers("ADM-7")
def test_a_peer_that_leaves_before_its_credential_is_checked_leaves_nothing() -> None:
    async def main() -> None:
        async with node_of(call_ms=300) as node:
            node.peers[0].behaviour = lambda message: ()
            before = len([m for m in node.peers[0].received if isinstance(m, Barrier)])
            async with connect(node) as connection:
                await connection.send("POST", "/v1/documents/get", [bearer()], BODY)
                await until(lambda: len(node.peers[0].received) > before)
            await node.idle()

    run(main())


@pytest.mark.covers("ADM-7")
def test_a_peer_that_does_not_read_pins_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    big = msgspec.json.encode("x" * (15 << 20))

    async def main() -> None:
        settings = FrontSettings(shards=6, timeouts=Timeouts(write=0.5))
        async with node_of(settings=settings, user_timeout_seconds=1) as node:
            for peer in node.peers:
                peer.result = lambda message: big  # type: ignore[method-assign]
            before = len(asyncio.all_tasks())
            plain = socket.create_connection(("127.0.0.1", node.port))
            try:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                head = f"POST /v1/documents/get HTTP/1.1\r\nhost: x\r\nauthorization: {bearer()[1]}\r\n"
                plain.sendall(f"{head}content-length: {len(BODY)}\r\n\r\n".encode() + BODY)
                await until(lambda: not node.front.gate.idle)
                await node.idle()
                assert (await ask(node, "POST", "/v1/documents/get", get_document())).body == big
                await until(lambda: len(asyncio.all_tasks()) <= before)  # the connection is given up too
            finally:
                plain.close()

    run(main())
    lines = [msgspec.json.decode(line) for line in capfd.readouterr().err.splitlines()]
    assert {"write-timeout", "connection-failed"} <= {line["category"] for line in lines}


@pytest.mark.covers("ADM-26")
def test_a_reply_above_16_mib_is_refused_as_a_whole() -> None:
    async def main() -> None:
        async with node_of() as node:
            for peer in node.peers:
                peer.result = lambda message: b" " * 16_777_217  # type: ignore[method-assign]
            response = await ask(node, "POST", "/v1/documents/get", get_document())
            assert (response.status, response.json["errorCode"]) == (429, "BudgetExceeded")
            for peer in node.peers:
                peer.result = lambda message: b" " * 16_777_216  # type: ignore[method-assign]
            assert len((await ask(node, "POST", "/v1/documents/get", get_document())).body) == 16_777_216

    run(main())


@pytest.mark.covers("HTTP-6")
def test_one_connection_serves_call_after_call() -> None:
    async def main() -> None:
        async with node_of() as node, connect(node) as connection:
            for _ in range(50):
                await connection.send("POST", "/v1/documents/get", [bearer()], BODY)
                assert (await connection.response()).status == 200
            await node.idle()

    run(main())


def test_a_websocket_is_refused() -> None:
    async def main() -> None:
        async with node_of() as node, connect(node) as connection:
            headers = [
                ("connection", "upgrade"),
                ("upgrade", "websocket"),
                ("sec-websocket-version", "13"),
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ]
            await connection.send("GET", "/v1/documents/get", headers)
            head = await connection.reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 403 ")

    run(main())


@pytest.mark.covers("HTTP-6", "ADM-7", "ADM-10")
def test_http_2_is_served_and_refused_alike() -> None:
    async def chunks(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b" " * 512

    async def main() -> None:
        async with (
            node_of(settings=SMALL) as node,
            httpx.AsyncClient(http1=False, http2=True, trust_env=False) as client,
        ):
            url, key = f"{node.address}/v1/documents/get", dict([bearer()])
            answers = await asyncio.gather(*(client.post(url, content=BODY, headers=key) for _ in range(8)))
            assert {answer.status_code for answer in answers} == {200}
            assert {answer.http_version for answer in answers} == {"HTTP/2"}
            assert (await client.post(url, content=chunks(64), headers=key)).status_code == 429
            assert (await client.post(url, content=chunks(64))).status_code == 401
            assert (await client.post(url, content=BODY, headers=key)).status_code == 200
            await node.idle()

    run(main())
