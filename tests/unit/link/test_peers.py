"""Peer links over real sockets: CURVE keys decide who is heard, the guard record who is understood."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
import zmq

from keyload.link.launch import PeerAddress
from keyload.link.log import Category
from keyload.link.messages import Command, Forward, ForwardReply, PeerToPeer, Raft
from keyload.link.peers import FIRST_PATIENCE, PeerLinks
from tests.unit.worker.support import free_port

GUARD = b"guard-of-the-cluster"


class Node:
    """One node's links with the categories it reported."""

    def __init__(self, me: int, peers: list[PeerAddress], secret: str, guard: bytes = GUARD) -> None:
        self.reports: list[str] = []
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.links = PeerLinks(
            self.context,
            me=me,
            worker=0,
            peers=peers,
            secret_key=secret,
            guard=guard,
            report=self.reports.append,
        )

    def close(self) -> None:
        self.links.close()
        self.context.term()


@pytest.fixture
def nodes() -> Iterator[Callable[..., Node]]:
    made: list[Node] = []

    def make(*args: object, **options: object) -> Node:
        node = Node(*args, **options)  # type: ignore[arg-type]
        made.append(node)
        return node

    yield make
    for node in made:
        node.close()


def voters() -> tuple[list[PeerAddress], list[str]]:
    pairs = [zmq.curve_keypair() for _ in range(2)]
    peers = [
        PeerAddress(number, f"node{number}", "127.0.0.1", free_port(), public.decode())
        for number, (public, _) in enumerate(pairs, 1)
    ]
    return peers, [secret.decode() for _, secret in pairs]


def exchange(
    sender: Node, receiver: Node, message: PeerToPeer, until: Callable[[list[tuple[int, PeerToPeer]]], bool]
) -> list[tuple[int, PeerToPeer]]:
    """Send again and again, as consensus does, until the receiver has it or 5 s have passed."""
    heard: list[tuple[int, PeerToPeer]] = []
    poller = zmq.Poller()
    for item in (sender.links.gate, sender.links.inbox, receiver.links.gate, receiver.links.inbox):
        poller.register(item, zmq.POLLIN)
    deadline = time.monotonic() + 5
    while not until(heard) and time.monotonic() < deadline:
        sender.links.send(2, message)
        sender.links.flush()
        poller.poll(20)
        receiver.links.answer_handshakes()
        sender.links.answer_handshakes()
        heard.extend(receiver.links.receive())
    return heard


@pytest.mark.covers("CLU-20")
def test_a_voter_is_heard_and_known_by_its_key(nodes: Callable[..., Node]) -> None:
    peers, secrets = voters()
    one, two = nodes(1, peers, secrets[0]), nodes(2, peers, secrets[1])
    heard = exchange(one, two, Raft(0, b"hello"), until=bool)
    assert heard[0] == (1, Raft(0, b"hello"))
    assert two.reports == []


@pytest.mark.covers("CLU-20", "CLU-23")
def test_an_unknown_key_is_refused_at_the_handshake(nodes: Callable[..., Node]) -> None:
    peers, secrets = voters()
    two = nodes(2, peers, secrets[1])
    public, secret = (key.decode() for key in zmq.curve_keypair())
    mine = [PeerAddress(1, "node1", "127.0.0.1", free_port(), public), peers[1]]
    stranger = nodes(1, mine, secret)
    heard = exchange(
        stranger, two, Raft(0, b"let me in"), until=lambda _: Category.PEER_KEY_UNKNOWN in two.reports
    )
    assert heard == []
    assert set(two.reports) == {Category.PEER_KEY_UNKNOWN}


@pytest.mark.covers("CLU-20")
def test_a_node_with_our_own_key_is_refused(nodes: Callable[..., Node]) -> None:
    """Two nodes set up with one key: neither may speak in the name of the one it speaks to."""
    peers, secrets = voters()
    two = nodes(2, peers, secrets[1])
    twin = [PeerAddress(1, "node1", "127.0.0.1", free_port(), peers[1].public_key), peers[1]]
    double = nodes(1, twin, secrets[1])
    heard = exchange(double, two, Raft(0, b"I am you"), until=lambda heard: bool(heard or two.reports))
    assert heard == []
    assert set(two.reports) == {Category.PEER_KEY_UNKNOWN}


@pytest.mark.covers("CLU-21")
def test_another_guard_is_refused_and_reported(nodes: Callable[..., Node]) -> None:
    peers, secrets = voters()
    one, two = nodes(1, peers, secrets[0], guard=b"another cluster"), nodes(2, peers, secrets[1])
    heard = exchange(one, two, Raft(0, b"hello"), until=lambda _: bool(two.reports))
    assert heard == []
    assert set(two.reports) == {Category.PEER_GUARD_DIFFERS}


@pytest.mark.covers("CLU-22")
def test_what_does_not_fit_is_dropped_and_commands_are_handed_back(nodes: Callable[..., Node]) -> None:
    peers, secrets = voters()
    one = nodes(1, peers, secrets[0])
    command = Command(1, 1, "op", "p", 1, b"i" * 16, b"f" * 32, None, b"")
    forward, reply = Forward(3, 1, command), ForwardReply(4, False, b"{}")
    for message in (forward, Raft(0, b"x"), reply):
        one.links.send(2, message)
    assert one.links.flush() == [(2, forward), (2, reply)]
    assert one.links.flush() == []


def address(number: int) -> tuple[PeerAddress, str]:
    public, secret = zmq.curve_keypair()
    return PeerAddress(number, f"node{number}", "127.0.0.1", free_port(), public.decode()), secret.decode()


@pytest.mark.covers("CLU-19", "CLU-20")
def test_a_peer_that_comes_is_heard_and_one_that_goes_is_not(nodes: Callable[..., Node]) -> None:
    (first, secret), (new, new_secret), (third, third_secret) = address(1), address(2), address(3)
    two = nodes(2, [new, first], new_secret)
    one = nodes(1, [first, third], secret)
    three = nodes(3, [first, third, new], third_secret)
    assert exchange(one, two, Raft(0, b"to nobody"), until=lambda _: not one.links.flush()) == []
    one.links.update([first, third, new])
    assert exchange(one, two, Raft(0, b"hello"), until=bool)[0] == (1, Raft(0, b"hello"))
    two.links.update([new, third])
    refused = exchange(one, two, Raft(0, b"old"), until=lambda _: Category.PEER_KEY_UNKNOWN in two.reports)
    assert refused == []
    assert exchange(three, two, Raft(0, b"hello"), until=bool)[0] == (3, Raft(0, b"hello"))


@pytest.mark.covers("CLU-19", "CLU-21")
def test_a_refused_node_tries_again_a_little_later(nodes: Callable[..., Node]) -> None:
    (first, secret), (new, new_secret) = address(1), address(2)
    one, two = nodes(1, [first, new], secret), nodes(2, [new], new_secret)
    exchange(one, two, Raft(0, b"too early"), until=lambda _: Category.PEER_KEY_UNKNOWN in two.reports)
    two.links.update([first, new])
    now = 0.0

    def tick(heard: object) -> bool:
        nonlocal now
        now += 0.1
        one.links.tick(now)
        return bool(heard)

    assert exchange(one, two, Raft(0, b"hello"), until=tick)[0] == (1, Raft(0, b"hello"))
    assert two.reports.count(Category.PEER_KEY_UNKNOWN) == 1


@pytest.mark.covers("CLU-21")
def test_refusals_grow_further_apart(nodes: Callable[..., Node]) -> None:
    (first, secret), (new, new_secret) = address(1), address(2)
    one, two = nodes(1, [first, new], secret), nodes(2, [new], new_secret)
    now, instants = 0.0, [0.0]

    def tick(_: object) -> bool:
        nonlocal now
        now += 0.1
        one.links.tick(now)
        if two.reports.count(Category.PEER_KEY_UNKNOWN) == len(instants):
            instants.append(now)
        return len(instants) > 4

    exchange(one, two, Raft(0, b"hello"), until=tick)
    waits = [later - earlier for earlier, later in pairwise(instants[1:])]
    assert waits == sorted(waits)
    assert waits[0] >= FIRST_PATIENCE - 0.2


@pytest.mark.covers("CLU-21")
def test_who_has_nothing_to_say_knocks_at_no_door(nodes: Callable[..., Node]) -> None:
    (first, secret), (new, new_secret) = address(1), address(2)
    one, two = nodes(1, [first, new], secret), nodes(2, [new], new_secret)
    one.links.flush()
    assert two.links.gate.poll(200) == 0
    assert exchange(one, two, Raft(0, b"x"), until=lambda _: bool(two.reports)) == []


@pytest.mark.covers("CLU-19")
def test_a_command_to_a_node_that_is_gone_is_handed_back(nodes: Callable[..., Node]) -> None:
    peers, secrets = voters()
    one = nodes(1, peers, secrets[0])
    one.links.update(peers[:1])
    forward = Forward(3, 1, Command(1, 1, "op", "p", 1, b"i" * 16, b"f" * 32, None, b""))
    for message in (forward, Raft(0, b"x"), ForwardReply(4, False, b"{}")):
        one.links.send(2, message)
    assert one.links.flush() == [(2, forward)]
    assert one.links.flush() == []


LISTENER = """
import sys, zmq
socket = zmq.Context().socket(zmq.PULL)
socket.curve_server = True
socket.curve_secretkey = sys.argv[2].encode()
socket.bind(sys.argv[1])
while socket.recv():
    print("heard", flush=True)
"""


@pytest.mark.covers("CLU-10")
def test_the_end_of_a_peer_is_noticed_once(nodes: Callable[..., Node]) -> None:
    peers, secrets = voters()
    one = nodes(1, peers, secrets[0])
    endpoint = f"tcp://127.0.0.1:{peers[1].port}"
    command = [sys.executable, "-c", LISTENER, endpoint, secrets[1]]
    deadline = time.monotonic() + 30
    with subprocess.Popen(command, stdout=subprocess.PIPE) as two:
        assert two.stdout is not None
        while not select.select([two.stdout], [], [], 0.02)[0]:
            one.links.send(2, Raft(0, b"hello"))
            one.links.flush()
            assert time.monotonic() < deadline, "the peer did not come"
        assert one.links.tick(0.0) == []
        two.kill()
    while not (ended := one.links.tick(0.0)):
        assert time.monotonic() < deadline, "the connection did not break"
    assert ended == [2]
    assert one.links.tick(0.0) == []
