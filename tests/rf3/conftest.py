"""One cluster of three nodes for the whole suite; every test begins with all nodes serving."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from random import Random

import pytest

from harness.cluster import Cluster
from harness.load import prepare
from harness.seeds import VARIABLE, seed_of_run

STORAGE = {
    "checkpointMs": 1000,
    "checkpointLogBytes": 1 << 18,
    "segmentBytes": 1 << 20,
    "retainedLogBytes": 8 << 20,
}
"""Checkpoints every second and a short log, so that a node that was away needs a snapshot soon."""


@pytest.fixture(scope="session")
def run_seed() -> int:
    """The number all random choices of the run come from."""
    return seed_of_run()


@pytest.fixture
def seed(request: pytest.FixtureRequest, run_seed: int) -> int:
    """The number all random choices of one test come from, and the names it gives: no two tests on one
    cluster may share them."""
    sys.stdout.write(f"{VARIABLE}={run_seed}\n")
    return Random(f"{run_seed} {request.node.nodeid}").getrandbits(40)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes with two workers and six data shards, and a network between them that can be cut."""
    with Cluster(tmp_path_factory.mktemp("rf3"), settings={"storage": STORAGE}, proxied=True) as cluster:
        asyncio.run(prepare(cluster.urls, cluster.key))
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    """The cluster, healed from what an earlier test did to it."""
    running.network.heal()
    for node in running.nodes:
        running.resume(node.number)
        if node.process_id is None:
            running.restart(node.number)
    running.wait_ready()
    return running
