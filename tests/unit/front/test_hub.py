"""The hub over real sockets: calls, barriers, catalog feed, evidence, and workers that die."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.front.workers import WorkerHub
from keyload.link.messages import (
    Barrier,
    CatalogDelta,
    Command,
    Confirmed,
    Evidence,
    Fault,
    Read,
    Ready,
    Refusal,
    Reply,
)

from .hubs import VERSION, catalog, hub_of, principal, run, until
from .peers import WorkerPeer, refusal


def read(hub: WorkerHub, shard: int = 0, operation: str = "keyload_admin_status") -> Any:
    return hub.read(
        shard=shard, operation=operation, principal="root", catalog_version=1, partition=None, payload=b"\xc0"
    )


def large_read(hub: WorkerHub, size: int) -> Any:
    return hub.read(
        shard=0, operation="o", principal="p", catalog_version=1, partition=None, payload=bytes(size)
    )


def command(hub: WorkerHub, shard: int = 0) -> Any:
    return hub.command(
        shard=shard,
        operation="keyload_documents_commit",
        principal="root",
        catalog_version=1,
        command_id=b"1" * 16,
        fingerprint=b"2" * 32,
        partition=("t", "d", "x", "p"),
        payload=b"payload",
        control=False,
    )


@pytest.mark.covers("CLU-8")
def test_calls_reach_the_worker_of_their_shard_and_one_turn_makes_one_frame() -> None:
    async def main() -> None:
        async with hub_of(2) as (hub, peers, _):
            answers = await asyncio.gather(*(read(hub, shard) for shard in range(6)), command(hub, 5))
            workers = [msgspec.json.decode(answer.payload)["worker"] for answer in answers]
            assert workers == [0, 1, 0, 1, 0, 1, 1]
            assert [message.shard for message in peers[1].received] == [1, 3, 5, 5]
            assert len(peers[1].frames) == 1
            sent = peers[1].received[-1]
            assert isinstance(sent, Command)
            assert (sent.partition, sent.payload, sent.control) == (("t", "d", "x", "p"), b"payload", False)
            assert hub.outstanding == 0

    run(main())


def test_many_calls_in_both_directions_lose_nothing() -> None:
    async def caller(hub: WorkerHub, number: int) -> int:
        total = 0
        for step in range(50):
            answer = await (read if step % 2 else command)(hub, (number + step) % 4)
            total += isinstance(answer, Reply)
        return total

    async def main() -> None:
        async with hub_of(2) as (hub, _, _):
            assert await asyncio.gather(*(caller(hub, number) for number in range(64))) == [50] * 64

    run(main())


def test_large_payloads_travel_in_several_frames() -> None:
    async def main() -> None:
        async with hub_of(1) as (hub, peers, _):
            calls = [large_read(hub, 3 << 20) for _ in range(6)]
            await asyncio.gather(*calls)
            assert 1 < len(peers[0].frames) <= 3

    run(main())


@pytest.mark.covers("CLU-25")
def test_silence_ends_reads_and_barriers_as_lost_and_writes_as_unknown() -> None:
    async def main() -> None:
        async with hub_of(1, call_ms=100) as (hub, peers, _):
            peers[0].behaviour = lambda message: ()
            loop = asyncio.get_running_loop()
            start = loop.time()
            results = await asyncio.gather(read(hub), hub.confirm(), return_exceptions=True)
            assert [result.code for result in results] == [ErrorCode.OWNERSHIP_LOST] * 2  # type: ignore[union-attr]
            assert 0.09 <= loop.time() - start < 1
            with pytest.raises(KeyLoadError) as caught:
                await command(hub)
            assert caught.value.code is ErrorCode.UNKNOWN_WRITE_OUTCOME
            assert hub.outstanding == 0

    run(main())


def test_a_late_answer_is_ignored() -> None:
    async def main() -> None:
        async with hub_of(1, call_ms=50) as (hub, peers, _):
            peers[0].behaviour = lambda message: ()
            with pytest.raises(KeyLoadError):
                await read(hub)
            peers[0].say(Reply(peers[0].received[0].call, b"late"))
            peers[0].behaviour = peers[0].answer
            assert isinstance(await read(hub), Reply)

    run(main())


def test_a_refusal_comes_back_as_it_is() -> None:
    async def main() -> None:
        async with hub_of(1) as (hub, peers, _):
            peers[0].behaviour = lambda message: [refusal(message.call, ErrorCode.CONFLICT)]
            assert isinstance(await command(hub), Refusal)

    run(main())


@pytest.mark.covers("SEC-41", "CLU-24")
def test_waiting_requests_share_a_barrier_that_began_after_they_arrived() -> None:
    async def main() -> None:
        async with hub_of(1, catalog()) as (hub, peers, _):
            peers[0].behaviour = lambda message: ()
            first = [hub.confirm() for _ in range(5)]
            await until(lambda: len(peers[0].received) == 1)
            late = [hub.confirm() for _ in range(5)]
            await asyncio.sleep(0)
            assert len(peers[0].received) == 1  # one in flight, one forming
            peers[0].say(Confirmed(peers[0].received[0].call, VERSION))
            assert await asyncio.gather(*first) == [VERSION] * 5
            await until(lambda: len(peers[0].received) == 2)
            assert not any(future.done() for future in late)
            peers[0].say(Confirmed(peers[0].received[1].call, VERSION + 1))
            assert await asyncio.gather(*late) == [VERSION + 1] * 5
            assert all(isinstance(message, Barrier) for message in peers[0].received)

    run(main())


def test_a_waiter_that_leaves_does_not_disturb_the_others() -> None:
    async def main() -> None:
        async with hub_of(1, catalog()) as (hub, _, _):
            gone, stays = hub.confirm(), hub.confirm()
            gone.cancel()
            assert await stays == VERSION

    run(main())


def test_the_catalog_goes_to_the_front_and_to_the_other_workers() -> None:
    async def main() -> None:
        async with hub_of(2, catalog()) as (hub, peers, _):
            await until(lambda: hub.catalog.principal("reader") is not None)
            await until(lambda: any(isinstance(message, CatalogDelta) for message in peers[1].received))
            peers[0].say(CatalogDelta(VERSION + 1, False, [principal("new")]))
            await until(lambda: hub.catalog.principal("new") is not None)
            await until(lambda: [message.version for message in peers[1].received][-1:] == [VERSION + 1])
            assert hub.catalog.version == VERSION + 1

    run(main())


def test_a_worker_that_comes_later_gets_the_whole_catalog_first() -> None:
    async def main() -> None:
        async with hub_of(2, catalog()) as (hub, _, directory):
            await until(lambda: hub.catalog.version == VERSION)
            hub.detach(1)
            assert not hub.replayed
            endpoint = f"ipc://{directory}/1-1"
            hub.attach(1, endpoint)
            peer = WorkerPeer(1, endpoint)
            try:
                await until(lambda: hub.replayed)
                await read(hub, 1)
                assert isinstance(peer.received[0], CatalogDelta)
                assert peer.received[0].whole
                assert len(peer.received[0].rows) == len(catalog().rows)
            finally:
                peer.stop()

    run(main())


def test_only_worker_0_feeds_the_catalog() -> None:
    async def main() -> None:
        async with hub_of(2, catalog()) as (hub, peers, _):
            peers[1].say(CatalogDelta(VERSION + 9, False, [principal("forged")]), Ready(1, [], False))
            await until(lambda: not hub.replayed)
            assert hub.catalog.principal("forged") is None

    run(main())


def test_a_catalog_that_cannot_be_read_is_a_fault_of_the_worker() -> None:
    async def main() -> None:
        faults: list[tuple[int, str]] = []
        async with hub_of(1, on_fault=lambda worker, category: faults.append((worker, category))) as parts:
            hub, peers, _ = parts
            peers[0].say(CatalogDelta(1, True, [("principals", ("x",), b"\x80")]))
            await until(lambda: bool(faults))
            assert faults == [(0, "catalog-invalid")]
            assert not hub.replayed

    run(main())


@pytest.mark.covers("STO-6", "STO-11")
def test_death_of_a_worker_ends_its_calls() -> None:
    async def main() -> None:
        async with hub_of(2) as (hub, peers, _):
            for peer in peers:
                peer.behaviour = lambda message: ()
            calls = [read(hub, 0), command(hub, 0), hub.confirm(), read(hub, 1)]
            await until(lambda: len(peers[0].received) == 3 and len(peers[1].received) == 1)
            hub.detach(0)
            results = await asyncio.gather(*calls[:3], return_exceptions=True)
            codes = [result.code for result in results if isinstance(result, KeyLoadError)]
            assert codes == ["OwnershipLost", "UnknownWriteOutcome", "OwnershipLost"]
            assert not calls[3].done()
            with pytest.raises(KeyLoadError) as caught:
                await command(hub, 0)  # never submitted, so its outcome is known
            assert caught.value.code is ErrorCode.RECOVERY_REQUIRED
            with pytest.raises(KeyLoadError) as caught:
                await hub.confirm()
            assert caught.value.code is ErrorCode.RECOVERY_REQUIRED
            peers[1].say(Reply(peers[1].received[0].call, b"1"))
            await calls[3]

    run(main())


def test_calls_are_bounded() -> None:
    async def main() -> None:
        async with hub_of(1, max_calls=3) as (hub, peers, _):
            peers[0].behaviour = lambda message: ()
            kept = [read(hub), read(hub), command(hub)]
            with pytest.raises(KeyLoadError) as caught:
                read(hub)
            assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED
            await until(lambda: len(peers[0].received) == 3)
            peers[0].say(*(Reply(message.call, b"1") for message in peers[0].received))
            await asyncio.gather(*kept)

    run(main())


def test_bytes_that_wait_for_a_worker_are_bounded() -> None:
    async def main() -> None:
        async with hub_of(1) as (hub, peers, _):
            peers.pop().stop()
            calls: list[Any] = []

            def fill() -> None:
                for _ in range(100):
                    calls.append(large_read(hub, 1 << 20))

            with pytest.raises(KeyLoadError) as caught:
                fill()
            assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED
            assert 60 < len(calls) <= 66
            hub.detach(0)
            await asyncio.gather(*calls, return_exceptions=True)

    run(main())


@pytest.mark.covers("STO-6", "STO-11", "CLU-9")
def test_until_a_worker_has_replayed_its_shards_calls_must_wait_for_its_recovery() -> None:
    async def main() -> None:
        async with hub_of(1) as (hub, peers, directory):
            hub.detach(0)
            peers.pop().stop()
            hub.attach(0, f"ipc://{directory}/0-1")
            for call in (lambda: read(hub), lambda: command(hub), lambda: hub.confirm()):
                with pytest.raises(KeyLoadError) as caught:
                    await call()
                assert caught.value.code is ErrorCode.RECOVERY_REQUIRED
            peers.append(WorkerPeer(0, f"ipc://{directory}/0-1", catalog()))
            await until(lambda: hub.replayed)
            assert isinstance(await read(hub), Reply)

    run(main())


def test_evidence_is_fetched_from_the_shard_of_another_worker() -> None:
    async def main() -> None:
        async with hub_of(2) as (hub, peers, _):
            wanted = Read(0, 3, "keyload_documents_get", "root", 1, ("t", "d", "x", "p"), b"\xc0")
            peers[0].say(Evidence(77, wanted))
            await until(lambda: bool(peers[0].received))
            assert peers[0].received == [Reply(77, peers[1].result(wanted))]
            asked = peers[1].received[0]
            assert msgspec.structs.replace(asked, call=0) == wanted
            assert hub.outstanding == 0

    run(main())


def test_evidence_that_cannot_be_had_is_refused() -> None:
    async def main() -> None:
        async with hub_of(2, call_ms=100) as (hub, peers, _):
            wanted = Read(0, 1, "keyload_documents_get", "root", 1, None, b"\xc0")
            peers[1].behaviour = lambda message: [refusal(message.call, ErrorCode.NOT_FOUND)]
            peers[0].say(Evidence(1, wanted))
            await until(lambda: len(peers[0].received) == 1)
            peers[1].behaviour = lambda message: ()
            peers[0].say(Evidence(2, wanted))
            await until(lambda: len(peers[0].received) == 2)
            hub.detach(1)
            peers[0].say(Evidence(3, wanted))
            await until(lambda: len(peers[0].received) == 3)
            codes = [msgspec.msgpack.decode(message.payload)["errorCode"] for message in peers[0].received]
            assert codes == ["NotFound", "OwnershipLost", "RecoveryRequired"]
            assert [message.call for message in peers[0].received] == [1, 2, 3]

    run(main())


def test_a_worker_tells_of_its_fault_and_its_shards() -> None:
    async def main() -> None:
        faults: list[tuple[int, str]] = []
        async with hub_of(1, on_fault=lambda worker, category: faults.append((worker, category))) as parts:
            hub, peers, _ = parts
            peers[0].say(Ready(0, [], False))
            await until(lambda: not hub.replayed)
            peers[0].say(Ready(0, [0, 1], True))
            await until(lambda: hub.replayed)
            peers[0].say(Fault("log-write-failed"), Fault("text with a secret"))
            await until(lambda: len(faults) == 2)
            assert faults == [(0, "log-write-failed"), (0, "unnamed")]

    run(main())


def test_a_frame_that_is_no_frame_is_dropped() -> None:
    async def main() -> None:
        async with hub_of(1) as (hub, peers, _):
            peers[0].say_frame(b"\xff\x00nonsense")
            peers[0].say_frame(msgspec.msgpack.encode([["?", 1]]))
            assert isinstance(await read(hub), Reply)

    run(main())


def test_an_answer_from_a_worker_that_was_not_asked_is_ignored() -> None:
    async def main() -> None:
        async with hub_of(2) as (hub, peers, _):
            peers[0].behaviour = lambda message: ()
            call = command(hub, 0)
            await until(lambda: bool(peers[0].received))
            number = peers[0].received[0].call
            peers[1].say(Reply(number, b"forged"), Ready(1, [], False))
            await until(lambda: not hub.replayed)
            assert not call.done()
            peers[0].say(Confirmed(number, 1), Reply(number, b"true"))
            assert await call == Reply(number, b"true")

    run(main())


def test_a_worker_is_attached_once() -> None:
    async def main() -> None:
        async with hub_of(1) as (hub, _, directory):
            for worker in (0, 1, -1):
                with pytest.raises(ValueError):
                    hub.attach(worker, f"ipc://{directory}/again")
            hub.detach(5)

    run(main())
