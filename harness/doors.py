"""The two doors to a cluster, SDK and official MCP client, behind one interface (TST-13).

A door sends one attempt and never repeats by itself: the ledger decides what is sent again, and where.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, Self, cast

import httpx2
import msgspec
from mcp.client import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from keyload.client import AsyncClient
from keyload.contract import errors
from keyload.contract.errors import ErrorCode, Problem
from keyload.contract.mutations import Mutation
from keyload.contract.shared import EntityRef, PartitionRef

Tree = dict[str, Any]
ATTEMPT_SECONDS = 3.0
_PAUSE_SECONDS = 0.02
_OPENING_FACTOR = 2
UNCERTAIN = frozenset(
    {
        ErrorCode.UNKNOWN_WRITE_OUTCOME,
        ErrorCode.OWNERSHIP_LOST,
        ErrorCode.RECOVERY_REQUIRED,
        ErrorCode.CANCELLED,
    }
)
"""Codes after which the same identity is sent again (HTTP-22)."""


class Door(Protocol):
    """One client of one node. Failures are `errors.KeyLoadError`; what is lost on the way is uncertain."""

    async def commit(self, command_id: str, partition: PartitionRef, mutations: list[Mutation]) -> Tree:
        """The receipt as a tree."""
        ...

    async def get(self, reference: EntityRef) -> Tree | None:
        """The document as a tree, None when there is none."""
        ...


Opener = Callable[[str, str, float], AbstractAsyncContextManager[Door]]
"""Opens a door to the node at a url with a key; each attempt through it may take so many seconds."""


Attempt = Callable[[Door], Awaitable[Any]]
"""One try of something through a door."""


class SdkDoor:
    """The Python SDK, one attempt for each call."""

    def __init__(self, client: AsyncClient, seconds: float) -> None:
        self._client = client
        self._seconds = seconds

    async def commit(self, command_id: str, partition: PartitionRef, mutations: list[Mutation]) -> Tree:
        """The receipt as a tree."""
        receipt = await self._client.documents_commit(
            partition, mutations, command_id=command_id, retries=0, timeout=self._seconds
        )
        return tree(receipt)

    async def get(self, reference: EntityRef) -> Tree | None:
        """The document as a tree, None when there is none."""
        found = await self._client.documents_get(reference, retries=0, timeout=self._seconds)
        return None if found is None else tree(found)


class McpDoor:
    """The official MCP client with its default negotiation, through `gateway_tool_invoke`."""

    def __init__(self, client: McpClient, seconds: float) -> None:
        self._client = client
        self._seconds = seconds

    async def commit(self, command_id: str, partition: PartitionRef, mutations: list[Mutation]) -> Tree:
        """The receipt as a tree."""
        request = {
            "commandId": command_id,
            "partition": tree(partition),
            "mutations": [tree(mutation) for mutation in mutations],
        }
        return cast(Tree, await self.invoke("keyload_documents_commit", {"request": request}))

    async def get(self, reference: EntityRef) -> Tree | None:
        """The document as a tree, None when there is none."""
        request = {"reference": tree(reference)}
        return cast("Tree | None", await self.invoke("keyload_documents_get", {"request": request}))

    async def invoke(self, operation: str, arguments: Tree) -> Any:
        """The result of an operation; its problem is raised as KeyLoadError."""
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._client.call_tool(
                    "gateway_tool_invoke", {"toolId": operation, "arguments": arguments}
                )
        except (TimeoutError, httpx2.HTTPError, MCPError) as error:
            raise lost(error) from error
        content = cast(Tree, answer.structured_content)
        if answer.is_error:
            problem = msgspec.convert(content["error"], Problem)
            raise errors.KeyLoadError.from_problem(problem)
        return content["result"]


def lost(error: BaseException | None) -> errors.KeyLoadError:
    """What happened on the way is not known; only the same identity tells."""
    return errors.KeyLoadError(ErrorCode.UNKNOWN_WRITE_OUTCOME, f"Lost on the way: {type(error).__name__}.")


def tree(record: Any) -> Tree:
    """A contract record as the JSON tree it travels as."""
    return msgspec.json.decode(msgspec.json.encode(record))


@asynccontextmanager
async def sdk_door(url: str, key: str, seconds: float = ATTEMPT_SECONDS) -> AsyncIterator[SdkDoor]:
    """A door through the SDK."""
    async with AsyncClient(url, key) as client:
        yield SdkDoor(client, seconds)


@asynccontextmanager
async def mcp_door(url: str, key: str, seconds: float = ATTEMPT_SECONDS) -> AsyncIterator[McpDoor]:
    """A door through MCP; entering fails with KeyLoadError when the node does not answer."""
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=seconds) as http,
        McpClient(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        yield McpDoor(client, seconds)


class _Session:
    """One open door, in a task of its own: a client that breaks down takes only this task along."""

    def __init__(self, opening: AbstractAsyncContextManager[Door]) -> None:
        self._asked: asyncio.Queue[tuple[Attempt, asyncio.Future[Any]] | None] = asyncio.Queue()
        self._answer: asyncio.Future[Any] | None = None
        self._task = asyncio.create_task(self._run(opening))
        self._task.add_done_callback(self._ended)

    async def _run(self, opening: AbstractAsyncContextManager[Door]) -> None:
        async with opening as door:
            while (asked := await self._asked.get()) is not None:
                attempt, answer = asked
                try:
                    result = await attempt(door)
                except errors.KeyLoadError as error:
                    if not answer.done():
                        answer.set_exception(error)
                else:
                    if not answer.done():
                        answer.set_result(result)

    def _ended(self, task: asyncio.Task[None]) -> None:
        failure = None if task.cancelled() else task.exception()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(failure if isinstance(failure, errors.KeyLoadError) else lost(failure))

    async def ask(self, attempt: Attempt) -> Any:
        """The answer to one attempt; KeyLoadError for a problem and for a door that broke."""
        if self._task.done():
            raise lost(None)
        self._answer = asyncio.get_running_loop().create_future()
        self._asked.put_nowait((attempt, self._answer))
        return await self._answer

    async def close(self) -> None:
        """Close the door, by force when it does not close soon."""
        self._asked.put_nowait(None)
        await asyncio.wait({self._task}, timeout=0.2)
        self._task.cancel()
        await asyncio.wait({self._task})


class Way:
    """A client that goes on with the next node when the present one gives no definite answer.

    `opened` is how a door is made; one that failed is left and made anew, as a real client would. Use it as
    an async context manager.
    """

    def __init__(
        self, urls: list[str], key: str, opened: Opener, attempt_seconds: float = ATTEMPT_SECONDS
    ) -> None:
        self._urls = urls
        self._key = key
        self._opened = opened
        self._attempt_seconds = attempt_seconds
        self._place = 0
        self._session: _Session | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._leave()

    async def until_definite(self, attempt: Attempt, seconds: float) -> Any:
        """Repeat an attempt, node after node, until its answer is definite; TimeoutError when none comes."""
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return await self.once(attempt)
                except errors.KeyLoadError as error:
                    if error.code not in UNCERTAIN:
                        raise
                self._place += 1
                await asyncio.sleep(_PAUSE_SECONDS)

    async def once(self, attempt: Attempt) -> Any:
        """One try at the present node; after an uncertain answer the door is left."""
        try:
            return await self._ask(attempt)
        except errors.KeyLoadError as error:
            if error.code in UNCERTAIN:
                await self._leave()
            raise

    async def _ask(self, attempt: Attempt) -> Any:
        if self._session is None:
            self._session = _Session(self._opened(self._url, self._key, self._attempt_seconds))
        try:
            async with asyncio.timeout(_OPENING_FACTOR * self._attempt_seconds):
                return await self._session.ask(attempt)
        except TimeoutError as error:
            raise lost(error) from error

    @property
    def _url(self) -> str:
        return self._urls[self._place % len(self._urls)]

    async def _leave(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()
