"""Streams of commits from many clients at once, over SDK and MCP, recorded in a ledger."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import cycle

from harness.acknowledged import (
    COLLECTION,
    DATABASE,
    DEFINITE_SECONDS,
    DOMAIN,
    TENANT,
    Account,
    Ledger,
    partition_of,
    send,
)
from harness.doors import UNCERTAIN, Door, Opener, Tree, Way, mcp_door, sdk_door
from keyload.client import AsyncClient
from keyload.contract.catalog import IndexDefinition, ResourceDefinition, ResourceKind
from keyload.contract.documents import PutDocument
from keyload.contract.errors import KeyLoadError

CLIENTS = 16
PATIENCE_SECONDS = 5.0
BALLAST_BYTES = 100_000
BALLAST_DOCUMENTS = 24
BALLAST_PARTITIONS = 8
BALLAST_SECONDS = 2.0
BALLAST_PAUSE_SECONDS = 0.2
ASK_AGAIN_SECONDS = 0.5


async def prepare(urls: list[str], key: str) -> None:
    """Create the collection that all ledgers write to; an equal one stays."""
    definition = ResourceDefinition(
        name=COLLECTION,
        kind=ResourceKind.COLLECTION,
        transaction_domain_id=DOMAIN,
        indexes=(IndexDefinition(name="byNumber", fields=("/number",)),),
    )
    async with AsyncClient(urls, key) as client:
        await client.resources_configure(TENANT, DATABASE, definition)


async def write_until(stop: asyncio.Event, ledger: Ledger, account: Account, way: Way) -> None:
    """One client: command after command, until told to stop."""
    async with way:
        while not stop.is_set():
            await ledger.write(way, account)


@asynccontextmanager
async def stream_of_commits(
    ledger: Ledger, urls: list[str], key: str, clients: int = CLIENTS
) -> AsyncIterator[None]:
    """Clients write while the context is entered, every second one through MCP, each with its own account.

    Leaving waits until each has a definite answer.
    """
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for number in range(clients):
            opener: Opener = mcp_door if number % 2 else sdk_door
            place = number % len(urls)
            way = Way(urls[place:] + urls[:place], key, opener)
            account = ledger.account(f"{ledger.seed}-{number}")
            tasks.create_task(write_until(stop, ledger, account, way))
        try:
            yield
        finally:
            stop.set()


@asynccontextmanager
async def ballast(urls: list[str], key: str, name: str) -> AsyncIterator[None]:
    """Some large documents are written while the context is entered, so that logs are cut soon and a follower
    that was away needs a snapshot. What is refused or lost does not matter.
    """
    text = f'{{"ballast": "{"x" * BALLAST_BYTES}"}}'

    async def write(client: AsyncClient, place: int) -> None:
        for number in range(BALLAST_DOCUMENTS):
            if stop.is_set():
                return
            partition = partition_of(f"{name}-ballast-{place}-{number % BALLAST_PARTITIONS}")
            put = PutDocument(collection=COLLECTION, id="ballast", json=text)
            with suppress(KeyLoadError):
                await client.documents_commit(partition, [put], retries=0, timeout=BALLAST_SECONDS)
            await asyncio.sleep(BALLAST_PAUSE_SECONDS)

    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(AsyncClient(url, key)) for url in urls]
        async with asyncio.TaskGroup() as tasks:
            for place, client in enumerate(clients):
                tasks.create_task(write(client, place))
            try:
                yield
            finally:
                stop.set()


async def seconds_until_served(
    ledger: Ledger, urls: list[str], key: str, accounts: int
) -> tuple[float, list[str]]:
    """How long it takes from now until accounts all over the shards have taken a new command (CLU-10).

    Each is asked again every half second, at one node after the other, while earlier attempts may still be
    answered: a slow answer counts as one. The second value tells what the slowest met on its way.
    """
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        doors = [await stack.enter_async_context(sdk_door(url, key, PATIENCE_SECONDS)) for url in urls]

        async def one(number: int) -> tuple[float, list[str]]:
            account = ledger.account(f"{ledger.seed}-probe-{number}")
            trouble = await _ask_until_answered(ledger, account, doors[number % 2 :] + doors[: number % 2])
            return time.monotonic() - started, trouble

        return max(await asyncio.gather(*(one(number) for number in range(accounts))))


async def _ask_until_answered(ledger: Ledger, account: Account, doors: Sequence[Door]) -> list[str]:
    """Ask for one new command; the failures before its answer."""
    written = ledger.begin(account)
    trouble: list[str] = []
    waiting: set[asyncio.Task[Tree]] = set()
    async with asyncio.timeout(DEFINITE_SECONDS):
        for door in cycle(doors):
            waiting.add(asyncio.create_task(send(account, written, door)))
            done, waiting = await asyncio.wait(
                waiting, timeout=ASK_AGAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            for attempt in done:
                failure = attempt.exception()
                if isinstance(failure, KeyLoadError) and failure.code in UNCERTAIN:
                    trouble.append(f"{time.monotonic():.2f} {failure}")
                else:
                    ledger.answered(written, attempt.result())
            if written.receipt is not None:
                break
            await asyncio.sleep(0.02)
    for attempt in waiting:
        attempt.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    return trouble
