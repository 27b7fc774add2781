"""A node or worker is killed or paused while 16 clients write over SDK and MCP (CLU-10, CLU-14)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

import pytest

from harness.acknowledged import Ledger
from harness.cluster import FRONT_GONE_SECONDS, Cluster
from harness.load import seconds_until_served, stream_of_commits

UPPER_ELECTION_SECONDS = 2.0
PAUSE_SECONDS = 10.0
PROBES = 12
COMMANDS_BEFORE = 100
COMMANDS_AFTER = 100

Fault = Callable[[], Awaitable[None]]


async def commands_more(ledger: Ledger, count: int) -> None:
    """Wait until so many further commands have been answered."""
    wanted = len(ledger.answers) + count
    async with asyncio.timeout(60):
        while len(ledger.answers) < wanted:
            await asyncio.sleep(0.02)


async def write_through(
    cluster: Cluster, ledger: Ledger, hurt: Fault, heal: Fault, healthy: list[str]
) -> float:
    """Write, hurt, measure how soon all shards serve again, heal, write on, and check every command."""
    async with stream_of_commits(ledger, cluster.urls, cluster.key):
        await commands_more(ledger, COMMANDS_BEFORE)
        await hurt()
        seconds, trouble = await seconds_until_served(ledger, healthy, cluster.key, PROBES)
        sys.stdout.write("\n".join([f"all shards served again after {seconds:.2f} s", *trouble, ""]))
        await commands_more(ledger, COMMANDS_AFTER)
        await heal()
        await commands_more(ledger, COMMANDS_AFTER)
    await ledger.check(cluster.urls, cluster.key)
    return seconds


def others(cluster: Cluster, number: int) -> list[str]:
    return [node.url for node in cluster.nodes if node.number != number]


async def nothing() -> None:
    """The front starts a worker again by itself."""


@pytest.mark.covers("CLU-9", "CLU-10", "CLU-12", "TST-11", "TST-13", "CMD-28")
@pytest.mark.parametrize("worker", [0, 1])
def test_the_worker_of_a_leader_is_killed(cluster: Cluster, seed: int, worker: int) -> None:
    leader = cluster.system_leader()

    async def hurt() -> None:
        await asyncio.to_thread(cluster.kill_worker, leader, worker)

    ledger = Ledger(seed)
    seconds = asyncio.run(write_through(cluster, ledger, hurt, nothing, others(cluster, leader)))
    assert seconds <= 2 * UPPER_ELECTION_SECONDS
    cluster.wait_ready([leader])


@pytest.mark.covers("CLU-9", "CLU-10", "CLU-11", "TST-11", "TST-13", "CMD-28")
@pytest.mark.parametrize("distance", [0, 1, 2])
def test_a_whole_node_is_killed(cluster: Cluster, seed: int, distance: int) -> None:
    victim = (cluster.system_leader() - 1 + distance) % 3 + 1

    async def hurt() -> None:
        took = await asyncio.to_thread(cluster.kill_node, victim)
        assert took <= FRONT_GONE_SECONDS

    async def heal() -> None:
        cluster.restart(victim)
        await asyncio.to_thread(cluster.wait_ready, [victim])

    ledger = Ledger(seed)
    seconds = asyncio.run(write_through(cluster, ledger, hurt, heal, others(cluster, victim)))
    assert seconds <= 2 * UPPER_ELECTION_SECONDS


@pytest.mark.covers("CLU-10", "CLU-14", "TST-11")
def test_the_leading_node_is_paused_and_wakes_up(cluster: Cluster, seed: int) -> None:
    victim = cluster.system_leader()
    paused_at = 0.0

    async def hurt() -> None:
        nonlocal paused_at
        await asyncio.to_thread(cluster.pause, victim)
        paused_at = asyncio.get_running_loop().time()

    async def heal() -> None:
        await asyncio.sleep(max(0.0, paused_at + PAUSE_SECONDS - asyncio.get_running_loop().time()))
        await asyncio.to_thread(cluster.resume, victim)

    ledger = Ledger(seed)
    seconds = asyncio.run(write_through(cluster, ledger, hurt, heal, others(cluster, victim)))
    assert seconds <= 2 * UPPER_ELECTION_SECONDS


@pytest.mark.covers("CLU-9")
def test_a_front_that_dies_takes_its_workers_along(cluster: Cluster) -> None:
    for node in cluster.nodes:
        assert cluster.kill_node(node.number) <= FRONT_GONE_SECONDS
        cluster.restart(node.number)
        cluster.wait_ready([node.number])
