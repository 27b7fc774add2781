"""A worker's part in the transfer of snapshots: it offers and sends them as leader, and takes them in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.simulator.nodes.snapshots import Chunk, Incoming, Offer, Outgoing, Want
from harness.simulator.nodes.state import Image
from harness.simulator.nodes.world import World

if TYPE_CHECKING:
    from harness.simulator.nodes.node import Node
    from harness.simulator.nodes.worker import Worker

OFFER_MS = 1_000
"""A leader offers its snapshot to who needs one this often."""


class Transfers:
    """Snapshots on their way out of and into one life of a worker."""

    def __init__(self, node: Node, worker: Worker, world: World) -> None:
        self._node = node
        self._worker = worker
        self._world = world
        self._disk = node.disk
        self._next_offer = 0
        self._taking = False
        self._checking = False
        self.received: Image | None = None
        """A whole snapshot that waits to be installed."""

    # -- the leader's side

    def tick(self) -> None:
        """Offer a snapshot to who needs one, and take one when there is none that helps."""
        now = self._world.agenda.now
        lagging = self._worker.raft.lagging() if self._worker.shard.leads else []
        if not lagging or now < self._next_offer:
            return
        self._next_offer = now + OFFER_MS
        outgoing = self._disk.outgoing
        if outgoing is None or outgoing.manifest.position.index < self._disk.log.first_index - 1:
            self._take()
            return
        for peer in lagging:
            self._world.send(self._node.number, peer, Offer(outgoing.manifest))

    def _take(self) -> None:
        if not self._taking:
            self._taking = True
            delay = self._world.rng.randint(0, self._world.options.snapshot_takes_ms)
            self._world.agenda.plan(delay, self._taken, self._disk.state.image())

    def _taken(self, image: Image) -> None:
        if self._node.worker is self._worker:
            self._taking = False
            self._next_offer = 0
            number = self._world.rng.getrandbits(62)
            self._disk.outgoing = Outgoing(number, image, self._world.options.chunk_rows)
            self._world.counts["snapshots taken"] += 1

    def wanted(self, sender: int, want: Want) -> None:
        """Send a chunk of the present snapshot."""
        outgoing = self._disk.outgoing
        chunk = None if outgoing is None else outgoing.chunk(want)
        if chunk is not None:
            self._world.send(self._node.number, sender, chunk)

    # -- the receiver's side

    def offered(self, sender: int, offer: Offer) -> None:
        """Take an offer of who is the leader here for something later than what is here."""
        if sender != self._worker.raft.leader or self.received is not None or self._checking:
            return
        if offer.manifest.position.index <= self._disk.state.applied.index:
            return
        incoming = self._disk.incoming
        if incoming is None or incoming.manifest.number != offer.manifest.number:
            incoming = self._disk.incoming = Incoming(offer.manifest)
        for want in incoming.wanted():
            self._world.send(self._node.number, sender, want)
        self._check(incoming)

    def arrived(self, sender: int, chunk: Chunk) -> None:
        """Keep a chunk and ask for another one."""
        incoming = self._disk.incoming
        if incoming is None or not incoming.write(chunk):
            return
        for want in incoming.wanted()[-1:]:
            self._world.send(self._node.number, sender, want)
        self._check(incoming)

    def _check(self, incoming: Incoming) -> None:
        """Verify a whole snapshot, beside the loop."""
        if incoming.complete and not self._checking:
            self._checking = True
            delay = self._world.rng.randint(0, self._world.options.snapshot_takes_ms)
            self._world.agenda.plan(delay, self._checked, incoming)

    def _checked(self, incoming: Incoming) -> None:
        if self._node.worker is not self._worker:
            return
        self._checking = False
        if self._disk.incoming is not incoming:
            return
        self._disk.incoming = None
        image = incoming.image()
        if image is None:
            self._world.counts["snapshots torn"] += 1
        else:
            self.received = image
            self._worker.wake_soon()
