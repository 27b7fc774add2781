"""The local profile: made once, private, and tied to the data beside it (CLI-16)."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from keyload.node.configuration import settings_of
from keyload.node.launching import guard_digest, identity, worker_launch
from keyload.node.local import shared_settings
from keyload.node.profile import FILE_NAME, ProfileError, create, load, load_or_create

PORTS = [(5101, 5201), (5102, 5211), (5103, 5221)]
MOVED = [(6101, 6201), (6102, 6211), (6103, 6221)]


@pytest.mark.covers("CLI-16")
def test_a_profile_is_made_once_private_and_used_again(tmp_path: Path) -> None:
    first = load_or_create(tmp_path / "cluster", PORTS)
    path = tmp_path / "cluster" / FILE_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert load_or_create(tmp_path / "cluster", PORTS) == first
    assert [path.name] == [child.name for child in path.parent.iterdir()]
    assert len({node.secret_key for node in first.nodes}) == 3
    assert first.admin_key.startswith("root.")


@pytest.mark.covers("CLI-16")
def test_addresses_may_change_only_while_there_is_no_data(tmp_path: Path) -> None:
    first = load_or_create(tmp_path, PORTS)
    moved = load_or_create(tmp_path, MOVED)
    assert (moved.incarnation, moved.admin_key) == (first.incarnation, first.admin_key)
    assert [node.http_port for node in moved.nodes] == [6101, 6102, 6103]
    (tmp_path / "node1").mkdir()
    with pytest.raises(ProfileError, match="addresses"):
        load_or_create(tmp_path, PORTS)
    with pytest.raises(ProfileError, match="number"):
        load_or_create(tmp_path, MOVED[:1])
    assert load_or_create(tmp_path, MOVED) == moved


@pytest.mark.covers("CLI-16")
def test_data_without_a_profile_is_refused(tmp_path: Path) -> None:
    (tmp_path / "node2").mkdir()
    with pytest.raises(ProfileError, match="node2"):
        load_or_create(tmp_path, PORTS)
    assert not (tmp_path / FILE_NAME).exists()


def damaged(change: dict[str, Any]) -> str:
    tree = json.loads(json.dumps(dict(_tree())))
    return json.dumps(tree | change)


def _tree() -> dict[str, Any]:
    profile = create(PORTS)
    return {
        "version": 1,
        "incarnation": profile.incarnation,
        "signingKey": profile.signing_key,
        "adminKey": profile.admin_key,
        "nodes": [
            {
                "id": node.id,
                "publicKey": node.public_key,
                "secretKey": node.secret_key,
                "httpPort": node.http_port,
                "peerPort": node.peer_port,
            }
            for node in profile.nodes
        ],
    }


@pytest.mark.covers("CLI-16")
@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[1]",
        damaged({"version": 2}),
        damaged({"incarnation": "x"}),
        damaged({"signingKey": "AAAA"}),
        damaged({"adminKey": "root.short"}),
        damaged({"nodes": []}),
        damaged({"more": 1}),
        damaged({"nodes": [_tree()["nodes"][0] | {"publicKey": _tree()["nodes"][1]["publicKey"]}]}),
        " " * 70_000,
    ],
)
def test_an_invalid_profile_is_refused_and_kept(tmp_path: Path, content: str) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(content, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(ProfileError):
        load_or_create(tmp_path, PORTS)
    assert path.read_text(encoding="utf-8") == content


@pytest.mark.covers("CLI-16", "CLI-3")
def test_a_profile_that_others_can_read_is_refused(tmp_path: Path) -> None:
    load_or_create(tmp_path, PORTS)
    path = tmp_path / FILE_NAME
    path.chmod(0o644)
    with pytest.raises(ProfileError, match="only its owner"):
        load(path)


@pytest.mark.covers("CLI-19", "CLU-1", "CLU-21", "ADM-22")
def test_nodes_of_one_profile_share_a_guard_and_differ_in_their_own(tmp_path: Path) -> None:
    profile = create(PORTS)
    shared = shared_settings(profile, 2, 6)

    def settings(place: int, **changes: Any) -> Any:
        node = profile.nodes[place]
        own = {
            "nodeId": node.id,
            "publicEndpoint": node.url,
            "dataDirectory": str(tmp_path / node.id),
            "peerSecretKey": node.secret_key,
        }
        return settings_of(own | shared | changes)

    guards = {guard_digest(settings(place)) for place in range(3)}
    assert len(guards) == 1
    assert guard_digest(settings(0, shards=7)) not in guards
    assert guard_digest(settings(0, outbox={"maxRecords": 5})) not in guards
    assert guard_digest(settings(0, minimumFreeBytes=0)) in guards
    assert identity(settings(1)).node_id == "node2"
    launch = worker_launch(settings(2), 1, "ipc://somewhere")
    assert (launch.node_number, launch.worker, launch.workers, launch.shards) == (3, 1, 2, 6)
    assert [(peer.number, peer.host, peer.port) for peer in launch.peers] == [
        (1, "127.0.0.1", 5201),
        (2, "127.0.0.1", 5211),
        (3, "127.0.0.1", 5221),
    ]
    assert launch.durability == "QuorumDurable"
    assert launch.secret_key == profile.nodes[2].secret_key


@pytest.mark.covers("CMD-32", "CLU-1")
def test_a_node_alone_has_no_peers_and_promises_less(tmp_path: Path) -> None:
    profile = create(PORTS[:1])
    own = {"nodeId": "node1", "publicEndpoint": profile.nodes[0].url, "dataDirectory": str(tmp_path)}
    settings = settings_of(own | shared_settings(profile, 1, None))
    launch = worker_launch(settings, 0, "ipc://somewhere")
    assert (launch.peers, launch.secret_key, launch.durability) == ([], "", "LocalDurable")
