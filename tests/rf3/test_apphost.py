"""The app host and the command line as a person uses them (cli.md)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.cluster import Cluster, wait_until

READY_SECONDS = 60.0
END_SECONDS = 5.0


class Host:
    """A running `apphost --ephemeral` with its lines so far."""

    def __init__(self, directory: Path) -> None:
        environment = os.environ | {"TMPDIR": str(directory)}
        self.directory = directory
        self.log = directory / "host.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "apphost", "--ephemeral"],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )

    def lines(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").splitlines()

    def fronts(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    started = Host(tmp_path)
    try:
        wait_until("the app host is ready", lambda: "ready" in started.lines(), READY_SECONDS)
        yield started
    finally:
        started.process.kill()
        started.process.wait()


@pytest.mark.covers("CLI-14", "CLI-15", "CLI-19", "CLI-21", "TST-23")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_app_host_stops_everything_it_started(host: Host, number: signal.Signals) -> None:
    assert sum(line.startswith(("node1: http", "node2: http", "node3: http")) for line in host.lines()) == 3
    everything = psutil.Process(host.process.pid).children(recursive=True)
    assert len(everything) == 6
    host.process.send_signal(number)
    assert host.process.wait(40) == 0
    assert not any(process.is_running() for process in everything)
    assert [path.name for path in host.directory.iterdir()] == ["host.log"]


@pytest.mark.covers("CLI-20", "CLI-22", "TST-23")
def test_a_node_that_ends_unexpectedly_ends_the_run(host: Host) -> None:
    fronts = host.fronts()
    started = time.monotonic()
    fronts[0].kill()
    assert host.process.wait(40) == 1
    assert time.monotonic() - started < END_SECONDS
    assert not any(process.is_running() for process in fronts)


def keyload(*words: str, key: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "KEYLOAD_API_KEY"}
    if key is not None:
        environment["KEYLOAD_API_KEY"] = key
    command = [sys.executable, "-m", "keyload.cli", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.covers("CLI-1", "CLI-3")
def test_status_tells_about_the_node_asked(cluster: Cluster) -> None:
    for node in cluster.nodes:
        done = keyload("status", node.url, key=cluster.key)
        assert done.returncode == 0
        assert json.loads(done.stdout)["nodeId"] == node.profile.id
        assert cluster.key not in done.stdout + done.stderr


@pytest.mark.covers("CLI-1", "SEC-2", "SEC-14")
def test_a_key_is_made_shown_once_used_and_revoked(cluster: Cluster) -> None:
    url = cluster.urls[0]
    made = json.loads(keyload("key", "create", "root", "--url", url, key=cluster.key).stdout)
    for other in cluster.urls:
        assert keyload("status", other, key=made["key"]).returncode == 0
    revoked = keyload("key", "revoke", made["id"], f"--url={url}", key=cluster.key)
    assert json.loads(revoked.stdout) == {"id": made["id"], "revoked": True}
    for other in cluster.urls:
        refused = keyload("status", other, key=made["key"])
        assert refused.returncode == 1
        assert json.loads(refused.stderr)["errorCode"] == "Unauthenticated"


@pytest.mark.covers("CLI-4", "CLU-11")
def test_three_reasons_for_no_status_have_three_messages(cluster: Cluster) -> None:
    first, second, third = cluster.urls
    wrong = keyload("status", first, key="nobody.nothing")
    cluster.kill_node(2)
    cluster.kill_node(3)
    gone = keyload("status", second, key=cluster.key)
    minority = keyload("status", first, key=cluster.key)
    problems = [json.loads(done.stderr) for done in (wrong, gone, minority)]
    assert [done.returncode for done in (wrong, gone, minority)] == [1, 1, 1]
    assert len({problem["detail"] for problem in problems}) == 3
    assert third not in wrong.stderr


@pytest.mark.covers("CLU-6", "CLU-28", "CLU-30", "CLI-12")
def test_nodes_stop_in_order_and_come_back_with_their_data(cluster: Cluster) -> None:
    for node in cluster.nodes:
        assert cluster.stop_node(node.number) == 0
    cluster.restart(1)
    wait_until(
        "the first node lives",
        lambda: keyload("status", cluster.urls[0], key=cluster.key).returncode == 1,
        30,
    )
    assert not cluster.node(1).is_ready()
    cluster.restart(2)
    cluster.restart(3)
    cluster.wait_ready()
