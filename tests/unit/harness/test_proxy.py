"""The network between nodes does what it is told to (CLU-14)."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator

import pytest

from harness.proxy import HOST, MAX_BUFFERED, PeerProxy, Route
from keyload.node.ports import free_ports

QUIET_SECONDS = 0.15
PATIENCE_SECONDS = 10.0


class Network:
    """A proxy with the links (1, 2) and (2, 1), and what listens behind each."""

    def __init__(self) -> None:
        self.listeners = {pair: socket.create_server((HOST, 0)) for pair in ((1, 2), (2, 1))}
        self.ports = {pair: port for pair, (port, _) in zip(self.listeners, free_ports(2, 1), strict=True)}
        self.proxy = PeerProxy(
            Route(*pair, self.ports[pair], self.listeners[pair].getsockname()[1]) for pair in self.listeners
        )
        self.opened: list[socket.socket] = []

    def connect(self, pair: tuple[int, int]) -> tuple[socket.socket, socket.socket]:
        """Both ends of a connection over a link."""
        near = socket.create_connection((HOST, self.ports[pair]), PATIENCE_SECONDS)
        self.listeners[pair].settimeout(PATIENCE_SECONDS)
        far, _ = self.listeners[pair].accept()
        far.settimeout(PATIENCE_SECONDS)
        self.opened += [near, far]
        return near, far

    def close(self) -> None:
        self.proxy.close()
        for one in (*self.opened, *self.listeners.values()):
            one.close()


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network()
    yield made
    made.close()


def is_quiet(far: socket.socket) -> bool:
    far.settimeout(QUIET_SECONDS)
    try:
        far.recv(1)
    except TimeoutError:
        return True
    finally:
        far.settimeout(PATIENCE_SECONDS)
    return False


def as_much_as_it_takes(near: socket.socket) -> bytearray:
    near.settimeout(QUIET_SECONDS)
    sent = bytearray()
    while True:
        block = os.urandom(1 << 16)
        try:
            sent += block[: near.send(block)]
        except TimeoutError:
            return sent


def is_over(end: socket.socket) -> bool:
    try:
        return end.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.covers("CLU-14")
def test_a_cut_concerns_one_direction_and_heals(network: Network) -> None:
    (near, far), (other_near, other_far) = network.connect((1, 2)), network.connect((2, 1))
    near.sendall(b"a")
    assert far.recv(10) == b"a"
    network.proxy.cut((1, 2))
    near.sendall(b"b")
    assert is_quiet(far)
    far.sendall(b"c")
    assert near.recv(10) == b"c"
    other_near.sendall(b"d")
    assert other_far.recv(10) == b"d"
    later_near, later_far = network.connect((1, 2))
    later_near.sendall(b"e")
    assert is_quiet(later_far)
    network.proxy.heal()
    assert (far.recv(10), later_far.recv(10)) == (b"b", b"e")


@pytest.mark.covers("CLU-14")
def test_an_isolated_node_hears_nothing_and_is_not_heard(network: Network) -> None:
    connections = [network.connect((1, 2)), network.connect((2, 1))]
    network.proxy.isolate(2)
    for near, far in connections:
        near.sendall(b"x")
        assert is_quiet(far)


@pytest.mark.covers("CLU-14", "CLU-22")
def test_a_cut_link_takes_only_so_much(network: Network) -> None:
    near, far = network.connect((1, 2))
    network.proxy.cut((1, 2))
    sent = as_much_as_it_takes(near)
    assert len(sent) < 16 * MAX_BUFFERED
    network.proxy.heal()
    arrived = bytearray()
    while len(arrived) < len(sent):
        arrived += far.recv(1 << 20)
    assert arrived == sent


@pytest.mark.covers("CLU-14")
def test_what_is_delayed_arrives_later_in_order(network: Network) -> None:
    near, far = network.connect((1, 2))
    network.proxy.delay(0.2, (1, 2))
    started = time.monotonic()
    near.sendall(b"first")
    assert far.recv(5) == b"first"
    assert time.monotonic() - started >= 0.2
    near.sendall(b"second")
    network.proxy.delay(0.0, (1, 2))
    near.sendall(b"third")
    arrived = b""
    while len(arrived) < 11:
        arrived += far.recv(11)
    assert arrived == b"secondthird"


@pytest.mark.covers("CLU-14")
def test_a_reset_breaks_connections_and_new_ones_pass(network: Network) -> None:
    near, far = network.connect((1, 2))
    network.proxy.reset((1, 2))
    assert is_over(near)
    assert is_over(far)
    near, far = network.connect((1, 2))
    near.sendall(b"x")
    assert far.recv(1) == b"x"


@pytest.mark.covers("CLU-14")
def test_the_end_of_one_side_reaches_the_other(network: Network) -> None:
    near, far = network.connect((1, 2))
    far.close()
    assert is_over(near)
    network.listeners[1, 2].close()
    with socket.create_connection((HOST, network.ports[1, 2]), PATIENCE_SECONDS) as refused:
        assert is_over(refused)
