"""Ports and start of local nodes, as far as no node has to run."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from keyload.node.configuration import load
from keyload.node.local import LocalCluster, LocalError
from keyload.node.ports import HOST, busy_port, free_ports, is_free, ordinary_ports
from keyload.node.profile import create


@pytest.mark.covers("CLI-14")
def test_the_ordinary_ports() -> None:
    assert ordinary_ports(3) == [(5101, 5201), (5102, 5211), (5103, 5221)]


@pytest.mark.covers("CLI-15")
def test_free_ports_are_free_and_leave_room_for_every_worker() -> None:
    pairs = free_ports(3, 4)
    ports = [port for http, peer in pairs for port in (http, *range(peer, peer + 4))]
    assert len(set(ports)) == 15
    assert all(is_free(port) for port in ports)


@pytest.mark.covers("CLI-14", "CLI-16")
def test_a_port_in_use_is_named_and_nothing_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        # not any port: those of outgoing connections have neighbours that other tests use
        ((http_port, peer_port),) = free_ports(1, 2)
        port = peer_port + 1
        taken.bind((HOST, port))
        taken.listen()
        assert busy_port([(http_port, peer_port)], 2) == port
        cluster = LocalCluster(tmp_path, create([(http_port, port)]))
        with pytest.raises(LocalError, match=f"Port {port} "):
            cluster.start()
    assert [node.process_id for node in cluster.nodes] == [None]
    assert cluster.ended() is None
    assert cluster.stop() is True


@pytest.mark.covers("CLI-19", "CLI-11")
def test_settings_of_local_nodes_are_private_valid_and_alike(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, create(free_ports(3, 2)), workers=2, shards=6)
    loaded = [load(node.settings, {}) for node in cluster.nodes]
    assert {stat.S_IMODE(node.settings.stat().st_mode) for node in cluster.nodes} == {0o600}
    assert len({settings.peers for settings in loaded}) == 1
    assert [settings.number for settings in loaded] == [1, 2, 3]
    assert {settings.data_shards for settings in loaded} == {6}
