"""The model of acknowledged commands: what clients were told, held against what the cluster says (TST-11).

Each partition has one writer that sends its commands one after the other, each touching two documents, so
that revisions, contents and receipts are known exactly: a lost command leaves a lower revision, a doubled
one a higher, a torn one documents that disagree.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from random import Random

import msgspec

from harness.doors import Door, Opener, Tree, Way, mcp_door, sdk_door
from harness.reference import Documents, State, applied, as_state, visible
from keyload.contract.documents import DeleteDocument, FieldPatch, PatchDocument, PatchKind, PutDocument
from keyload.contract.mutations import Mutation
from keyload.contract.shared import EntityRef, PartitionRef

COLLECTION = "notes"
DEFINITE_SECONDS = 60.0
CHECKERS = 8
TENANT, DATABASE, DOMAIN = "system", "harness", "main"


class Written(msgspec.Struct):
    """One command: `receipt` is None until its answer is definite, `after` is the state it leads to."""

    command_id: str
    mutations: list[Mutation]
    after: Documents
    receipt: Tree | None = None


class Account:
    """One partition with all its commands in order; at most the last one is without a definite answer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.partition = partition_of(name)
        self.ids = (f"{name}-a", f"{name}-b")
        self.commands: list[Written] = []

    @property
    def acknowledged(self) -> int:
        """Number of acknowledged commands."""
        return sum(written.receipt is not None for written in self.commands)

    @property
    def state(self) -> Documents:
        """What the acknowledged commands have made."""
        done = [written for written in self.commands if written.receipt is not None]
        return done[-1].after if done else {}

    def next_command(self, chance: Random) -> Written:
        """Put down the next command before it is sent for the first time."""
        command_id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        mutations = [self._mutation(name, len(self.commands) + 1, chance) for name in self.ids]
        written = Written(command_id, mutations, applied(self.state, mutations))
        self.commands.append(written)
        return written

    def _mutation(self, name: str, number: int, chance: Random) -> Mutation:
        before = self.state.get(name, State())
        kind = chance.random()
        if before.value is None or kind < 0.6:
            text = f'{{"number": {number}, "of": "{name}", "filler": "{"x" * chance.randrange(200)}"}}'
            return PutDocument(collection=COLLECTION, id=name, json=text)
        if kind < 0.85:
            patch = FieldPatch(path="/number", kind=PatchKind.SET, value_json=str(number))
            return PatchDocument(
                collection=COLLECTION, id=name, patches=(patch,), expected_revision=before.revision
            )
        return DeleteDocument(collection=COLLECTION, id=name)

    def reference(self, name: str) -> EntityRef:
        """Where a document of the account is read."""
        return EntityRef(partition=self.partition, collection=COLLECTION, id=name)


class Ledger:
    """All accounts of a test. `seed` decides every random choice (TST-12)."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.accounts: dict[str, Account] = {}
        self.answers: list[float] = []
        self._chance = Random(seed)

    def account(self, name: str) -> Account:
        """The account of this name, in a partition of its own."""
        return self.accounts.setdefault(name, Account(name))

    @property
    def in_doubt(self) -> int:
        """Number of commands without a definite answer."""
        commands = (written for account in self.accounts.values() for written in account.commands)
        return sum(written.receipt is None for written in commands)

    async def write(self, way: Way, account: Account, seconds: float = DEFINITE_SECONDS) -> None:
        """Send one new command until its answer is definite."""
        written = self.begin(account)
        self.answered(written, await way.until_definite(partial(send, account, written), seconds))

    def begin(self, account: Account) -> Written:
        """Put down the next command of an account, before it is sent."""
        return account.next_command(self._chance)

    def answered(self, written: Written, receipt: Tree) -> None:
        """Put down the definite answer to a command."""
        written.receipt = receipt
        self.answers.append(time.monotonic())

    async def settle(self, way: Way) -> int:
        """After a crash: what is in doubt is there whole or not at all; then ask until that is settled.

        The number of commands in doubt that were there (STO-26).
        """
        present = 0
        for account in self.accounts.values():
            if not account.commands or account.commands[-1].receipt is not None:
                continue
            written = account.commands[-1]
            found = await self._read(way, account)
            if found == visible(written.after):
                present += 1
            else:
                self._same(account, found, account.state)
            written.receipt = await way.until_definite(partial(send, account, written), DEFINITE_SECONDS)
        return present

    async def check(
        self, urls: list[str], key: str, openers: Sequence[Opener] = (sdk_door, mcp_door)
    ) -> None:
        """Hold every account against the cluster, through every node, and repeat every command through every
        kind of door: none lost, none doubled, the same receipt again, and no read older than an answer."""
        async with asyncio.TaskGroup() as tasks:
            for place in range(CHECKERS):
                node = place % len(urls)
                way = Way(urls[node:] + urls[:node], key, openers[place % len(openers)])
                tasks.create_task(self._check_some(way, list(self.accounts.values())[place::CHECKERS]))
        for url in urls:
            async with Way([url], key, openers[0]) as way:
                await self.check_contents(way)

    async def check_contents(self, way: Way) -> None:
        """Hold what is stored and every receipt against the model, without sending anything again."""
        for account in self.accounts.values():
            self._same(account, await self._read(way, account), account.state)
            self._check_receipts(account)

    async def _check_some(self, way: Way, accounts: list[Account]) -> None:
        async with way:
            for account in accounts:
                for written in account.commands:
                    again = await way.until_definite(partial(send, account, written), DEFINITE_SECONDS)
                    assert again == written.receipt, (
                        f"seed {self.seed}: {account.name}: {written.command_id} was answered "
                        f"{written.receipt} and, repeated, {again}"
                    )

    async def _read(self, way: Way, account: Account) -> Documents:
        """The account's live documents."""
        found: Documents = {}
        for name in account.ids:
            answer = await way.until_definite(partial(_get, account.reference(name)), DEFINITE_SECONDS)
            if answer is not None:
                found[name] = as_state(answer)
        return found

    def _same(self, account: Account, found: Documents, expected: Documents) -> None:
        assert found == visible(expected), (
            f"seed {self.seed}: {account.name} after {account.acknowledged} commands holds {found}, "
            f"not {visible(expected)}"
        )

    def _check_receipts(self, account: Account) -> None:
        for written in account.commands:
            assert written.receipt is not None
            told = {receipt["id"]: receipt["revision"] for receipt in written.receipt["mutations"]}
            expected = {name: state.revision for name, state in written.after.items()}
            assert told == expected, f"seed {self.seed}: {account.name}: receipt tells {told}, not {expected}"

    def longest_gap(self, start: float, end: float) -> float:
        """The longest time without any answer between two instants, in seconds."""
        instants = [start, *(answer for answer in sorted(self.answers) if start < answer < end), end]
        return max(after - before for before, after in pairwise(instants))


def partition_of(key: str) -> PartitionRef:
    """The partition of the harness with this key."""
    return PartitionRef(
        tenant_id=TENANT, database_id=DATABASE, transaction_domain_id=DOMAIN, partition_key=key
    )


async def send(account: Account, written: Written, door: Door) -> Tree:
    """One attempt of a command."""
    return await door.commit(written.command_id, account.partition, written.mutations)


async def _get(reference: EntityRef, door: Door) -> Tree | None:
    return await door.get(reference)
