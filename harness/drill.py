"""The restore drill: what a restored cluster holds, compared with what clients were told (BKP-25).

Load goes on while a backup is taken, so each account is restored to the state behind one of its commands: at
least the last one acknowledged before the backup was asked for, at most the last one that was sent.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from harness.acknowledged import DEFINITE_SECONDS, Account, Ledger, Written, send
from harness.cluster import Cluster
from harness.doors import Door, Tree, Way, sdk_door
from harness.load import stream_of_commits
from harness.reference import Documents, as_state, visible
from keyload.backup.manifest import SYSTEM_SHARD, image_name
from keyload.backup.offline import UNBOUNDED
from keyload.client import AsyncClient
from keyload.contract.admin import BackupReceipt
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.models.catalog import FreshCatalog
from keyload.node.ports import free_ports
from keyload.node.profile import LocalProfile, create
from keyload.storage import Store
from keyload.storage.layout import DATA_FILE

COMMAND_SECONDS = 120.0
FEW_COMMANDS = 5


def keyload(*words: object) -> dict[str, Any]:
    """Run a command of the tool that must succeed; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "keyload.cli", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), (words, done.returncode, done.stderr)
    return json.loads(done.stdout)


def acknowledged(ledger: Ledger) -> dict[str, int]:
    """How many commands of each account are acknowledged now."""
    return {name: account.acknowledged for name, account in ledger.accounts.items()}


async def back_up_under_load(
    cluster: Cluster, ledger: Ledger, node: int, clients: int = 8
) -> tuple[BackupReceipt, dict[str, int]]:
    """A backup made by a node while clients write, and what was acknowledged before it was asked for."""
    async with stream_of_commits(ledger, cluster.urls, cluster.key, clients):
        await _until(lambda: min(acknowledged(ledger).values(), default=0) >= FEW_COMMANDS)
        before = acknowledged(ledger)
        async with AsyncClient(cluster.urls[node - 1], cluster.key) as client:
            receipt = await client.admin_backup(timeout=COMMAND_SECONDS)
        enough = sum(acknowledged(ledger).values()) + clients * FEW_COMMANDS
        await _until(lambda: sum(acknowledged(ledger).values()) >= enough)
    return receipt, before


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEFINITE_SECONDS):
        while not condition():
            await asyncio.sleep(0.02)


def dispatch_paused(backup: Path) -> bool:
    """What the system shard in a backup says about the switch."""
    with tempfile.TemporaryDirectory(prefix="keyload-drill-") as name:
        shutil.copyfile(backup / image_name(SYSTEM_SHARD), Path(name, DATA_FILE))
        store = Store(Path(name), UNBOUNDED)
        try:
            with store.reader() as reader:
                return FreshCatalog(reader).dispatch_paused
        finally:
            store.close()


def restored_cluster(receipt: Mapping[str, Any], admin_key: str) -> Cluster:
    """The nodes that `keyload cluster-restore` has prepared; they are not started yet."""
    key_file = Path(receipt["signingKeyFile"])
    fresh = create(free_ports(len(receipt["nodes"]), receipt["workers"]), admin_key)
    profile: LocalProfile = msgspec.structs.replace(
        fresh, incarnation=receipt["incarnation"], signing_key=key_file.read_text("ascii").strip()
    )
    return Cluster(
        key_file.parent,
        nodes=len(receipt["nodes"]),
        workers=receipt["workers"],
        shards=receipt["shards"],
        profile=profile,
    )


async def check_restored(ledger: Ledger, urls: list[str], key: str, floors: Mapping[str, int]) -> int:
    """Compare every account with its history, then send every command again: those in the backup are
    refused with TokenInvalidated, later ones are new. Returns how many were in the backup.
    """
    held = 0
    for place, account in enumerate(ledger.accounts.values()):
        node = place % len(urls)
        async with Way(urls[node:] + urls[:node], key, sdk_door) as way:
            held += await _check_account(account, way, floors.get(account.name, 0))
    return held


async def _check_account(account: Account, way: Way, floor: int) -> int:
    found = await _documents(account, way)
    held = 0
    for written in account.commands:
        if not await _is_refused(account, written, way):
            break
        held += 1
    expected = account.commands[held - 1].after if held else {}
    assert found == visible(expected), f"{account.name}: {held} commands restored, but it holds {found}"
    assert held >= floor, f"{account.name}: {held} commands restored, {floor} were acknowledged before"
    if held < len(account.commands):  # sent anew just now
        assert await _documents(account, way) == visible(account.commands[held].after)
    for written in account.commands[held + 1 :]:
        assert not await _is_refused(account, written, way), account.name
    return held


async def _is_refused(account: Account, written: Written, way: Way) -> bool:
    """Whether a command is one from before the restore."""
    try:
        await way.until_definite(partial(send, account, written), DEFINITE_SECONDS)
    except KeyLoadError as error:
        if error.code is not ErrorCode.TOKEN_INVALIDATED:
            raise AssertionError(f"{account.name}: {written.command_id}: {error}") from error
        return True
    return False


async def _documents(account: Account, way: Way) -> Documents:
    found: Documents = {}
    for name in account.ids:

        async def read(door: Door, name: str = name) -> Tree | None:
            return await door.get(account.reference(name))

        answer = await way.until_definite(read, DEFINITE_SECONDS)
        if answer is not None:
            found[name] = as_state(answer)
    return found
