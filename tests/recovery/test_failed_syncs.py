"""A sync of the log or of a checkpoint fails once with EIO in a real worker: it stops, is started again and
recovers by itself, and nothing that was acknowledged is missing (STO-11)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from harness.acknowledged import Ledger
from harness.doors import Way, sdk_door
from harness.seeds import seed_of_run
from harness.trials import running_node, settings_for, until_serving, write_until_ended
from keyload.node.profile import create


async def fail_once(directory: Path, fault: str, occurrence: int, seed: int) -> list[int]:
    """Write until the sync has failed, let the node recover, compare; gives how workers have ended."""
    ledger = Ledger(seed)
    struck = directory / "struck"
    settings = settings_for(directory, create([(1, 2)]))
    async with running_node(settings, f"{fault}:{occurrence}:{struck}") as node:
        await write_until_ended(node, ledger)
        assert struck.exists()
        ends = [*node.ends]
        await until_serving(node)
        async with Way([node.url], node.key, sdk_door) as way:
            await ledger.settle(way)
        await ledger.check([node.url], node.key, [sdk_door])
        assert node.ends == ends, "one failure, one end"
    return ends


@pytest.mark.covers("STO-11", "STO-26", "CLU-9", "CMD-28")
@pytest.mark.parametrize("place", range(5))
def test_after_a_failed_sync_of_the_log_the_worker_recovers_by_itself(tmp_path: Path, place: int) -> None:
    chance = Random(seed_of_run() + place)
    occurrence = chance.randint(10, 60)
    ends = asyncio.run(fail_once(tmp_path, "LogSyncFails", occurrence, chance.randrange(2**32)))
    assert ends == [3]


@pytest.mark.covers("STO-11", "STO-17", "CLU-9")
@pytest.mark.parametrize("occurrence", [1, 6, 9])
def test_after_a_failed_sync_of_a_checkpoint_the_worker_recovers_by_itself(
    tmp_path: Path, occurrence: int
) -> None:
    ends = asyncio.run(fail_once(tmp_path, "CheckpointSyncFails", occurrence, seed_of_run()))
    assert ends == [3]
