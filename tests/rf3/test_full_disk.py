"""A node whose disk has no room: it leads nothing and acknowledges nothing, and does not die of it (STO-12).

A reserve larger than any disk makes a disk full for one node alone, without rights and without filling it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import httpx
import pytest

from harness.acknowledged import Ledger
from harness.cluster import Cluster, wait_until
from tests.rf3.test_faults import COMMANDS_AFTER, commands_more, others, write_through

NO_ROOM = {"KEYLOAD__MINIMUM_FREE_BYTES": str(1 << 44)}
HANDED_OVER_SECONDS = 20.0
_LED = re.compile(r'^keyload_shard_role\{shard="(\d+)",role="leader"\} 1$', re.MULTILINE)
_ROLE = re.compile(r'^keyload_shard_role\{shard="(\d+)",role="leader"\} [01]$', re.MULTILINE)


def shards(cluster: Cluster, number: int, which: re.Pattern[str]) -> set[str]:
    """Shards of a node by what its metrics say of their roles; none while it starts."""
    headers = {"Authorization": f"Bearer {cluster.key}"}
    try:
        answer = httpx.get(f"{cluster.node(number).url}/metrics", headers=headers, timeout=10)
    except httpx.TransportError:
        return set()
    return set(which.findall(answer.text)) if answer.status_code == httpx.codes.OK else set()


def restarted(cluster: Cluster, number: int, environment: dict[str, str]) -> Callable[[], None]:
    def restart() -> None:
        cluster.stop_node(number)
        cluster.restart(number, environment)

    return restart


@pytest.mark.covers("STO-12", "CLU-8", "CLU-10", "CLU-29")
def test_a_node_without_room_leads_nothing_and_catches_up_with_room_again(
    cluster: Cluster, seed: int
) -> None:
    number = cluster.system_leader()
    led: list[set[str]] = []
    ledger = Ledger(seed)

    async def hurt() -> None:
        await asyncio.to_thread(restarted(cluster, number, NO_ROOM))

    async def heal() -> None:
        await asyncio.to_thread(
            wait_until,
            "the full node serves its metrics and leads no shard",
            lambda: len(shards(cluster, number, _ROLE)) == 7 and not shards(cluster, number, _LED),
            HANDED_OVER_SECONDS,
        )
        before = cluster.processes(number)
        await commands_more(ledger, COMMANDS_AFTER)
        led.append(shards(cluster, number, _LED))
        assert cluster.processes(number) == before, "none of its processes died of it"
        await asyncio.to_thread(restarted(cluster, number, {}))
        await asyncio.to_thread(cluster.wait_ready, [number])

    asyncio.run(write_through(cluster, ledger, hurt, heal, others(cluster, number)))
    assert led == [set()]
