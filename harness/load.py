"""Streams of commits from many clients at once, over SDK and MCP, recorded in a ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from harness.acknowledged import COLLECTION, DATABASE, DOMAIN, TENANT, Account, Ledger
from harness.doors import Opener, Way, mcp_door, sdk_door
from keyload.client import AsyncClient
from keyload.contract.catalog import IndexDefinition, ResourceDefinition, ResourceKind

CLIENTS = 16


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


async def seconds_until_served(ledger: Ledger, urls: list[str], key: str, accounts: int) -> float:
    """How long it takes from now until accounts all over the shards have taken a new command (CLU-10).

    Each asks again and again with an impatient client, at one node after the other.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()

    async def one(number: int) -> float:
        place = number % len(urls)
        async with Way(urls[place:] + urls[:place], key, sdk_door, attempt_seconds=0.5) as way:
            await ledger.write(way, ledger.account(f"{ledger.seed}-probe-{number}"))
        return loop.time() - started

    return max(await asyncio.gather(*(one(number) for number in range(accounts))))
