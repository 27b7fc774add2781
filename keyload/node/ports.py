"""Ports of the nodes of one machine: which are meant, and whether they are free (CLI-14, CLI-15)."""

from __future__ import annotations

import random
import socket

HOST = "127.0.0.1"
FIRST_HTTP_PORT = 5101
FIRST_PEER_PORT = 5201
PEER_PORT_STEP = 10
MAX_LOCAL_WORKERS = PEER_PORT_STEP
_FREE_RANGE = (10_000, 32_000)  # below the range from which outgoing connections take theirs
_ATTEMPTS = 1000

PortPair = tuple[int, int]
"""HTTP port and peer port of one node; its worker K listens on the peer port + K."""


def ordinary_ports(nodes: int) -> list[PortPair]:
    """5101, 5102, ... for HTTP and 5201, 5211, ... for peers."""
    return [(FIRST_HTTP_PORT + place, FIRST_PEER_PORT + PEER_PORT_STEP * place) for place in range(nodes)]


def free_ports(nodes: int, workers: int) -> list[PortPair]:
    """Ports that nothing listens on now, from a random place on; raises OSError when none are found."""
    chance = random.SystemRandom()
    span = workers + 1
    pairs: list[PortPair] = []
    taken: set[int] = set()
    for _ in range(_ATTEMPTS):
        if len(pairs) == nodes:
            return pairs
        first = chance.randrange(*_FREE_RANGE)
        wanted = set(range(first, first + span))
        if not wanted & taken and all(is_free(port) for port in wanted):
            pairs.append((first, first + 1))
            taken |= wanted
    raise OSError("no free ports were found")


def busy_port(ports: list[PortPair], workers: int) -> int | None:
    """The first port that something else listens on, None when all are free."""
    for http_port, peer_port in ports:
        for port in (http_port, *range(peer_port, peer_port + workers)):
            if not is_free(port):
                return port
    return None


def is_free(port: int) -> bool:
    """Whether the port can be bound on the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
