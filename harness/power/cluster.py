"""Power loss of all three nodes at once: `python -m harness.power.cluster` reads chains as lines of JSON and
writes a line for each loss (STO-18).

A chain is one cluster that loses its power again and again: each time it is started from torn images, has to
hold everything it acknowledged, and goes on.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import msgspec

from harness.acknowledged import Ledger
from harness.load import write_until
from harness.power.images import Disk
from harness.power.lines import FAILURES, as_text, write_line
from harness.power.nodes import (
    WORKER,
    PowerNode,
    hub_doors,
    make_collection,
    make_image,
    power_node,
    settings_for,
    until_known,
    way_to,
)
from keyload.front.workers import WorkerHub
from keyload.node.ports import free_ports
from keyload.node.profile import create

NODES = 3
EARLIER = 0.4
"""Share of the losses in which one node was gone before, so that it needs a snapshot afterwards."""

CLIENTS = 6
FLICKER = 0.25
"""Chance that the power goes again during a start: in recovery, elections and snapshots."""

FLICKER_SECONDS = 2.5
MOST_ANSWERS = 150
MOST_SECONDS = 20.0
"""Answers, and seconds of writing, before the power goes."""


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster and how often it loses its power."""

    seed: int
    losses: int


class Loss(msgspec.Struct, kw_only=True):
    """What was there when the power went, and after; `failure` is None when everything agreed. `flickers`
    tells how often the power went again while the cluster started."""

    seed: int
    loss: int
    acknowledged: int
    in_doubt: int
    in_doubt_present: int = 0
    flickers: int = 0
    unsynced_bytes: int = 0
    seconds: float = 0.0
    failure: str | None = None


class _Cluster:
    """The three directories of one chain, life after life."""

    def __init__(self, chain: Chain, base: Path) -> None:
        self.chance = Random(chain.seed)
        self.ledger = Ledger(chain.seed)
        self._profile = create(free_ports(NODES, 1))
        self._base = base
        self._life = 0

    def _directory(self, node: int, life: int | None = None) -> Path:
        return self._base / f"life-{self._life if life is None else life}-node-{node}"

    def _side(self, node: int) -> Path:
        return self._base / f"side-{self._life}-node-{node}"

    async def flicker(self) -> None:
        """Start from what is there, and lose the power soon."""
        async with AsyncExitStack() as stack:
            nodes = await self._start(stack)
            await asyncio.sleep(self.chance.uniform(0, FLICKER_SECONDS))
            for node in nodes:
                node.kill()

    async def _start(self, stack: AsyncExitStack) -> list[PowerNode]:
        nodes: list[PowerNode] = []
        for place in range(NODES):
            settings = settings_for(self._directory(place), self._profile, place)
            nodes.append(await stack.enter_async_context(power_node(settings, self._side(place))))
        return nodes

    async def live(self, loss: Loss | None) -> None:
        """Start from what is there, hold it against the ledger, and write until the power goes."""
        async with AsyncExitStack() as stack:
            nodes = await self._start(stack)
            hubs = {f"node-{place}": node.hub for place, node in enumerate(nodes)}
            await asyncio.gather(*(until_known(hub) for hub in hubs.values()))
            if loss is None:
                async with way_to(hubs) as way:
                    await make_collection(way)
                await asyncio.gather(*(until_known(hub) for hub in hubs.values()))
            else:
                await self._check(hubs, loss)
            await self._write_until_killed(hubs, nodes)

    async def _check(self, hubs: dict[str, WorkerHub], loss: Loss) -> None:
        async with way_to(hubs) as way:
            loss.in_doubt_present = await self.ledger.settle(way)
        await self.ledger.check(list(hubs), "", [hub_doors(hubs)])

    async def _write_until_killed(self, hubs: dict[str, WorkerHub], nodes: list[PowerNode]) -> None:
        """Clients write at all nodes; then these end at one moment, while commands are on their way. Now and
        then one of them is gone before."""
        never = asyncio.Event()
        names = list(hubs)
        writers: list[asyncio.Task[None]] = []
        for number in range(CLIENTS):
            turn = number % NODES
            turned = {name: hubs[name] for name in names[turn:] + names[:turn]}
            account = self.ledger.account(f"{self.ledger.seed}-{number}")
            writers.append(asyncio.create_task(write_until(never, self.ledger, account, way_to(turned))))
        first = self.chance.choice(nodes) if self.chance.random() < EARLIER else None
        if first is not None:
            first.kill()
        await self._until_answered(self.chance.randint(1, MOST_ANSWERS), writers)
        for node in nodes:
            if node is not first:
                node.kill()
        failed = [writer for writer in writers if writer.done()]
        for writer in writers:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        for writer in failed:
            writer.result()

    async def _until_answered(self, count: int, writers: list[asyncio.Task[None]]) -> None:
        """Wait for so many more answers, and a moment, so that the power goes in the middle of anything."""
        loop = asyncio.get_running_loop()
        answers, end = len(self.ledger.answers) + count, loop.time() + MOST_SECONDS
        while len(self.ledger.answers) < answers and loop.time() < end:
            if any(writer.done() for writer in writers):
                return
            await asyncio.sleep(0.002)
        await asyncio.sleep(self.chance.uniform(0, 0.01))

    def tear(self) -> int:
        """Make the directories of the next life from torn images; the bytes that were not synced."""
        unsynced = 0
        for place in range(NODES):
            directory = self._directory(place)
            disk = Disk(directory / WORKER, self._side(place))
            unsynced += sum(disk.unsynced().values())
            make_image(disk, directory, self._directory(place, self._life + 1), self.chance)
            shutil.rmtree(directory)
            shutil.rmtree(self._side(place), ignore_errors=True)  # none when killed at once
        self._life += 1
        return unsynced


async def make_chain(chain: Chain, base: Path) -> None:
    """Make a chain in an empty directory and write what was found; it ends with its first failure."""
    cluster = _Cluster(chain, base)
    await cluster.live(None)
    for number in range(chain.losses):
        ledger = cluster.ledger
        loss = Loss(
            seed=chain.seed,
            loss=number,
            acknowledged=sum(account.acknowledged for account in ledger.accounts.values()),
            in_doubt=ledger.in_doubt,
            unsynced_bytes=cluster.tear(),
        )
        started = time.monotonic()
        try:
            while cluster.chance.random() < FLICKER:
                await cluster.flicker()
                loss.flickers += 1
                loss.unsynced_bytes += cluster.tear()
            await cluster.live(loss)
        except FAILURES as error:
            loss.failure = as_text(error)
        loss.seconds = round(time.monotonic() - started, 3)
        write_line(loss)
        if loss.failure is not None:
            return


def main() -> int:
    """Make the chains given on standard input, one JSON object a line."""
    for line in sys.stdin:
        chain = msgspec.json.decode(line, type=Chain)
        with tempfile.TemporaryDirectory(prefix="keyload-power-") as base:
            asyncio.run(make_chain(chain, Path(base)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
