"""A call whose partition is being placed is routed anew, and its fate is told truthfully (CLU-32, CON-66)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from keyload.codec.identity import atomic_partition_id, data_shard
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.tables import PLACEMENTS, Placement
from keyload.link.messages import CatalogDelta, Command, Errand, Read, Refusal, Reply

from .hubs import VERSION, hub_of, run, until
from .nodes import ID, PARTITION, Node, ask, commit, get_document, node_of
from .peers import WorkerPeer, refusal
from .test_http import HEADER

KEY = ("t", "d", "x", "p")
SHARDS = 6
HOME = data_shard(atomic_partition_id(*KEY), SHARDS)
TARGET = HOME % SHARDS + 1
BIND = {"version": 1, "expectedRevision": 0, "partition": PARTITION, "physicalShardId": ID}
ROUTE = "/v1/admin/partition-placement/bind"


def again(call: int, code: ErrorCode = ErrorCode.OWNERSHIP_LOST) -> Refusal:
    return msgspec.structs.replace(refusal(call, code), again=True)


def bound(shard: int, version: int = VERSION + 1) -> CatalogDelta:
    row = msgspec.msgpack.encode(Placement(shard, 1))
    return CatalogDelta(version, False, [(PLACEMENTS, KEY, row)])


def answering(node: Node, handle: Callable[[WorkerPeer, Any], Iterable[Any] | None]) -> None:
    """Let all workers answer commands and reads by `handle`, where it gives anything."""
    for peer in node.peers:

        def behaviour(message: Any, peer: WorkerPeer = peer) -> Iterable[Any]:
            told = handle(peer, message) if isinstance(message, Command | Read) else None
            return peer.answer(message) if told is None else told

        peer.behaviour = behaviour


def calls(node: Node) -> list[tuple[int, int]]:
    """Shard and placement epoch of every command and read, in no order between workers."""
    return [
        (message.shard, message.epoch)
        for peer in node.peers
        for message in peer.received
        if isinstance(message, Command | Read) and message.partition is not None
    ]


@pytest.mark.covers("CLU-31", "CLU-32")
@pytest.mark.parametrize("write", [True, False])
def test_a_call_follows_its_partition_to_another_shard(write: bool) -> None:
    async def main() -> None:
        async with node_of() as node:
            moved: list[int] = []

            def handle(peer: WorkerPeer, message: Any) -> Iterable[Any] | None:
                if message.shard != HOME:
                    return None
                moved.append(message.call)
                if len(moved) == 2:
                    node.peers[0].say(bound(TARGET))
                return [again(message.call)]

            answering(node, handle)
            if write:
                response = await ask(node, "POST", "/v1/commands", commit())
            else:
                response = await ask(node, "POST", "/v1/documents/get", get_document())
            assert response.status == 200
            assert {place for place in calls(node) if place[0] == HOME} == {(HOME, 1)}
            assert (TARGET, 2) in calls(node)
            identities = {m.command_id for p in node.peers for m in p.received if isinstance(m, Command)}
            assert len(identities) == int(write)

    run(main())


@pytest.mark.covers("CLU-11", "CLU-32", "CON-66")
@pytest.mark.parametrize(
    ("told", "code"),
    [
        ([again, again], ErrorCode.OWNERSHIP_LOST),
        ([again, ErrorCode.UNKNOWN_WRITE_OUTCOME], ErrorCode.UNKNOWN_WRITE_OUTCOME),
        ([again, ErrorCode.CONFLICT], ErrorCode.CONFLICT),
        ([again, ErrorCode.RESOURCE_EXHAUSTED], ErrorCode.OWNERSHIP_LOST),
        ([ErrorCode.RESOURCE_EXHAUSTED], ErrorCode.RESOURCE_EXHAUSTED),
    ],
)
def test_what_a_write_is_told_at_last(told: list[Any], code: ErrorCode) -> None:
    async def main() -> None:
        async with node_of(call_ms=100) as node:
            seen: list[int] = []

            def handle(peer: WorkerPeer, message: Any) -> Iterable[Any] | None:
                seen.append(message.call)
                step = told[min(len(seen), len(told)) - 1]
                return [again(message.call) if step is again else refusal(message.call, step)]

            answering(node, handle)
            response = await ask(node, "POST", "/v1/commands", commit())
            assert response.json["errorCode"] == code
            assert len(seen) >= len(told)

    run(main())


@pytest.mark.covers("CLU-32", "CON-66")
@pytest.mark.parametrize("end", [ErrorCode.RESOURCE_EXHAUSTED, ErrorCode.OWNERSHIP_LOST, None])
def test_a_binding_that_has_begun_is_in_doubt_until_its_outcome_is_known(end: ErrorCode | None) -> None:
    async def main() -> None:
        async with node_of(call_ms=100) as node:
            seen: list[int] = []

            def handle(peer: WorkerPeer, message: Any) -> Iterable[Any] | None:
                seen.append(message.call)
                if len(seen) == 1:
                    return [again(message.call, ErrorCode.UNKNOWN_WRITE_OUTCOME)]
                return [] if end is None else [refusal(message.call, end)]

            answering(node, handle)
            response = await ask(node, "POST", ROUTE, BIND, headers=[(HEADER, ID)])
            assert response.json["errorCode"] == ErrorCode.UNKNOWN_WRITE_OUTCOME
            assert len(seen) == 2

    run(main())


@pytest.mark.covers("CLU-33")
def test_a_row_that_names_no_shard_is_corruption() -> None:
    async def main() -> None:
        async with node_of() as node:
            node.peers[0].say(bound(SHARDS + 1))
            await until(lambda: node.hub.catalog.version > VERSION)
            for route, body in (("/v1/commands", commit()), ("/v1/documents/get", get_document())):
                response = await ask(node, "POST", route, body)
                assert response.json["errorCode"] == ErrorCode.CORRUPTION

    run(main())


@pytest.mark.covers("CLU-32")
def test_errands_go_to_the_worker_of_their_shard_and_come_back() -> None:
    wanted = Command(
        0, 3, "internal.placement.close", "", 0, bytes(16), bytes(32), KEY, b"", control=True, epoch=4
    )

    async def main() -> None:
        async with hub_of(2) as (hub, peers, _):
            peers[0].say(Errand(77, wanted))
            await until(lambda: any(isinstance(message, Reply) for message in peers[0].received))
            [sent] = peers[1].received
            assert msgspec.structs.replace(sent, call=0) == wanted
            assert peers[0].received[-1].call == 77
            peers[1].behaviour = lambda message: [again(message.call)]
            peers[0].say(Errand(78, wanted))
            await until(lambda: peers[0].received[-1].call == 78)
            assert peers[0].received[-1].again
            hub.detach(1)
            peers[0].say(Errand(79, wanted))
            await until(lambda: peers[0].received[-1].call == 79)
            refused = msgspec.msgpack.decode(peers[0].received[-1].payload)
            assert refused["errorCode"] == ErrorCode.OWNERSHIP_LOST

    run(main())


@pytest.mark.covers("CLU-33")
def test_a_hub_place_is_by_the_directory() -> None:
    async def main() -> None:
        async with hub_of(1) as (hub, peers, _):
            assert hub.catalog.place(KEY, SHARDS) == (HOME, 1)
            peers[0].say(bound(TARGET))
            await until(lambda: hub.catalog.version > VERSION or hub.catalog.place(KEY, SHARDS)[1] == 2)
            assert hub.catalog.place(KEY, SHARDS) == (TARGET, 2)
            with pytest.raises(KeyLoadError):
                hub.catalog.place(KEY, TARGET - 1)

    run(main())
