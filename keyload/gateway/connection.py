"""`Connection`: one open client, owned by one task from its opening to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import Context
from typing import TYPE_CHECKING, Any

import anyio

from keyload.gateway.sources import RemoteDeclaration
from keyload.gateway.tools import Output

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp import Client
    from mcp_types import Tool as ListedTool


LAST_SECONDS = 15.0  # what the SDK takes at most to end a process that resists, and a little more


class ConnectionEnded(Exception):
    """The connection to a source has ended."""


class Connection:
    """Opens the client in a task of its own, which alone enters and leaves the SDK's contexts.

    `changed` is called when the source says that its tools changed, and when the connection is lost;
    afterwards `lost` is true.
    """

    def __init__(self, declaration: RemoteDeclaration, changed: Callable[[], None]) -> None:
        self._declaration = declaration
        self._changed = changed
        self._client: Client | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._listening = False
        self.lost = False
        self._owner = asyncio.create_task(
            self._own(),
            name=f"gateway source {declaration.source_id}",
            context=Context(),  # it outlives the caller who happened to come first, and is nobody's
        )

    async def listed(self, most: int) -> list[ListedTool]:
        """All tools of the source, listening to their changes first, so that none falls between."""
        from keyload.gateway import mcp_client

        await asyncio.shield(self._ready)
        client = self._open_client()
        with self._noticing_loss():
            if not self._listening and mcp_client.tells_changes(client):
                await self._listen(client)
            return await mcp_client.listed(client, most)

    async def call(self, name: str, arguments: Mapping[str, Any], meta: dict[str, Any]) -> Output:
        """Call a tool. Raises what the client raises; then the connection may be lost."""
        from keyload.gateway import mcp_client

        with self._noticing_loss():
            return await mcp_client.called(self._open_client(), name, dict(arguments), meta)

    def retire(self) -> None:
        """Let the connection end; from now on it tells nothing."""
        self._closing.set()

    async def stop(self, seconds: float) -> None:
        """End the owning task: politely, and after `seconds` by cancelling what still waits."""
        self.retire()
        if not self._ready.done():
            self._scope.cancel()
        done, _ = await asyncio.wait([self._owner], timeout=seconds)
        if not done:
            self._scope.cancel()
            done, _ = await asyncio.wait([self._owner], timeout=LAST_SECONDS)
        if not done:
            self._owner.cancel()

    async def _own(self) -> None:
        failure: Exception = ConnectionEnded("The connection to the source has ended.")
        try:
            with self._scope:
                await self._keep_open()
        except Exception as error:
            failure = error
        finally:
            self._client = self._tasks = None
            if not self._ready.done():
                self._ready.set_exception(failure)
                self._ready.exception()  # seen, also when nobody waits for it any more
            self._mark_lost()

    async def _keep_open(self) -> None:
        from keyload.gateway import mcp_client

        opened = mcp_client.opened(self._declaration, self._tell_change, self._mark_lost)
        async with opened as client, anyio.create_task_group() as tasks:
            self._client, self._tasks = client, tasks
            self._ready.set_result(None)
            await self._closing.wait()
            tasks.cancel_scope.cancel()

    async def _listen(self, client: Client) -> None:
        from keyload.gateway import mcp_client

        answered = asyncio.Event()
        self._listening = True

        async def run() -> None:
            try:
                await mcp_client.listen(client, answered.set, self._tell_change)
            finally:
                self._listening = False
                answered.set()

        if self._tasks is not None:
            self._tasks.start_soon(run)
            await answered.wait()

    @contextmanager
    def _noticing_loss(self) -> Generator[None]:
        from keyload.gateway import mcp_client

        try:
            yield
        except Exception as error:
            if mcp_client.is_lost(error):
                self._mark_lost()
            raise

    def _open_client(self) -> Client:
        if self._client is None or self.lost:
            raise ConnectionEnded("The connection to the source has ended.")
        return self._client

    def _tell_change(self) -> None:
        if not self._closing.is_set():
            self._changed()

    def _mark_lost(self) -> None:
        if not self.lost:
            self.lost = True
            self._tell_change()
