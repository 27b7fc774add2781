"""Power loss of one node: `python -m harness.power.alone` reads runs as lines of JSON and writes a line for
each image (STO-18)."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
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
    make_collection,
    make_image,
    power_node,
    settings_for,
    until_known,
    way_to,
)
from harness.power.reopening import Digests, check_image, expected_digests
from keyload.node.profile import create
from keyload.node.settings import NodeSettings
from keyload.storage import pages

CLIENTS = 6
LIVES = 2
"""Lives of a directory in one run: the second goes on from a torn image."""

LEAST_EVENTS, MOST_EVENTS = 60, 400
"""Syncs and changes of names, before and behind each, until the power goes; a first life gets to writing, a
later one may end while it recovers."""

MOST_SECONDS = 15.0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One directory with several lives, each followed by so many images. `pins` and `restores` are switched
    off to see that the trial can fail."""

    seed: int
    images: int
    lives: int = LIVES
    pins: bool = True
    restores: bool = True


class Image(msgspec.Struct, kw_only=True):
    """What one image was and did; `failure` is None when everything agreed."""

    seed: int
    life: int
    image: int
    acknowledged: int
    in_doubt: int
    in_doubt_present: int = 0
    unsynced_bytes: int = 0
    unsynced_state_bytes: int = 0
    seconds: float = 0.0
    failure: str | None = None


class _Life:
    """One life of the node: its files after the kill, and what they have to hold."""

    def __init__(self, run: Run, number: int, base: Path, settings: NodeSettings, ledger: Ledger) -> None:
        self.run = run
        self.number = number
        self.settings = settings
        self.directory = Path(settings.data_directory)
        self.ledger = ledger
        self._base = base
        self._side = base / f"side-{number}"

    async def live(self, kill_at: int) -> None:
        """Write until killed."""
        async with power_node(self.settings, self._side, kill_at=kill_at, pins=self.run.pins) as node:
            await write_until_killed(node, self.ledger)

    async def check(self, chance: Random) -> Path:
        """Make and check all images; the directory of one more, to go on from."""
        disk = Disk(self.directory / WORKER, self._side)
        unsynced = disk.unsynced()
        whole = self._base / "whole"
        shutil.copytree(self.directory, whole)
        expected = expected_digests(whole, self.settings)
        shutil.rmtree(whole)
        for number in range(self.run.images):
            image = Image(
                seed=self.run.seed,
                life=self.number,
                image=number,
                acknowledged=sum(account.acknowledged for account in self.ledger.accounts.values()),
                in_doubt=self.ledger.in_doubt,
                unsynced_bytes=sum(unsynced.values()),
                unsynced_state_bytes=sum(size for name, size in unsynced.items() if name.endswith(".mdb")),
            )
            await self._check_image(image, disk, expected, chance)
            write_line(image)
        following = self._base / f"life-{self.number + 1}"
        make_image(disk, self.directory, following, chance)
        return following

    async def _check_image(self, image: Image, disk: Disk, expected: Digests, chance: Random) -> None:
        started = time.monotonic()
        place = self._base / "image"
        try:
            make_image(disk, self.directory, place, chance)
            settings = msgspec.structs.replace(self.settings, data_directory=str(place))
            image.in_doubt_present = await check_image(settings, self.ledger, expected)
        except FAILURES as error:
            image.failure = as_text(error)
        shutil.rmtree(place)
        image.seconds = round(time.monotonic() - started, 3)


async def make_run(run: Run, base: Path) -> None:
    """Make a run in an empty directory and write what was found."""
    chance = Random(run.seed)
    ledger = Ledger(run.seed)
    profile = create([(1, 2)])
    directory = base / "life-0"
    for number in range(run.lives):
        life = _Life(run, number, base, settings_for(directory, profile), ledger)
        await life.live(chance.randint(LEAST_EVENTS if number == 0 else 1, MOST_EVENTS))
        directory = await life.check(chance)


async def write_until_killed(node: PowerNode, ledger: Ledger) -> None:
    """Clients write until the worker has ended, at the latest after `MOST_SECONDS`; what they were not told
    stays in doubt."""
    writing = asyncio.create_task(_write(node, ledger))
    ended = asyncio.create_task(node.ended.wait())
    await asyncio.wait({writing, ended}, timeout=MOST_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    early = writing.done() and not ended.done()
    writing.cancel()
    ended.cancel()
    await asyncio.wait({writing, ended})
    if early:
        writing.result()


async def _write(node: PowerNode, ledger: Ledger) -> None:
    hubs = {"node": node.hub}
    await until_known(node.hub)
    async with way_to(hubs) as way:
        await make_collection(way)
        await ledger.settle(way)
    never = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for number in range(CLIENTS):
            account = ledger.account(f"{ledger.seed}-{number}")
            tasks.create_task(write_until(never, ledger, account, way_to(hubs)))


def main() -> int:
    """Make the runs given on standard input, one JSON object a line."""
    for line in sys.stdin:
        run = msgspec.json.decode(line, type=Run)
        if not run.restores:
            pages.put_back = lambda path, page: None
        with tempfile.TemporaryDirectory(prefix="keyload-power-") as base:
            asyncio.run(make_run(run, Path(base)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
