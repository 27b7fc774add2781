"""Backups of one node under load, restored; and backup commands killed or interrupted at random moments."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from random import Random

import pytest

from harness.acknowledged import Ledger
from harness.cluster import Cluster
from harness.drill import (
    back_up_under_load,
    check_restored,
    dispatch_paused,
    keyload,
    restored_cluster,
)
from harness.load import prepare
from harness.seeds import seed_of_run
from keyload import backup
from keyload.client import AsyncClient
from keyload.contract.documents import PutDocument
from keyload.contract.shared import PartitionRef

KILLS = 4
BIG_DOCUMENTS = 24
COMMANDS = ("backup", "pack-backup", "unpack-backup", "restore", "cluster-restore")


class Made:
    """A node with a backup taken under load, at rest."""

    def __init__(
        self, directory: Path, ledger: Ledger, key: str, before: dict[str, int], backup_id: str
    ) -> None:
        self.database = directory / "node1"
        self.backup = directory / "b1"
        self.archive = directory / "b1.klarc"
        self.ledger = ledger
        self.key = key
        self.before = before
        self.id = backup_id

    def operands(self, command: str) -> Path:
        """What a command works on."""
        return {"backup": self.database, "unpack-backup": self.archive}.get(command, self.backup)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """A node alone that was written to while it made a backup, then stopped."""
    directory = tmp_path_factory.mktemp("kept")
    ledger = Ledger(seed_of_run())
    with Cluster(tmp_path_factory.mktemp("alone"), nodes=1, workers=1, shards=3) as cluster:
        asyncio.run(prepare(cluster.urls, cluster.key))
        asyncio.run(fill(cluster))
        receipt, before = asyncio.run(back_up_under_load(cluster, ledger, 1, clients=4))
        assert cluster.stop_node(1) == 0
        shutil.copytree(cluster.directory / "node1" / "backups" / receipt.id, directory / "b1")
        shutil.rmtree(cluster.directory / "node1" / "backups")
        shutil.copytree(cluster.directory / "node1", directory / "node1")
        backup.pack(directory / "b1", directory / "b1.klarc")
        yield Made(directory, ledger, cluster.key, before, receipt.id)


async def fill(cluster: Cluster) -> None:
    """Documents large enough that commands take their time."""
    text = json.dumps({"filler": "x" * 400_000})
    async with AsyncClient(cluster.urls, cluster.key) as client:
        for number in range(BIG_DOCUMENTS):
            partition = PartitionRef(
                tenant_id="system",
                database_id="harness",
                transaction_domain_id="main",
                partition_key=f"big-{number % 7}",
            )
            put = PutDocument(collection="notes", id=f"big-{number}", json=text)
            await client.documents_commit(partition, [put])


@pytest.mark.covers("BKP-2", "BKP-3", "BKP-15", "BKP-18", "BKP-19", "BKP-21", "BKP-25", "CMD-24")
def test_a_backup_under_load_restores_to_what_was_acknowledged(made: Made, tmp_path: Path) -> None:
    told = keyload("cluster-restore", made.backup, tmp_path / "new")
    with restored_cluster(told, made.key) as restored:
        held = asyncio.run(check_restored(made.ledger, restored.urls, restored.key, made.before))
        assert held >= sum(made.before.values())
        assert restored.stop_node(1) == 0
        keyload("backup", restored.directory / "node1", tmp_path / "paused")
        assert dispatch_paused(tmp_path / "paused")
        facts = keyload("verify", restored.directory / "node1")
        assert facts["incarnation"] == told["incarnation"]


def start(command: str, source: Path, target: Path) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "keyload.cli", command, str(source), str(target)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def check_result(command: str, target: Path, made: Made) -> None:
    """A target that is there is complete."""
    if command == "pack-backup":
        assert backup.inspect(target).id == made.id
    elif command in ("backup", "unpack-backup"):
        assert len(backup.checked_backup(target).manifest.shards) == 4
    else:
        database = target / "node1" if command == "cluster-restore" else target
        assert len(backup.verify(database).shards) == 4


@pytest.mark.covers("BKP-27", "BKP-13", "BKP-16")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_leaves_a_whole_result_or_none(command: str, made: Made, tmp_path: Path) -> None:
    chance = Random(f"{seed_of_run()}/{command}")
    source, target = made.operands(command), tmp_path / "t"
    started = time.monotonic()
    keyload(command, source, tmp_path / "first")
    usual = time.monotonic() - started
    check_result(command, tmp_path / "first", made)
    for _ in range(KILLS):
        process = start(command, source, target)
        time.sleep(chance.uniform(0.1, 1.0) * usual)
        process.kill()
        process.communicate()
        if target.exists():
            check_result(command, target, made)
            shutil.rmtree(target) if target.is_dir() else target.unlink()
    keyload(command, source, target)
    check_result(command, target, made)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "t"]


@pytest.mark.covers("CLI-7", "BKP-13")
@pytest.mark.parametrize(
    ("command", "number"), list(zip(COMMANDS, cycle((signal.SIGINT, signal.SIGTERM)), strict=False))
)
def test_an_interrupted_command_leaves_nothing(
    command: str, number: signal.Signals, made: Made, tmp_path: Path
) -> None:
    process = start(command, made.operands(command), tmp_path / "t")
    deadline = time.monotonic() + 60
    while not (tmp_path / ".t.partial").exists() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.send_signal(number)
    _, problem = process.communicate(timeout=60)
    if process.returncode == 0:  # it was faster; then all of it is there
        check_result(command, tmp_path / "t", made)
    else:
        assert (process.returncode, problem) == (128 + number, b"")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.covers("CLI-1", "CLI-5", "BKP-12")
def test_failures_are_problems_on_standard_error(made: Made, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    cases = [
        ("backup", made.database, tmp_path / "full", "Conflict"),
        ("pack-backup", tmp_path / "absent", tmp_path / "t", "NotFound"),
        ("unpack-backup", made.backup / "manifest.json", tmp_path / "t", "FormatUnsupported"),
        ("restore", made.backup, tmp_path / "full", "Conflict"),
        ("restore", tmp_path / "full", tmp_path / "t", "FormatUnsupported"),
        ("cluster-restore", made.backup, tmp_path / "no" / "t", "NotFound"),
        ("copy-artifact", made.backup / "manifest.json", tmp_path / "t", "FormatUnsupported"),
    ]
    for command, source, target, code in cases:
        process = start(command, source, target)
        told, problem = process.communicate(timeout=60)
        assert (process.returncode, told) == (1, b""), command
        assert json.loads(problem)["errorCode"] == code, (command, problem)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full"]


@pytest.mark.covers("BKP-7", "BKP-8", "BKP-9", "BKP-12", "CLI-1")
def test_the_typical_run_prints_id_and_position_at_each_step(made: Made, tmp_path: Path) -> None:
    steps = [
        keyload("backup", made.database, tmp_path / "b1"),
        keyload("pack-backup", tmp_path / "b1", tmp_path / "b1.klarc"),
        keyload("inspect-artifact", tmp_path / "b1.klarc"),
        keyload("copy-artifact", tmp_path / "b1.klarc", tmp_path / "store"),
        keyload("unpack-backup", tmp_path / "b1.klarc", tmp_path / "again"),
        keyload("verify", tmp_path / "again"),
        keyload("restore", tmp_path / "again", tmp_path / "new"),
        keyload("cluster-restore", tmp_path / "again", tmp_path / "cluster"),
    ]
    assert len({(step["id"], step["position"]) for step in steps}) == 1
    assert keyload("verify", tmp_path / "new")["incarnation"] == steps[6]["incarnation"]
