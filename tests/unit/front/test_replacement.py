"""`/admin/cluster/replace`: who may use it, what it takes, and what it tells (CLU-19)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
import zmq

from keyload.contract.errors import ErrorCode
from keyload.contract.tables import (
    ALL_SHARDS,
    NODES,
    REPLACEMENTS,
    UNDER_WAY,
    VOTERS,
    Node,
    Replacement,
    Voters,
)
from keyload.front.replacement import PATH, REPLACE, WITHDRAW
from keyload.link.messages import INTERNAL, Barrier, CatalogDelta, Command, Confirmed, Reply
from keyload.models.cluster.nodes import ReplaceRequest, WithdrawRequest
from keyload.worker.internal import REPLACE as EXECUTED
from keyload.worker.internal import WITHDRAW as EXECUTED_WITHDRAW

from .hubs import READER, VERSION, run
from .nodes import ask, node_of
from .peers import refusal

KEY = zmq.curve_keypair()[0].decode()
ENTRY = {
    "id": "node4",
    "publicEndpoint": "https://node4.example",
    "peerAddress": "10.0.0.4:5201",
    "publicKey": KEY,
}
WISH = {"node": "node2", "with": ENTRY}
NEW = Node(0, "node4", "https://node4.example", "10.0.0.4", 5201, KEY)


def register(under_way: Replacement | None) -> CatalogDelta:
    rows: list[Any] = [
        (NODES, (str(number),), msgspec.msgpack.encode(Node(number, f"node{number}", "", "h", 1, "")))
        for number in (1, 2, 3, 4)
    ]
    rows.append((VOTERS, ALL_SHARDS, msgspec.msgpack.encode(Voters(("node1", "node2"), (1, 2)))))
    if under_way is not None:
        rows.append((REPLACEMENTS, UNDER_WAY, msgspec.msgpack.encode(under_way)))
    return CatalogDelta(VERSION + 1, False, rows)


@pytest.mark.covers("CLU-19", "SEC-9")
def test_a_wish_reaches_the_system_shard_and_progress_is_told() -> None:
    async def main() -> None:
        async with node_of() as node:
            peer = node.peers[0]

            def behaviour(message: Any) -> Iterable[Any]:
                match message:
                    case Command():
                        yield register(Replacement(2, 4, (1, 3)))
                        yield Reply(message.call, b"true")
                    case Barrier():
                        yield Confirmed(message.call, peer.version)

            peer.behaviour = behaviour
            before = await ask(node, "GET", PATH)
            assert before.json == {"replacing": None, "shards": 7, "shardsDone": 7, "voters": []}
            response = await ask(node, "POST", PATH, WISH)
            assert response.status == 200
            assert response.json == {
                "replacing": {"node": "node2", "with": "node4"},
                "shards": 7,
                "shardsDone": 2,
                "voters": ["node1", "node2"],
            }
            assert (await ask(node, "GET", PATH + "/")).json == response.json
            [command] = [message for message in peer.received if isinstance(message, Command)]
            assert (command.operation, command.principal, command.shard) == (REPLACE, INTERNAL, 0)
            sent = msgspec.msgpack.decode(command.payload, type=ReplaceRequest)
            assert sent == ReplaceRequest("root", "node2", NEW)
            assert REPLACE == EXECUTED
            await node.idle()

    run(main())


@pytest.mark.covers("CLU-19")
def test_a_wish_is_withdrawn() -> None:
    async def main() -> None:
        async with node_of() as node:
            peer = node.peers[0]

            def behaviour(message: Any) -> Iterable[Any]:
                if isinstance(message, Command):
                    yield register(Replacement(2, 4, (), withdrawn=True))
                yield from peer.answer(message)

            peer.behaviour = behaviour
            response = await ask(node, "DELETE", PATH)
            assert response.json["replacing"] == {"node": "node4", "with": "node2"}
            [command] = [message for message in peer.received if isinstance(message, Command)]
            assert (command.operation, command.principal) == (WITHDRAW, INTERNAL)
            assert msgspec.msgpack.decode(command.payload, type=WithdrawRequest) == WithdrawRequest("root")
            assert WITHDRAW == EXECUTED_WITHDRAW

    run(main())


@pytest.mark.covers("CLU-19")
def test_a_refusal_of_the_system_shard_is_passed_on() -> None:
    async def main() -> None:
        async with node_of() as node:
            answer = node.peers[0].answer

            def behaviour(message: Any) -> Iterable[Any]:
                if isinstance(message, Command):
                    return [refusal(message.call, ErrorCode.CONFLICT)]
                return answer(message)

            node.peers[0].behaviour = behaviour
            response = await ask(node, "POST", PATH, WISH)
            assert (response.status, response.json["errorCode"]) == (409, ErrorCode.CONFLICT)

    run(main())


@pytest.mark.covers("CLU-19", "SEC-22")
def test_it_is_for_administrators_only() -> None:
    async def main() -> None:
        async with node_of() as node:
            for method, body in (("GET", None), ("POST", WISH), ("DELETE", None)):
                for text, code in ((READER, ErrorCode.PERMISSION_DENIED), (None, ErrorCode.UNAUTHENTICATED)):
                    response = await ask(node, method, PATH, body, key_text=text)
                    assert response.json["errorCode"] == code
            assert (await ask(node, "PUT", PATH)).json["errorCode"] == ErrorCode.NOT_FOUND
            assert not [m for m in node.peers[0].received if isinstance(m, Command)]
            await node.idle()

    run(main())


@pytest.mark.covers("CLU-19")
def test_a_wish_that_is_none_is_refused() -> None:
    wrong: list[Any] = [
        b"",
        b"{",
        [],
        {"node": "node2"},
        WISH | {"more": 1},
        WISH | {"node": ""},
        WISH | {"node": "n" * 257},
        *(
            {"node": "node2", "with": ENTRY | change}
            for change in (
                {"id": ""},
                {"id": "\t"},
                {"publicEndpoint": "node4.example"},
                {"publicEndpoint": "https://node4.example/path"},
                {"peerAddress": "10.0.0.4"},
                {"peerAddress": "10.0.0.4:0"},
                {"peerAddress": "10.0.0.4:99999"},
                {"publicKey": KEY[:-1]},
                {"publicKey": " " * 40},
                {"publicKey": "~" * 40},
                {"publicKey": "\u00e4" * 40},
                {"number": 0},
                {"number": "4"},
                {"secretKey": "x"},
            )
        ),
    ]

    async def main() -> None:
        async with node_of() as node:
            for body in wrong:
                response = await ask(node, "POST", PATH, body)
                assert (response.status, response.json["errorCode"]) == (400, ErrorCode.VALIDATION), body
            large = await ask(node, "POST", PATH, b" " * 65_537)
            assert large.json["errorCode"] == ErrorCode.RESOURCE_EXHAUSTED
            await node.idle()

    run(main())
