"""keyload_admin_backup as the front serves it (BKP-2..BKP-4, HTTP-2, HTTP-21)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from keyload import backup
from keyload.backup.manifest import ShardImage, image_name
from keyload.backup.streams import write_file
from keyload.client import AsyncClient, KeyLoadError
from keyload.contract.errors import ErrorCode
from keyload.link.messages import BackupShard, Reply

from .hubs import READER, ROOT, run, until
from .nodes import Node, ask, node_of
from .peers import Behaviour, refusal

ROUTE = "/v1/admin/backup"


def image(directory: Path, message: BackupShard) -> bytes:
    """What a worker does: the file, and the entry about it."""
    path = directory / "backups" / message.backup / image_name(message.shard)
    entry = write_file(path, iter([b"image %d" % message.shard]))
    made = ShardImage(shard=message.shard, index=9, term=2, position=70 + message.shard, file=entry)
    return msgspec.json.encode(made)


def makes_images(node: Node) -> list[int]:
    """Let the workers make images; returns the shards in the order they were asked for."""
    asked: list[int] = []

    def behave(peer: Any) -> None:
        usual = peer.answer

        def answer(message: Any) -> Iterable[Any]:
            if isinstance(message, BackupShard):
                asked.append(message.shard)
                return [Reply(message.call, image(node.directory, message))]
            return usual(message)

        peer.behaviour = answer

    for peer in node.peers:
        behave(peer)
    return asked


def left_over(node: Node) -> list[Path]:
    shelf = node.directory / "backups"
    return list(shelf.iterdir()) if shelf.exists() else []


@pytest.mark.covers("BKP-2", "BKP-3", "HTTP-21", "CON-68")
def test_each_call_makes_a_backup_data_shards_first_system_shard_last() -> None:
    async def main() -> None:
        async with node_of() as node:
            asked = makes_images(node)
            async with AsyncClient(node.address, ROOT) as client:
                receipts = [await client.admin_backup() for _ in range(2)]
                receipts += await asyncio.gather(client.admin_backup(), client.admin_backup())
            for start in range(0, 28, 7):
                assert sorted(asked[start : start + 6]) == [1, 2, 3, 4, 5, 6]
                assert asked[start + 6] == 0
            assert len({receipt.id for receipt in receipts}) == 4
            for receipt in receipts:
                made = backup.check(node.directory / "backups" / receipt.id)
                assert (made.manifest.id, receipt.position) == (receipt.id, 70)
                assert [entry.position for entry in made.manifest.shards] == list(range(70, 77))
            assert len(left_over(node)) == 4

    run(main())


@pytest.mark.covers("BKP-2", "SEC-22")
def test_only_a_cluster_administrator_makes_backups() -> None:
    async def main() -> None:
        async with node_of() as node:
            response = await ask(node, "POST", ROUTE, key_text=READER)
            assert (response.status, response.json["errorCode"]) == (403, "PermissionDenied")
            assert left_over(node) == []

    run(main())


@pytest.mark.covers("HTTP-2")
def test_body_and_query_must_be_empty() -> None:
    async def main() -> None:
        async with node_of() as node:
            for target, body in ((ROUTE, b"{}"), (ROUTE + "?a=b", None)):
                response = await ask(node, "POST", target, body)
                assert (response.status, response.json["errorCode"]) == (400, "Validation")
            assert left_over(node) == []

    run(main())


@pytest.mark.covers("BKP-3", "BKP-4")
def test_a_shard_that_refuses_leaves_no_backup() -> None:
    async def main() -> None:
        async with node_of() as node:
            makes_images(node)
            usual = node.peers[1].behaviour

            def refuses(message: Any) -> Iterable[Any]:
                if isinstance(message, BackupShard) and message.shard == 3:
                    return [refusal(message.call, ErrorCode.RESOURCE_EXHAUSTED)]
                return usual(message)

            node.peers[1].behaviour = refuses
            response = await ask(node, "POST", ROUTE)
            assert response.json["errorCode"] == "ResourceExhausted"
            assert left_over(node) == []

    run(main())


@pytest.mark.covers("BKP-4")
def test_a_worker_that_is_still_at_an_image_adds_nothing_to_a_backup_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late: list[BackupShard] = []
    remove = shutil.rmtree

    def busy_remove(directory: Path, **options: Any) -> None:
        if isinstance(directory, Path) and late:
            with pytest.raises((OSError, KeyLoadError)):
                image(directory.parent.parent, late.pop())
        remove(directory, **options)

    def goes_on(usual: Behaviour, message: Any) -> Iterable[Any]:
        if not isinstance(message, BackupShard):
            return usual(message)
        late.append(message)
        return []

    async def main() -> None:
        async with node_of() as node:
            for peer in node.peers:
                peer.behaviour = partial(goes_on, peer.behaviour)
            monkeypatch.setattr(shutil, "rmtree", busy_remove)
            call = asyncio.create_task(ask(node, "POST", ROUTE))
            await until(lambda: len(late) == 6)
            node.hub.detach(1)
            assert (await call).json["errorCode"] == "UnknownWriteOutcome"
            assert left_over(node) == []
            assert len(late) == 5

    run(main())


@pytest.mark.covers("BKP-3", "HTTP-21")
def test_a_worker_that_dies_leaves_an_unknown_outcome_that_the_client_does_not_repeat() -> None:
    async def main() -> None:
        async with node_of() as node:
            node.peers[1].behaviour = lambda message: []
            async with AsyncClient(node.address, ROOT) as client:
                call = asyncio.create_task(client.admin_backup())
                await until(lambda: any(isinstance(got, BackupShard) for got in node.peers[1].received))
                node.hub.detach(1)
                with pytest.raises(KeyLoadError) as failure:
                    await call
            assert failure.value.code is ErrorCode.UNKNOWN_WRITE_OUTCOME
            asked = [got for got in node.peers[1].received if isinstance(got, BackupShard)]
            assert len(asked) == 3
            assert left_over(node) == []
            await node.idle()
            assert node.hub.outstanding <= 3

    run(main())


@pytest.mark.covers("BKP-4")
def test_leftovers_are_removed_at_the_next_start_and_backups_stay(tmp_path: Path) -> None:
    async def main() -> None:
        async with node_of() as node:
            makes_images(node)
            async with AsyncClient(node.address, ROOT) as client:
                receipt = await client.admin_backup()
            shelf = node.directory / "backups"
            (shelf / ("1" * 32)).mkdir()
            (shelf / ("1" * 32) / "shard-1.image").write_bytes(b"half")
            (shelf / ("2" * 32)).mkdir()
            (shelf / ("2" * 32) / "manifest.json.new").write_bytes(b"half")
            await node.front.backups.remove_leftovers()
            assert [path.name for path in left_over(node)] == [receipt.id]
            backup.check(shelf / receipt.id)

    run(main())
