"""A voter is exchanged for a new node while clients write (CLU-19)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.acknowledged import COLLECTION, Ledger, partition_of
from harness.cluster import Cluster, HarnessError, wait_until
from harness.load import prepare, stream_of_commits
from keyload.cli.cluster import PATH
from keyload.client import AsyncClient, Client
from keyload.contract.documents import PutDocument
from keyload.contract.errors import KeyLoadError

from .conftest import STORAGE

SECONDS = 90.0
CLIENTS = 6


@pytest.fixture(scope="module")
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes that other tests do not use: their voters change. The beginning of their logs is gone, so
    that a new node needs snapshots.
    """
    directory = tmp_path_factory.mktemp("replacement")
    with Cluster(directory, shards=3, settings={"storage": STORAGE}) as cluster:
        asyncio.run(prepare(cluster.urls, cluster.key))
        asyncio.run(write_much(cluster))
        wait_until("the logs begin anew", lambda: all(begins_anew(cluster, n) for n in (1, 2, 3)), SECONDS)
        yield cluster


async def write_much(cluster: Cluster) -> None:
    """Several segments of log in every worker."""
    content = json.dumps({"filler": "x" * 100_000})
    async with AsyncClient(cluster.urls, cluster.key) as client:
        for number in range(80):
            put = PutDocument(collection=COLLECTION, id="one", json=content)
            await client.documents_commit(partition_of(f"much {number}"), [put])


def begins_anew(cluster: Cluster, number: int) -> bool:
    """Whether every worker of a node has dropped the first part of its log."""
    node = cluster.directory / cluster.node(number).profile.id
    return all(
        not (node / f"worker-{worker}" / "wal" / "0001.log").exists() for worker in range(cluster.workers)
    )


Hurt = Callable[[], None]


def nothing() -> None:
    """Let the exchange run undisturbed."""


def entry_file(cluster: Cluster, number: int) -> Path:
    """The entry of a new node, for the command."""
    name = cluster.node(number).profile.id
    [entry] = [peer for peer in cluster.settings(number)["peers"] if peer["id"] == name]
    path = cluster.directory / f"{name}.entry.json"
    path.write_text(json.dumps(entry), encoding="utf-8")
    return path


def command(cluster: Cluster, leaving: int, new: int, through: int) -> subprocess.Popen[bytes]:
    """`keyload cluster replace`, started."""
    words = ["cluster", "replace", cluster.node(leaving).profile.id, "--with", str(entry_file(cluster, new))]
    return started(cluster, words, through)


def started(cluster: Cluster, words: list[str], through: int) -> subprocess.Popen[bytes]:
    """A command through one node, started."""
    return subprocess.Popen(
        [sys.executable, "-m", "keyload.cli", *words, "--url", cluster.node(through).url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"KEYLOAD_API_KEY": cluster.key, "PATH": "/usr/bin:/bin"},
    )


def outcome(process: subprocess.Popen[bytes]) -> tuple[int, list[Any], str]:
    """Status, progress lines and errors of a command that has been started."""
    out, errors = process.communicate(timeout=SECONDS)
    return process.returncode, [json.loads(line) for line in out.splitlines()], errors.decode()


async def exchange_under_load(
    cluster: Cluster, seed: int, leaving: int, staying_on: list[int], hurt: Hurt = nothing
) -> Ledger:
    """Exchange a voter while clients write through the nodes that stay; nothing acknowledged is lost.

    `hurt` is called once the exchange is under way.
    """
    ledger = Ledger(seed)
    staying = [cluster.node(number).url for number in staying_on]
    new = cluster.newcomer(leaving)
    new.start()
    async with stream_of_commits(ledger, staying, cluster.key, CLIENTS):
        await asyncio.sleep(1.0)
        process = command(cluster, leaving, new.number, staying_on[0])
        hurting = asyncio.create_task(asyncio.to_thread(hurt))
        status, progress, errors = await asyncio.to_thread(outcome, process)
        sys.stdout.write(f"{progress}\n{errors}\n")
        await hurting
        assert status == 0
        assert progress[-1]["replacing"] is None
        assert cluster.node(new.number).profile.id in progress[-1]["voters"]
        assert cluster.node(leaving).profile.id not in progress[-1]["voters"]
        written = len(ledger.answers)
        while len(ledger.answers) < written + 50:
            await asyncio.sleep(0.02)
    await asyncio.to_thread(cluster.wait_ready, [new.number])
    assert any(line["category"] == "snapshot-installed" for line in cluster.log_lines(new.number))
    await ledger.check([*staying, new.url], cluster.key)
    return ledger


def follows(cluster: Cluster, numbers: list[int]) -> None:
    """The guard record of every voter has followed, and says so in the log."""
    ids = [cluster.node(number).profile.id for number in numbers]
    for number in numbers:
        path = cluster.directory / cluster.node(number).profile.id / "identity.json"
        wait_until(
            f"the guard record of {path.parent.name} has followed",
            lambda path=path: sorted(json.loads(path.read_bytes())["guard"]["voters"]) == sorted(ids),
            10.0,
        )


@pytest.mark.covers("CLU-19", "CLU-6", "CLU-21", "TST-11")
def test_voters_are_exchanged_under_load(own_cluster: Cluster, seed: int) -> None:
    cluster = own_cluster
    first = asyncio.run(exchange_under_load(cluster, seed + 1, 2, [1, 3]))
    follows(cluster, [1, 3, 4])
    leaving = cluster.system_leader([1, 3, 4])
    staying = [number for number in (1, 3, 4) if number != leaving]

    def kill_leaders() -> None:
        """Of every shard in turn, on the nodes that stay, once the new node takes part."""
        wait_until("a learner is there", lambda: bool(changes(cluster, [leaving, *staying])), SECONDS)
        for number in staying:
            for worker in range(cluster.workers):
                cluster.kill_worker(number, worker)
                wait_until("the worker is back", partial(runs, cluster, number, worker), 20.0)

    second = asyncio.run(exchange_under_load(cluster, seed + 2, leaving, staying, kill_leaders))
    voters = [*staying, 5]
    follows(cluster, voters)
    for gone in (2, leaving):
        cluster.stop_node(gone)
        cluster.restart(gone)
    with (
        Client(cluster.node(2).url, cluster.key, retries=0, timeout=3) as client,
        pytest.raises(KeyLoadError),
    ):
        client.admin_status()
    assert not cluster.node(2).is_ready()
    restart_all(cluster, voters)
    urls = [cluster.node(number).url for number in voters]
    asyncio.run(check(cluster, [first, second], urls))


def changes(cluster: Cluster, numbers: list[int]) -> list[Any]:
    """Changes of memberships for the second exchange that leaders have logged."""
    lines = (line for number in numbers for line in cluster.log_lines(number))
    return [line for line in lines if line["category"] == "membership-changed" and "5" in line["members"]]


def runs(cluster: Cluster, number: int, worker: int) -> bool:
    try:
        cluster.worker(number, worker)
    except HarnessError:
        return False
    return True


def restart_all(cluster: Cluster, voters: list[int]) -> None:
    """Former settings are refused at the next start, those with the present voters taken."""
    for number in voters:
        assert cluster.stop_node(number) == 0
    old = next(number for number in voters if number < 4)
    cluster.restart(old)
    assert cluster.node(old).wait(20.0) == 1
    assert "guard record" in cluster.node(old).log.read_text(encoding="utf-8")
    peers = cluster.settings(5)["peers"]
    for number in voters:
        cluster.write_settings(number, cluster.settings(number) | {"peers": peers})
        cluster.restart(number)
    cluster.wait_ready(voters)


async def check(cluster: Cluster, ledgers: list[Ledger], urls: list[str]) -> None:
    for ledger in ledgers:
        await ledger.check(urls, cluster.key)
    async with AsyncClient(urls, cluster.key) as client:
        status = await client.admin_status()
        assert status.voters == 3


@pytest.mark.covers("CLU-19")
def test_an_exchange_needs_a_healthy_majority_and_a_lost_one_is_withdrawn(cluster: Cluster) -> None:
    entry = {
        "id": "nodeX",
        "publicEndpoint": "http://127.0.0.1:9",
        "peerAddress": "127.0.0.1:9",
        "publicKey": "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7",
    }
    path = cluster.directory / "nodeX.entry.json"
    path.write_text(json.dumps(entry), encoding="utf-8")
    leader = cluster.system_leader()
    dead = next(number for number in (1, 2, 3) if number != leader)
    other = next(number for number in (1, 2, 3) if number not in (leader, dead))
    url = cluster.node(leader).url
    wish = {"node": cluster.node(other).profile.id, "with": entry}
    with httpx.Client(headers={"authorization": f"Bearer {cluster.key}"}, timeout=10) as client:
        assert client.post(f"{url}{PATH}", json=wish).json()["replacing"]["with"] == "nodeX"
        process = started(cluster, ["cluster", "keep"], leader)
        status, progress, errors = outcome(process)
        sys.stdout.write(f"{progress}\n{errors}\n")
        assert (status, progress[-1]["replacing"]) == (0, None)
        assert "nodeX" not in progress[-1]["voters"]
        cluster.stop_node(dead)
        try:
            wait_until("the leader misses it", lambda: refused(client, url, wish), 20.0)
        finally:
            cluster.restart(dead)


def refused(client: httpx.Client, url: str, wish: dict[str, Any]) -> bool:
    """Whether the wish is refused; one that was taken too early is withdrawn."""
    answer = client.post(f"{url}{PATH}", json=wish).json()
    if answer.get("replacing") is not None:
        client.request("DELETE", f"{url}{PATH}")
        return False
    return "Of the other voters" in answer.get("detail", "")
