"""Clients race on documents through every node while the cluster is hurt; every history is judged."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from random import Random

import pytest

from harness.cluster import Cluster
from harness.faults import FaultKind, draw, inflict
from harness.history.calls import Kind, save
from harness.history.clients import Round
from harness.history.outcomes import judge
from harness.load import ballast
from keyload.link.log import Category

VARIABLE = "KEYLOAD_HISTORY_SECONDS"
"""How long further rounds are begun; without it every fault comes once."""

LEAD_SECONDS = 1.0
LEAST_CALLS = 50


@pytest.fixture(scope="session")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the histories are kept."""
    results = os.environ.get("KEYLOAD_RESULTS")
    return Path(results) if results else tmp_path_factory.mktemp("histories")


async def one_round(cluster: Cluster, name: str, kinds: list[FaultKind], seed: int, path: Path) -> list[str]:
    """Race under faults one after the other; what is wrong with the history."""
    chance = Random(seed)
    faults = [draw(kind, chance, len(cluster.nodes), cluster.workers) for kind in kinds]
    clients = Round(name, cluster.urls, cluster.key, seed)
    started = time.monotonic()
    try:
        async with ballast(cluster.urls, cluster.key, name), clients:
            await asyncio.sleep(LEAD_SECONDS)
            for fault in faults:
                await inflict(cluster, fault)
            await asyncio.sleep(LEAD_SECONDS)
            doubtful = clients.in_doubt
    finally:
        save(clients.calls, path)
    writes = sum(call.kind is not Kind.GET for call in clients.calls)
    hurt = "; ".join(map(str, faults))
    sys.stdout.write(
        f"{name}: {hurt}: {len(clients.calls)} calls, {writes} writes, {doubtful} in doubt, "
        f"{time.monotonic() - started:.1f} s\n"
    )
    assert len(clients.calls) >= LEAST_CALLS
    return judge(clients.calls)


@pytest.mark.covers(
    "CLU-10",
    "CLU-14",
    "CLU-15",
    "CLU-18",
    "CLU-24",
    "CMD-18",
    "CMD-28",
    "CMD-29",
    "CMD-30",
    "TST-11",
    "TST-12",
    "TST-13",
)
def test_histories_under_faults_are_linearizable(cluster: Cluster, seed: int, histories: Path) -> None:
    chance = Random(seed)
    kinds = chance.sample(list(FaultKind), len(FaultKind))
    until = time.monotonic() + float(os.environ.get(VARIABLE, "0"))
    number = 0
    while number < len(kinds) or time.monotonic() < until:
        chosen = [kinds[number]] if number < len(kinds) else chance.choices(kinds, k=chance.randint(1, 3))
        name = f"history-{seed}-{number}"
        faults = asyncio.run(
            one_round(cluster, name, chosen, chance.randrange(2**32), histories / f"{name}.jsonl")
        )
        assert not faults, f"seed {seed}, {name} after {chosen}:\n" + "\n".join(faults[:10])
        number += 1
    installed = [
        line
        for node in cluster.nodes
        for line in cluster.log_lines(node.number)
        if line.get("category") == Category.SNAPSHOT_INSTALLED
    ]
    sys.stdout.write(f"{len(installed)} snapshots were installed\n")
    assert installed, "the erased node was to need a snapshot"
