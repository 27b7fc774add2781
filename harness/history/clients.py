"""Clients that race on a few documents and put down every call with start, end and answer.

Most speak through the SDK, some through the official MCP client; each call goes to any node. Kinds of
documents: registers (written without condition, deleted now and then), sets (written on condition of the
revision last seen), lists (extended on that condition) and inserts (several clients, one wins). An uncertain
write is sent again a few times with its id, or left in doubt until the end of the round.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from random import Random
from typing import Any, Protocol, Self

from harness.acknowledged import COLLECTION, partition_of
from harness.doors import UNCERTAIN, Door, SdkDoor, Tree, Way, mcp_door
from harness.history.calls import Attempt, Call, Kind, Outcome, Value
from harness.history.document import NEVER_USED, State
from keyload.client import AsyncClient
from keyload.contract import errors
from keyload.contract.documents import DeleteDocument, FieldPatch, PatchDocument, PatchKind, PutDocument
from keyload.contract.errors import ErrorCode
from keyload.contract.mutations import Mutation
from keyload.contract.shared import EntityRef

ID = "one"
SDK_CLIENTS = 10
MCP_CLIENTS = 4
DOCUMENTS = ("register-1", "register-2", "set-1", "set-2", "list-1", "list-2", "list-3")
CALLS_PER_INSERT = 40
"""Calls of all kinds until inserts race on another document."""

LONGEST_LIST = 24
TRIES = 4
REPEATED_SHARE = 0.1
REPEATED_AT_END = 100
SETTLERS = 9
SETTLE_SECONDS = 120.0
PATIENT_SECONDS = 10.0
_TIMEOUTS = (0.5, 1.0, 3.0)
_REFUSALS = {ErrorCode.REVISION_CONFLICT: Outcome.CONFLICT, ErrorCode.NOT_FOUND: Outcome.MISSING}


class Ways(Protocol):
    """How one client reaches every node: one try of an attempt at node `place`."""

    kind: str

    async def ask(self, place: int, attempt: Any) -> Any:
        """The answer, or KeyLoadError."""
        ...


class SdkWays:
    """The SDK; all clients of this kind share the connections to a node."""

    kind = "sdk"

    def __init__(self, clients: Sequence[AsyncClient], seconds: float) -> None:
        self._doors = [SdkDoor(client, seconds) for client in clients]

    async def ask(self, place: int, attempt: Any) -> Any:
        """One try."""
        return await attempt(self._doors[place])


class McpWays:
    """The official MCP client; a session to each node, made anew when it broke."""

    kind = "mcp"

    def __init__(self, ways: Sequence[Way]) -> None:
        self._ways = ways

    async def ask(self, place: int, attempt: Any) -> Any:
        """One try."""
        return await self._ways[place].once(attempt)


class Round:
    """Clients and their history. Use it as an async context manager: entered, the clients race."""

    def __init__(self, name: str, urls: list[str], key: str, seed: int) -> None:
        self.name = name
        self.calls: list[Call] = []
        self._urls = urls
        self._key = key
        self._seed = seed
        self._chance = Random(seed)
        self._stop = asyncio.Event()
        self._stack = AsyncExitStack()
        self._clients: list[_Client] = []
        self._settlers: list[_Client] = []
        self._racing: asyncio.TaskGroup | None = None
        self._elements = 0

    async def __aenter__(self) -> Self:
        shared = [await self._stack.enter_async_context(AsyncClient(url, self._key)) for url in self._urls]
        for number in range(SDK_CLIENTS + MCP_CLIENTS):
            seconds = _TIMEOUTS[number % len(_TIMEOUTS)]
            ways = SdkWays(shared, seconds) if number < SDK_CLIENTS else await self._mcp_ways(seconds)
            self._clients.append(_Client(self, number, ways, Random(f"{self._seed}-{number}")))
        for number in range(SETTLERS):
            mcp = number % 3 == 2
            ways = await self._mcp_ways(PATIENT_SECONDS) if mcp else SdkWays(shared, PATIENT_SECONDS)
            self._settlers.append(_Client(self, -1 - number, ways, Random(f"{self._seed}-settler-{number}")))
        self._racing = await asyncio.TaskGroup().__aenter__()
        for client in self._clients:
            self._racing.create_task(client.race(self._stop))
        return self

    async def _mcp_ways(self, seconds: float) -> Ways:
        ways = [Way([url], self._key, mcp_door, seconds) for url in self._urls]
        return McpWays([await self._stack.enter_async_context(way) for way in ways])

    async def __aexit__(self, *exception: Any) -> None:
        """Let every client end its call, then settle what is in doubt."""
        assert self._racing is not None
        self._stop.set()
        async with self._stack:
            await self._racing.__aexit__(*exception)
            if exception[0] is None:
                await self._settle()

    @property
    def in_doubt(self) -> int:
        """Writes without a definite answer so far."""
        return sum(call.end is None and call.kind is not Kind.GET for call in self.calls)

    def next_element(self) -> int:
        """A number that no other write of the round carries."""
        self._elements += 1
        return self._elements

    def insert_name(self) -> str:
        """The document that inserts race on now."""
        return f"insert-{len(self.calls) // CALLS_PER_INSERT}"

    def key_of(self, document: str) -> str:
        """Its name in the history and its partition."""
        return f"{self.name}-{document}"

    async def _settle(self) -> None:
        """Send every write in doubt again until its answer is definite, and some of the others, which have to
        be answered as before; then read every document once more through every node.
        """
        writes = [call for call in self.calls if call.kind is not Kind.GET]
        doubtful = [call for call in writes if call.end is None]
        certain = [call for call in writes if call.end is not None]
        again = doubtful + self._chance.sample(certain, min(len(certain), REPEATED_AT_END))
        async with asyncio.timeout(SETTLE_SECONDS), asyncio.TaskGroup() as tasks:
            for place, client in enumerate(self._settlers):
                tasks.create_task(client.settle(again[place::SETTLERS]))
        for client in self._settlers[: len(self._urls)]:
            await client.read_all(sorted({call.key for call in self.calls}))


class _Client:
    """One client: a call at a time, each with its definite answer or left in doubt."""

    def __init__(self, owner: Round, number: int, ways: Ways, chance: Random) -> None:
        self._round = owner
        self._number = number
        self._ways = ways
        self._chance = chance
        self._nodes = len(owner._urls)
        self._place = number % self._nodes
        self._known: dict[str, State] = {}

    async def race(self, stop: asyncio.Event) -> None:
        """Call after call until told to stop."""
        while not stop.is_set():
            call = self._begin()
            for _ in range(TRIES):
                if await self._try(call) or call.kind is Kind.GET or self._chance.random() < 0.25:
                    break
                await asyncio.sleep(self._chance.uniform(0.01, 0.1))
            if call.end is not None and call.kind is not Kind.GET and self._chance.random() < REPEATED_SHARE:
                await self._try(call)

    async def settle(self, calls: list[Call]) -> None:
        """Send these again until each answer is definite."""
        for call in calls:
            while not await self._try(call):
                await asyncio.sleep(0.02)

    async def read_all(self, keys: list[str]) -> None:
        """Read every document through one node until it answers."""
        place = self._number % self._nodes
        for key in keys:
            call = Call(client=self._number, key=key, kind=Kind.GET, start=time.monotonic_ns())
            self._round.calls.append(call)
            async with asyncio.timeout(SETTLE_SECONDS):
                while not await self._try(call, place):
                    await asyncio.sleep(0.02)

    # -- what to do next

    def _begin(self) -> Call:
        document = self._chance.choice([*DOCUMENTS, self._round.insert_name()])
        key = self._round.key_of(document)
        known = self._known.get(key, NEVER_USED)
        kind, value, expected = Kind.GET, None, None
        if self._chance.random() < 0.6:
            kind, value, expected = self._write(document.partition("-")[0], known)
        call = Call(client=self._number, key=key, kind=kind, start=0, value=value, expected=expected)
        if kind is not Kind.GET:
            call.command_id = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
        call.start = time.monotonic_ns()
        self._round.calls.append(call)
        return call

    def _write(self, kind: str, known: State) -> tuple[Kind, Value | None, int | None]:
        revision, value = known
        element = self._round.next_element()
        match kind:
            case "register" if self._chance.random() < 0.15:
                return Kind.DELETE, None, None
            case "register":
                return Kind.PUT, (element,), None
            case "insert":
                return Kind.PUT, (element,), 0
            case "list" if value is not None and len(value) < LONGEST_LIST:
                return Kind.PATCH, (*value, element), revision
            case _:
                return Kind.PUT, (element,), revision

    # -- one try

    async def _try(self, call: Call, place: int | None = None) -> bool:
        """Send a call once to any node; whether its answer is definite."""
        if place is None and self._chance.random() < 0.4:
            self._place = self._chance.randrange(self._nodes)
        node = self._place if place is None else place
        started = time.monotonic_ns()
        try:
            answer = await self._ways.ask(node, partial(_send, call))
        except errors.KeyLoadError as error:
            definite = self._refused(call, error)
            told = str(error.code)
        else:
            definite, told = True, "done"
            self._answered(call, answer)
        ended = time.monotonic_ns()
        call.attempts.append(Attempt(node + 1, self._ways.kind, started, ended, told))
        if definite and call.end is None:
            call.end = ended
        if not definite:
            self._place = self._chance.randrange(self._nodes)
        return definite

    def _answered(self, call: Call, answer: Tree | None) -> None:
        if call.kind is Kind.GET:
            call.outcome = Outcome.DONE
            if answer is not None:
                call.revision, call.found = answer["revision"], tuple(json.loads(answer["json"])["items"])
            self._known[call.key] = (call.revision or 0, call.found)
            return
        assert answer is not None
        revision = answer["mutations"][0]["revision"]
        _note_answer(call, json.dumps(answer, sort_keys=True))
        if call.end is None:
            call.outcome, call.revision = Outcome.DONE, revision
            call.position = answer["token"]["position"]
        self._known[call.key] = (revision, call.value)

    def _refused(self, call: Call, error: errors.KeyLoadError) -> bool:
        """Note a refusal; whether it is definite. Any that no fault explains is a failure of the run."""
        if error.code in UNCERTAIN:
            return False
        outcome = _REFUSALS.get(error.code)
        if outcome is None or call.kind is Kind.GET:
            raise AssertionError(f"{call} through node {self._place + 1} was refused: {error}")
        _note_answer(call, f"{error.code}: {error.detail}")
        if call.end is None:
            call.outcome = outcome
        self._known.pop(call.key, None)
        return True


def _note_answer(call: Call, answer: str) -> None:
    if answer not in call.answers:
        call.answers.append(answer)


async def _send(call: Call, door: Door) -> Tree | None:
    partition = partition_of(call.key)
    if call.kind is Kind.GET:
        return await door.get(EntityRef(partition=partition, collection=COLLECTION, id=ID))
    assert call.command_id is not None
    return await door.commit(call.command_id, partition, [_mutation(call)])


def _mutation(call: Call) -> Mutation:
    items = json.dumps(call.value)
    if call.kind is Kind.PUT:
        text = f'{{"items": {items}}}'
        return PutDocument(collection=COLLECTION, id=ID, json=text, expected_revision=call.expected)
    if call.kind is Kind.DELETE:
        return DeleteDocument(collection=COLLECTION, id=ID, expected_revision=call.expected)
    assert call.expected is not None
    patch = FieldPatch(path="/items", kind=PatchKind.SET, value_json=items)
    return PatchDocument(collection=COLLECTION, id=ID, patches=(patch,), expected_revision=call.expected)
