"""Faults of nodes and of the network between them, drawn from one number (CLU-14, TST-12)."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from random import Random

import msgspec

from harness.cluster import Cluster, HarnessError


class FaultKind(StrEnum):
    """What can be done to a cluster; each kind heals again."""

    KILL_WORKER = "kill a worker"
    KILL_NODE = "kill a node"
    STOP_NODE = "stop a node in order, which hands its leaderships over"
    ERASE_NODE = "kill a node and erase its directory"
    PAUSE_NODE = "pause a node"
    CUT_ONE_WAY = "cut one direction between two nodes"
    CUT_PAIR = "cut both directions between two nodes"
    MUTE_NODE = "let nobody hear a node that hears everybody"
    DEAFEN_NODE = "let a node hear nobody while all hear it"
    ISOLATE_NODE = "cut a node off"
    DELAY = "slow all links down"
    RESET = "break all connections again and again"


NETWORK = frozenset(
    {
        FaultKind.CUT_ONE_WAY,
        FaultKind.CUT_PAIR,
        FaultKind.MUTE_NODE,
        FaultKind.DEAFEN_NODE,
        FaultKind.ISOLATE_NODE,
        FaultKind.DELAY,
        FaultKind.RESET,
    }
)
PAUSE_SECONDS = (1.0, 10.0)
HELD_SECONDS = (2.0, 5.0)
DELAY_SECONDS = (0.02, 0.25)
RESETS = 4


class Fault(msgspec.Struct, frozen=True):
    """One fault: the node it hits, 0 for the leader of the system shard, and how long it lasts."""

    kind: FaultKind
    seconds: float
    node: int = 0
    step: int = 1
    worker: int = 0
    delay: float = 0.0

    def __str__(self) -> str:
        whom = f"node {self.node}" if self.node else "the leader of the system shard"
        return f"{self.kind}: {whom}, worker {self.worker}, other +{self.step}, {self.seconds:.1f} s"


def draw(kind: FaultKind, chance: Random, nodes: int, workers: int) -> Fault:
    """A fault of a kind; every second one hits the leader of the system shard."""
    return Fault(
        kind=kind,
        seconds=chance.uniform(*(PAUSE_SECONDS if kind is FaultKind.PAUSE_NODE else HELD_SECONDS)),
        node=chance.choice([0, chance.randint(1, nodes)]),
        step=chance.randint(1, nodes - 1),
        worker=chance.randrange(workers),
        delay=chance.uniform(*DELAY_SECONDS),
    )


async def inflict(cluster: Cluster, fault: Fault) -> None:
    """Hurt, hold, heal; returns when every node is ready again."""
    node = fault.node or await asyncio.to_thread(_some_leader, cluster)
    await asyncio.to_thread(_hurt, cluster, fault, node)
    if fault.kind is FaultKind.RESET:
        for _ in range(RESETS):
            await asyncio.sleep(fault.seconds / RESETS)
            cluster.network.reset(*cluster.network.pairs)
    else:
        await asyncio.sleep(fault.seconds)
    await asyncio.to_thread(_heal, cluster, fault, node)


def _some_leader(cluster: Cluster) -> int:
    try:
        return cluster.system_leader()
    except HarnessError:
        return 1


def _hurt(cluster: Cluster, fault: Fault, node: int) -> None:
    nodes = len(cluster.nodes)
    other = (node - 1 + fault.step) % nodes + 1
    others = [number for number in range(1, nodes + 1) if number != node]
    match fault.kind:
        case FaultKind.KILL_WORKER:
            cluster.kill_worker(node, fault.worker)
        case FaultKind.KILL_NODE:
            cluster.kill_node(node)
        case FaultKind.ERASE_NODE:
            cluster.crash(node)
            cluster.erase(node)
        case FaultKind.STOP_NODE:
            if cluster.stop_node(node) != 0:
                raise HarnessError(f"node {node} did not stop in order")
        case FaultKind.PAUSE_NODE:
            cluster.pause(node)
        case FaultKind.CUT_ONE_WAY:
            cluster.network.cut((node, other))
        case FaultKind.CUT_PAIR:
            cluster.network.cut((node, other), (other, node))
        case FaultKind.MUTE_NODE:
            cluster.network.cut(*((node, number) for number in others))
        case FaultKind.DEAFEN_NODE:
            cluster.network.cut(*((number, node) for number in others))
        case FaultKind.ISOLATE_NODE:
            cluster.network.isolate(node)
        case FaultKind.DELAY:
            cluster.network.delay(fault.delay, *cluster.network.pairs)
        case FaultKind.RESET:
            cluster.network.reset(*cluster.network.pairs)


def _heal(cluster: Cluster, fault: Fault, node: int) -> None:
    if fault.kind in NETWORK:
        cluster.network.heal()
    elif fault.kind is FaultKind.PAUSE_NODE:
        cluster.resume(node)
    elif cluster.node(node).process_id is None:
        cluster.restart(node)
    cluster.wait_ready()
