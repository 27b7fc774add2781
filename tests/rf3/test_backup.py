"""A backup of a cluster under load, and a cluster made of it (BKP-1..BKP-25 as far as the models exist)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

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
from keyload.backup import check
from keyload.client import Client


@pytest.mark.covers(
    "BKP-2", "BKP-3", "BKP-6", "BKP-14", "BKP-16", "BKP-18", "BKP-19", "BKP-21", "BKP-24", "BKP-25", "CMD-24"
)
def test_a_cluster_restored_from_a_backup_under_load_holds_what_was_acknowledged(
    cluster: Cluster, seed: int, tmp_path: Path
) -> None:
    ledger = Ledger(seed)
    receipt, before = asyncio.run(back_up_under_load(cluster, ledger, node=2))
    directory = cluster.directory / "node2" / "backups" / receipt.id
    manifest = check(directory).manifest
    assert (manifest.id, manifest.position) == (receipt.id, receipt.position)
    packed = keyload("pack-backup", directory, tmp_path / "b.klarc")
    unpacked = keyload("unpack-backup", tmp_path / "b.klarc", tmp_path / "b")
    told = keyload("cluster-restore", tmp_path / "b", tmp_path / "new")
    assert {step["id"] for step in (packed, unpacked, told)} == {receipt.id}
    assert {step["position"] for step in (packed, unpacked, told)} == {receipt.position}
    with restored_cluster(told, cluster.key) as restored:
        held = asyncio.run(check_restored(ledger, restored.urls, restored.key, before))
        assert held >= sum(before.values())
        restored.kill_node(restored.system_leader())
        serving = [node.number for node in restored.nodes if node.process_id is not None]
        restored.wait_ready(serving)
        url = restored.node(serving[0]).url
        with Client([restored.node(number).url for number in serving], restored.key) as client:
            assert client.admin_status().incarnation == told["incarnation"]
            home = restored.directory / restored.node(serving[0]).profile.id / "backups"
            for paused in (True, False):
                with Client(url, restored.key) as here:
                    image = home / here.admin_backup(timeout=60).id
                assert dispatch_paused(image) is paused
                client.admin_dispatch(False)


@pytest.mark.covers("BKP-17")
def test_a_restored_node_does_not_start_as_one_of_the_old_cluster(cluster: Cluster, tmp_path: Path) -> None:
    with Client(cluster.urls[0], cluster.key) as client:
        receipt = client.admin_backup(timeout=60)
    told = keyload("restore", cluster.directory / "node1" / "backups" / receipt.id, tmp_path / "alone")
    assert told["nodeId"] == "node1"
    cluster.stop_node(3)
    data = cluster.directory / "node3"
    data.rename(tmp_path / "node3")
    try:
        shutil.copytree(tmp_path / "alone", data)
        cluster.restart(3)
        assert cluster.node(3).wait(30) not in (None, 0)
        assert "Conflict" in cluster.node(3).log.read_text("utf-8").splitlines()[-1]
    finally:
        shutil.rmtree(data)
        (tmp_path / "node3").rename(data)
        cluster.restart(3)
        cluster.wait_ready()
