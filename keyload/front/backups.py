"""keyload_admin_backup: the front asks its workers for images and completes the backup (BKP-2..BKP-4)."""

from __future__ import annotations

import asyncio

import msgspec

from keyload.backup.manifest import SYSTEM_SHARD, Manifest, ShardImage
from keyload.backup.shelf import Shelf
from keyload.contract.admin import BackupReceipt
from keyload.front.calls import Caller
from keyload.front.workers import WorkerHub, payload_of

_images = msgspec.json.Decoder(ShardImage)


class BackupDesk:
    """Makes one backup at a time; further calls wait for their turn."""

    def __init__(self, hub: WorkerHub, shelf: Shelf) -> None:
        self._hub = hub
        self._shelf = shelf
        self._turn = asyncio.Lock()

    async def remove_leftovers(self) -> None:
        """Remove the backups that an earlier run did not finish."""
        await asyncio.to_thread(self._shelf.remove_leftovers)

    async def make(self, caller: Caller) -> bytes:
        """Make a backup; a failure leaves nothing behind."""
        caller.require_administrator()
        async with self._turn:
            identifier = await asyncio.to_thread(self._shelf.begin)
            try:
                manifest = await self._fill(identifier)
            except BaseException:
                await asyncio.to_thread(self._shelf.drop, identifier)
                raise
        return msgspec.json.encode(BackupReceipt(id=manifest.id, position=manifest.position))

    async def _fill(self, identifier: str) -> Manifest:
        """All data shards first, so that the catalog is at least as new as any of them needs."""
        asked = [self._hub.backup(shard, identifier) for shard in range(1, self._shelf.shards + 1)]
        images = [payload_of(answer) for answer in await asyncio.gather(*asked)]
        images.append(payload_of(await self._hub.backup(SYSTEM_SHARD, identifier)))
        return await asyncio.to_thread(self._shelf.finish, identifier, map(_images.decode, images))
