"""The nodes of the cluster as one worker knows them: those of its settings, and those the system shard has
registered (CLU-19)."""

from __future__ import annotations

from keyload.contract.tables import Node
from keyload.link.catalog import Catalog
from keyload.link.launch import PeerAddress, WorkerLaunch


class Nodes:
    """Whom this worker speaks to and what they are called."""

    def __init__(self, launch: WorkerLaunch, catalog: Catalog) -> None:
        self._launch = launch
        self._catalog = catalog
        self._changes = -1
        self._peers = list(launch.peers)

    def peers(self) -> list[PeerAddress]:
        """All nodes, this one included; none when it is alone.

        The register counts, but for nodes of the settings with later numbers than it knows: this replica of
        the system shard may still have to learn of them, perhaps from them. The settings say where a node is
        reached from here: that may be another address than from elsewhere.
        """
        if self._launch.peers and self._changes != self._catalog.changes:
            self._changes = self._catalog.changes
            registered = self._catalog.nodes
            greatest = max(registered, default=0)
            known = {
                peer.number: peer
                for peer in self._launch.peers
                if peer.number > greatest
                or peer.number == self._launch.node_number
                or _is_same(registered.get(peer.number), peer)
            }
            self._peers = list({**{n: address_of(node) for n, node in registered.items()}, **known}.values())
        return self._peers

    def name(self, number: int) -> str | None:
        """The id of a node, None when there is none of this number."""
        if number == self._launch.node_number:
            return self._launch.node_id
        return next((peer.node_id for peer in self.peers() if peer.number == number), None)

    def names(self, numbers: tuple[int, ...]) -> tuple[str, ...]:
        """The ids of the nodes that are known."""
        return tuple(name for name in map(self.name, numbers) if name is not None)


def _is_same(node: Node | None, peer: PeerAddress) -> bool:
    """Whether the settings mean the registered node."""
    return node is not None and (node.id, node.public_key) == (peer.node_id, peer.public_key)


def address_of(node: Node) -> PeerAddress:
    """A registered node as the links know it."""
    return PeerAddress(node.number, node.id, node.host, node.port, node.public_key, node.origin)


def node_of(peer: PeerAddress) -> Node:
    """A node of the settings as it is registered."""
    return Node(peer.number, peer.node_id, peer.origin, peer.host, peer.port, peer.public_key)
