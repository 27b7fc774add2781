"""Long reads at the front: more time than others, made once, and ended when their caller leaves."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.operation import Operation
from keyload.front.exchange import Disconnected, Exchange, Timeouts
from keyload.link.messages import Barrier, Cancel, CatalogDelta, Confirmed, Read, Reply
from tests.unit.front_mcp.support import headers_for, message

from .hubs import hub_of, principal, run, until
from .nodes import ask, bearer, connect, get_document, node_of
from .peers import WorkerPeer


def long_read(hub: Any) -> Any:
    return hub.read(
        shard=0, operation="o", principal="p", catalog_version=1, partition=None, payload=b"\xc0", long=True
    )


def silent_reads(peer: WorkerPeer) -> list[Read]:
    """The peer answers everything but reads, which come here."""
    held: list[Read] = []
    ordinary = peer.answer

    def behaviour(message: Any) -> Any:
        if isinstance(message, Read):
            held.append(message)
            return []
        return ordinary(message)

    peer.behaviour = behaviour
    return held


def cancelled(peer: WorkerPeer) -> list[int]:
    return [message.call for message in peer.received if isinstance(message, Cancel)]


@pytest.fixture(autouse=True)
def point_reads_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Operation, "runs_long", property(lambda operation: operation.name == "keyload_documents_get")
    )


@pytest.mark.covers("STO-14", "CLU-25")
def test_a_long_read_outlives_the_time_of_a_call_and_ends_with_its_worker() -> None:
    async def main() -> None:
        async with hub_of(1, call_ms=50) as (hub, peers, _):
            held = silent_reads(peers[0])
            answered, lost = long_read(hub), long_read(hub)
            short = hub.read(
                shard=0, operation="o", principal="p", catalog_version=1, partition=None, payload=b"\xc0"
            )
            with pytest.raises(KeyLoadError):
                await short
            peers[0].say(Reply(held[0].call, b"1"))
            assert (await answered).payload == b"1"
            hub.detach(0)
            with pytest.raises(KeyLoadError) as caught:
                await lost
            assert caught.value.code is ErrorCode.OWNERSHIP_LOST
            assert hub.outstanding == 0

    run(main())


@pytest.mark.covers("STO-14")
def test_a_long_read_nobody_waits_for_is_cancelled_at_its_worker() -> None:
    async def main() -> None:
        async with hub_of(1) as (hub, peers, _):
            held = silent_reads(peers[0])
            future = long_read(hub)
            await until(lambda: bool(held))
            future.cancel()
            await until(lambda: cancelled(peers[0]) == [held[0].call])
            assert hub.outstanding == 0

    run(main())


@pytest.mark.covers("STO-14", "HTTP-19")
def test_a_caller_that_leaves_ends_its_long_read() -> None:
    async def main() -> None:
        async with node_of(workers=1) as node:
            held = silent_reads(node.peers[0])
            async with connect(node) as connection:
                await connection.send("POST", "/v1/documents/get", [bearer()], b"{}")
                assert (await connection.response()).status == 400
                body = msgspec.json.encode(get_document())
                await connection.send("POST", "/v1/documents/get", [bearer()], body)
                await until(lambda: bool(held))
            await until(lambda: cancelled(node.peers[0]) == [held[0].call])
            await node.idle()
            node.peers[0].behaviour = node.peers[0].answer
            assert (await ask(node, "POST", "/v1/documents/get", get_document())).status == 200

    run(main())


@pytest.mark.covers("STO-14", "MCP-40", "ADM-25")
@pytest.mark.parametrize("modern", [True, False], ids=["modern", "handshake"])
def test_an_agent_that_leaves_ends_its_long_read(modern: bool) -> None:
    arguments = {"toolId": "keyload_documents_get", "arguments": {"request": get_document()}}
    body = message("tools/call", {"name": "gateway_tool_invoke", "arguments": arguments}, modern=modern)
    headers = [bearer(), *headers_for(body, modern=modern).items()]

    async def main() -> None:
        async with node_of(workers=1) as node:
            held = silent_reads(node.peers[0])
            async with connect(node) as connection:
                await connection.send("POST", "/mcp", headers, body)
                await until(lambda: bool(held))
                assert not node.front.gate.idle
            await until(lambda: cancelled(node.peers[0]) == [held[0].call])
            await node.idle()
            assert node.hub.outstanding == 0
            node.peers[0].behaviour = node.peers[0].answer
            async with connect(node) as connection:
                await connection.send("POST", "/mcp", headers, body)
                reply = await connection.response()
                assert reply.json["result"]["isError"] is False
                await connection.send("POST", "/mcp", headers, body)
                assert (await connection.response()).status == 200

    run(main())


@pytest.mark.covers("MCP-40", "ADM-7")
def test_work_whose_peer_left_is_awaited_before_its_lease_is_given_back() -> None:
    async def main() -> None:
        over = asyncio.Event()
        ended: list[str] = []

        async def stubborn() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await over.wait()
                ended.append("work")

        async def leave() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        exchange = Exchange({}, leave, leave, Timeouts())  # type: ignore[arg-type]
        asyncio.get_running_loop().call_later(0.02, over.set)
        with pytest.raises(Disconnected):
            await exchange.while_connected(stubborn())
        assert ended == ["work"]

    run(main())


@pytest.mark.covers("SEC-41")
def test_a_long_read_waits_for_its_caller_and_is_made_once_however_the_catalog_changes() -> None:
    async def main() -> None:
        async with node_of(workers=1) as node:
            peer = node.peers[0]
            barriers: list[Barrier] = []
            ordinary = peer.answer

            def hold(message: Any) -> Any:
                if isinstance(message, Barrier):
                    barriers.append(message)
                    return []
                return ordinary(message)

            peer.behaviour = hold
            asked = asyncio.create_task(ask(node, "POST", "/v1/documents/get", get_document()))
            await until(lambda: bool(barriers))
            assert not [message for message in peer.received if isinstance(message, Read)]
            peer.version += 1
            peer.say(CatalogDelta(peer.version, False, [principal("new")]))
            for barrier in barriers:
                peer.say(Confirmed(barrier.call, peer.version))
            assert (await asked).status == 200
            reads = [message for message in peer.received if isinstance(message, Read)]
            assert [read.catalog_version for read in reads] == [peer.version]

    run(main())
