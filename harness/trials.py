"""Recovery trials: a node is killed at a named step of a write or checkpoint, reopened, and compared
(STO-24..STO-26).

Each trial has a fresh directory and a real worker process that ends itself with SIGKILL when it reaches the
step for the n-th time. The front runs in this process, so that one process makes many trials without starting
Python anew for each. `python -m harness.trials` reads trials as lines of JSON and writes them back.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from harness.acknowledged import Ledger
from harness.doors import Way, sdk_door
from harness.load import prepare, write_until
from keyload.backup.shelf import Shelf
from keyload.cli.serve import front_settings
from keyload.client import AsyncClient, KeyLoadError
from keyload.front.app import build, serve
from keyload.front.server import listen
from keyload.front.workers import WorkerHub
from keyload.link.log import Category
from keyload.node.configuration import settings_of
from keyload.node.launching import identity
from keyload.node.local import shared_settings
from keyload.node.ports import HOST
from keyload.node.profile import LocalProfile, create
from keyload.node.settings import NodeSettings
from keyload.node.supervisor import Supervisor
from keyload.storage.directory import NodeDirectory
from keyload.worker.steps import CHECKPOINT_STEPS, WRITE_STEPS

CLIENTS = 4
MOST_OCCURRENCES = 40
MOST_CHECKPOINTS = 16
"""Checkpoints of a trial's node are few; those made while its shards are opened count."""

NODE_STEPS = WRITE_STEPS + CHECKPOINT_STEPS
STORAGE = {"checkpointMs": 50, "segmentBytes": 1 << 20}
REACH_SECONDS = 30.0
READY_SECONDS = 30.0


class Trial(msgspec.Struct, kw_only=True):
    """What one trial did and found; `failure` is None when everything agreed."""

    seed: int
    step: str
    occurrence: int
    acknowledged: int = 0
    in_doubt: int = 0
    in_doubt_present: int = 0
    seconds: float = 0.0
    failure: str | None = None


class Node:
    """One running node: its front here, its workers as processes. `ended` is set when a worker has ended,
    `ends` are the exit statuses so far.
    """

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.key = key
        self.ended = asyncio.Event()
        self.ends: list[int] = []

    def note(self, category: str, **members: Any) -> None:
        """Listen to the supervisor."""
        if category == Category.WORKER_ENDED:
            self.ends.append(members["status"])
            self.ended.set()


@asynccontextmanager
async def running_node(settings: NodeSettings, fault: str | None) -> AsyncIterator[Node]:
    """A node in this process's loop; leaving stops it as far as it still lives."""
    environment = {name: value for name, value in os.environ.items() if name != "KEYLOAD_FAULT_POINT"}
    if fault is not None:
        environment["KEYLOAD_FAULT_POINT"] = fault
    listener = listen(HOST, 0)
    port = listener.getsockname()[1]
    stop = asyncio.Event()
    with NodeDirectory(Path(settings.data_directory)) as directory:
        directory.establish(identity(settings), segment_bytes=settings.storage.segment_bytes)
        hub = WorkerHub(settings.workers, call_ms=settings.timings.call_ms)
        node = Node(f"http://{HOST}:{port}", settings.admin_key or "")
        supervisor = Supervisor(
            settings, hub, node.note, descriptors=(directory.lock_descriptor,), environment=environment
        )
        supervisor.start()
        front = build(hub, front_settings(settings), Shelf(directory.root, identity(settings)))
        serving = asyncio.create_task(serve(front, listener, stop.wait))
        try:
            yield node
        finally:
            await supervisor.stop()
            stop.set()
            await serving
            hub.close()


def settings_for(directory: Path, profile: LocalProfile) -> NodeSettings:
    """Settings of a node alone with one worker."""
    node = profile.nodes[0]
    own = {"nodeId": node.id, "publicEndpoint": node.url, "dataDirectory": str(directory / node.id)}
    return settings_of(own | shared_settings(profile, 1, None) | {"storage": STORAGE})


async def run_trial(trial: Trial) -> None:
    """Make one trial and put down what it found; AssertionError when something differs."""
    ledger = Ledger(trial.seed)
    with tempfile.TemporaryDirectory(prefix="keyload-trial-") as name:
        settings = settings_for(Path(name), create([(1, 2)]))
        async with running_node(settings, f"{trial.step}:{trial.occurrence}") as node:
            await write_until_ended(node, ledger)
        trial.acknowledged = len(ledger.answers)
        trial.in_doubt = ledger.in_doubt
        async with running_node(settings, None) as node:
            await until_serving(node)
            async with Way([node.url], node.key, sdk_door) as way:
                trial.in_doubt_present = await ledger.settle(way)
            await ledger.check([node.url], node.key, [sdk_door])


async def write_until_ended(node: Node, ledger: Ledger) -> None:
    """Clients write until the worker has ended; what they were not told stays in doubt."""
    writing = asyncio.create_task(_write(node, ledger))
    killed = asyncio.create_task(node.ended.wait())
    try:
        async with asyncio.timeout(REACH_SECONDS):
            await asyncio.wait({writing, killed}, return_when=asyncio.FIRST_COMPLETED)
        if not killed.done():
            await writing
    finally:
        writing.cancel()
        killed.cancel()
        await asyncio.wait({writing, killed})


async def until_serving(node: Node) -> None:
    """Wait until the node knows its administrator."""
    async with asyncio.timeout(READY_SECONDS), AsyncClient(node.url, node.key) as client:
        while True:
            try:
                await client.admin_status(retries=0)
                return
            except KeyLoadError:
                await asyncio.sleep(0.02)


async def _write(node: Node, ledger: Ledger) -> None:
    await until_serving(node)
    await prepare([node.url], node.key)
    never = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for number in range(CLIENTS):
            way = Way([node.url], node.key, sdk_door)
            account = ledger.account(f"{ledger.seed}-{number}")
            tasks.create_task(write_until(never, ledger, account, way))


def plan(seed: int, count: int) -> list[Trial]:
    """`count` trials over all steps in turn, occurrences and seeds drawn from one number (TST-12)."""
    chance = Random(seed)
    return [_drawn(NODE_STEPS[number % len(NODE_STEPS)], chance) for number in range(count)]


def _drawn(step: str, chance: Random) -> Trial:
    most = MOST_CHECKPOINTS if step in CHECKPOINT_STEPS else MOST_OCCURRENCES
    return Trial(seed=chance.randrange(2**32), step=step, occurrence=chance.randint(1, most))


def described(error: BaseException) -> str:
    """A failure in a few words, those of a group one by one."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(described(each) for each in error.exceptions)[:2000]
    return f"{type(error).__name__}: {error}"[:2000]


def main() -> int:
    """Run the trials given on standard input, one JSON object a line; write each back with what it found."""
    failed = 0
    for line in sys.stdin:
        trial = msgspec.json.decode(line, type=Trial)
        started = time.monotonic()
        try:
            asyncio.run(run_trial(trial))
        except (AssertionError, BaseExceptionGroup, OSError, TimeoutError) as error:
            trial.failure = described(error)
            failed = 1
        trial.seconds = round(time.monotonic() - started, 3)
        sys.stdout.write(msgspec.json.encode(trial).decode() + "\n")
        sys.stdout.flush()
    return failed


if __name__ == "__main__":
    sys.exit(main())
