"""Partitions are bound to other shards while they are being written to (CLU-31, CLU-32)."""

from __future__ import annotations

import asyncio
import uuid
from random import Random

import pytest

from harness.acknowledged import Account, Ledger, partition_of
from harness.cluster import Cluster
from harness.doors import UNCERTAIN, Way, mcp_door, sdk_door
from keyload.client import AsyncClient
from keyload.contract.errors import ErrorCode, KeyLoadError
from tests.rf3.test_faults import others

PARTITIONS = 8
COMMANDS = 6
DEFINITE_SECONDS = 30.0


async def shards_of(client: AsyncClient) -> list[str]:
    """The data shards, by their ids."""
    found = {
        (await client.admin_partition_placement_read(partition_of(str(number)))).physical_shard_id
        for number in range(60)
    }
    return sorted(found)


async def write(cluster: Cluster, ledger: Ledger, account: Account, begin: float) -> None:
    """Command after command to one partition, from the moment others bind it on."""
    await asyncio.sleep(begin)
    place = len(ledger.accounts) % len(cluster.urls)
    opened = mcp_door if len(account.name) % 2 else sdk_door
    async with Way(cluster.urls_from(place + 1), cluster.key, opened) as way:
        for _ in range(COMMANDS):
            await ledger.write(way, account)


async def bind(cluster: Cluster, account: Account, shards: list[str], chance: Random) -> list[str]:
    """Bind one partition again and again until it holds data; the shards it was bound to, in order."""
    bound: list[str] = []
    async with AsyncClient(cluster.urls, cluster.key, timeout=DEFINITE_SECONDS) as client:
        while True:
            target = chance.choice(shards)
            revision = (await client.admin_partition_placement_read(account.partition)).directory_revision
            command = str(uuid.UUID(int=chance.getrandbits(128), version=4))
            try:
                assert await client.admin_partition_placement_bind(
                    revision, account.partition, target, command_id=command
                )
                bound.append(target)
            except KeyLoadError as error:
                if error.code is ErrorCode.UNSUPPORTED_CAPABILITY:
                    return bound
                if error.code not in {ErrorCode.CONFLICT, *UNCERTAIN}:
                    raise


async def race(cluster: Cluster, seed: int) -> None:
    chance = Random(seed)
    ledger = Ledger(seed)
    async with AsyncClient(cluster.urls, cluster.key) as client:
        shards = await shards_of(client)
    accounts = [ledger.account(f"{seed}-placed-{number}") for number in range(PARTITIONS)]
    async with asyncio.TaskGroup() as tasks:
        binders = [
            tasks.create_task(bind(cluster, account, shards, Random(f"{seed}/{account.name}")))
            for account in accounts
        ]
        for account in accounts:
            tasks.create_task(write(cluster, ledger, account, chance.uniform(0.0, 2.0)))
    assert any(binder.result() for binder in binders)
    for url in cluster.urls:
        async with AsyncClient(url, cluster.key) as client:
            for account, binder in zip(accounts, binders, strict=True):
                found = await client.admin_partition_placement_read(account.partition)
                assert found.revision == len(binder.result())
                assert not binder.result() or found.physical_shard_id == binder.result()[-1]
    await ledger.check(cluster.urls, cluster.key)


@pytest.mark.covers("CLU-31", "CLU-32", "CLU-33", "CLU-24", "TST-13")
def test_no_write_is_lost_or_doubled_while_its_partition_is_bound(cluster: Cluster, seed: int) -> None:
    asyncio.run(race(cluster, seed))


async def bind_and_kill(cluster: Cluster, seed: int) -> None:
    """Kill the leader of the directory while it binds; the outcome is there under its identity."""
    chance = Random(seed)
    async with AsyncClient(cluster.urls, cluster.key, timeout=DEFINITE_SECONDS) as client:
        shards = await shards_of(client)
        for _ in range(3):
            account = Account(f"{seed}-killed-{uuid.UUID(int=chance.getrandbits(128))}")
            before = await client.admin_partition_placement_read(account.partition)
            target = next(shard for shard in shards if shard != before.physical_shard_id)
            command = str(uuid.UUID(int=chance.getrandbits(128), version=4))
            leader = await asyncio.to_thread(cluster.system_leader)

            async def kill(leader: int = leader, pause: float = chance.uniform(0.0, 0.15)) -> None:
                await asyncio.sleep(pause)
                await asyncio.to_thread(cluster.kill_worker, leader, 0)

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(kill())
                tasks.create_task(settled(cluster, before.directory_revision, account, target, command))
            async with AsyncClient(others(cluster, leader), cluster.key, timeout=DEFINITE_SECONDS) as healthy:
                after = await healthy.admin_partition_placement_read(account.partition)
            assert after.physical_shard_id == target
            assert after.directory_revision == before.directory_revision + 1
            ledger = Ledger(chance.getrandbits(32))
            ledger.accounts[account.name] = account
            async with Way(cluster.urls, cluster.key, sdk_door) as way:
                await ledger.write(way, account)
            await ledger.check(cluster.urls, cluster.key)
            await asyncio.to_thread(cluster.wait_ready)


async def settled(cluster: Cluster, revision: int, account: Account, target: str, command: str) -> None:
    """Ask under one identity until the binding has its outcome, which must be yes."""
    async with asyncio.timeout(DEFINITE_SECONDS):
        while True:
            async with AsyncClient(cluster.urls, cluster.key, retries=0, timeout=5.0) as client:
                try:
                    assert await client.admin_partition_placement_bind(
                        revision, account.partition, target, command_id=command
                    )
                    return
                except KeyLoadError as error:
                    if error.code not in UNCERTAIN:
                        raise
            await asyncio.sleep(0.05)


@pytest.mark.covers("CLU-32", "CMD-18", "CLU-10")
def test_a_binding_outlives_the_leader_of_the_directory(cluster: Cluster, seed: int) -> None:
    asyncio.run(bind_and_kill(cluster, seed))
