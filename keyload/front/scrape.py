"""`GET /metrics`: what the front and its workers count, for a monitoring system (CLU-29, SEC-8).

It draws on no lane, so that a node that is full can still be watched; instead it has a few places of its own,
and one gathering at a time serves all who ask meanwhile.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import msgspec

from keyload.contract.errors import KeyLoadError
from keyload.front.admission import HttpGate, LaneFull
from keyload.front.auth import Authenticator, Headers
from keyload.front.exposition import CONTENT_TYPE, Exposition, Labels
from keyload.front.measures import BOUNDS, Measures
from keyload.front.responses import Response
from keyload.front.workers import WorkerHub
from keyload.link.messages import Reply

PATH = "/metrics"
MAX_AT_ONCE = 8
"""Requests that are answered at once, from before their credential is looked up until they are written."""
Role = Literal["follower", "pre_candidate", "candidate", "leader"]
ROLES: tuple[Role, ...] = ("follower", "pre_candidate", "candidate", "leader")


class ShardState(msgspec.Struct, frozen=True, rename="camel"):
    """What a worker says of one replica."""

    shard: int
    role: Role
    term: int
    leader: int
    commit: int
    applied: int
    log_bytes: int
    waiting: int


class WorkerState(msgspec.Struct, frozen=True, rename="camel"):
    """What metrics take from a worker's counters."""

    commands: int
    retained_bytes: int
    control_commands: int
    control_retained_bytes: int
    shards: list[ShardState]


_states = msgspec.json.Decoder(WorkerState)


class Scrape:
    """Answers `GET /metrics`. `token` is the configured scrape token, None when there is none."""

    def __init__(
        self,
        hub: WorkerHub,
        gate: HttpGate,
        measures: Measures,
        authenticator: Authenticator,
        ready: Callable[[], bool],
        token: str | None,
    ) -> None:
        self._hub = hub
        self._gate = gate
        self._measures = measures
        self._authenticator = authenticator
        self._ready = ready
        self._expected = None if token is None else _digest(b"bearer " + token.encode())
        self.held = 0  # places that are taken
        self._gathering: asyncio.Task[list[WorkerState | None]] | None = None

    @contextmanager
    def place(self) -> Generator[None]:
        """Hold one of the places of this path; raises LaneFull when all are taken."""
        if self.held >= MAX_AT_ONCE:
            raise LaneFull("The node answers as many requests for metrics as it does at once.")
        self.held += 1
        try:
            yield
        finally:
            self.held -= 1

    async def answer(self, headers: Headers) -> Response:
        """The metrics of this moment. Raises Unauthenticated, PermissionDenied, or OwnershipLost when an
        administrator's key cannot be confirmed; the scrape token works on a node without majority too.
        """
        await self._check(headers)
        return Response(200, ((b"content-type", CONTENT_TYPE),), self._text(await self._states()))

    async def _check(self, headers: Headers) -> None:
        if self._is_token(headers):
            return
        caller = await self._authenticator.verify(headers)
        caller.require_administrator()

    def _is_token(self, headers: Headers) -> bool:
        found = [value for name, value in headers if name == b"authorization"]
        if self._expected is None or len(found) != 1:
            return False
        return hmac.compare_digest(_digest(found[0][:7].lower() + found[0][7:]), self._expected)

    async def _states(self) -> list[WorkerState | None]:
        if self._gathering is None:
            self._gathering = asyncio.create_task(self._gather())
        return await asyncio.shield(self._gathering)

    async def _gather(self) -> list[WorkerState | None]:
        try:
            return await asyncio.gather(*(self._state(worker) for worker in range(self._hub.workers)))
        finally:
            self._gathering = None

    async def _state(self, worker: int) -> WorkerState | None:
        """What one worker says of itself, None when it is away."""
        try:
            answer = await self._hub.usage(worker)
        except KeyLoadError:
            return None
        return _states.decode(answer.payload) if isinstance(answer, Reply) else None

    def _text(self, states: Sequence[WorkerState | None]) -> bytes:
        text = Exposition()
        text.gauge("keyload_ready", "1 when the node takes part in routing.", [((), int(self._ready()))])
        text.gauge(
            "keyload_worker_up",
            "1 when the worker answers.",
            [((("worker", worker),), int(state is not None)) for worker, state in enumerate(states)],
        )
        _write_shards(text, [shard for state in states if state is not None for shard in state.shards])
        _write_commands(text, states)
        self._write_admission(text)
        self._write_calls(text)
        return text.text()

    def _write_admission(self, text: Exposition) -> None:
        status = self._gate.status()
        held, limits = status.node, status.limits
        text.gauge(
            "keyload_http_requests",
            "Requests that the front holds.",
            _lanes(held.commands, held.control_commands),
        )
        text.gauge(
            "keyload_http_requests_limit",
            "Requests that the front may hold.",
            _lanes(limits.max_requests, limits.reserved_control_requests),
        )
        text.gauge(
            "keyload_http_reserved_bytes",
            "Bytes reserved for the requests that the front holds.",
            _lanes(held.retained_bytes, held.control_retained_bytes),
        )
        text.gauge(
            "keyload_http_reserved_bytes_limit",
            "Bytes that may be reserved for requests.",
            _lanes(limits.max_reserved_bytes, limits.reserved_control_bytes),
        )

    def _write_calls(self, text: Exposition) -> None:
        measures = self._measures
        text.histogram(
            "keyload_call_seconds",
            "Time from a decoded call to its result.",
            BOUNDS,
            [
                ((("lane", lane),), histogram.counts, histogram.total)
                for lane, histogram in measures.latency.items()
            ],
        )
        text.counter(
            "keyload_failures_total",
            "Calls that failed, refused ones included.",
            [
                ((("lane", lane), ("code", str(code))), count)
                for (lane, code), count in sorted(measures.failures.items())
            ],
        )


def _write_shards(text: Exposition, shards: Sequence[ShardState]) -> None:
    def each(value: Callable[[ShardState], int]) -> Iterator[tuple[Labels, int]]:
        return (((("shard", shard.shard),), value(shard)) for shard in shards)

    text.gauge(
        "keyload_shard_role",
        "1 for the role of this node's replica, 0 for the others.",
        [
            ((("shard", shard.shard), ("role", role)), int(role == shard.role))
            for shard in shards
            for role in ROLES
        ],
    )
    text.gauge("keyload_shard_term", "Term of consensus.", each(lambda shard: shard.term))
    text.gauge(
        "keyload_shard_leader",
        "Number of the leading node, 0 when unknown.",
        each(lambda shard: shard.leader),
    )
    text.gauge("keyload_shard_commit_index", "Last entry known to be committed.", each(lambda s: s.commit))
    text.gauge("keyload_shard_applied_index", "Last entry applied.", each(lambda shard: shard.applied))
    text.gauge(
        "keyload_shard_lag_entries",
        "Entries known to be committed and not applied yet.",
        each(lambda shard: shard.commit - shard.applied),
    )
    text.gauge(
        "keyload_shard_log_bytes",
        "Bytes of the worker's log from the first entry that the shard keeps.",
        each(lambda shard: shard.log_bytes),
    )
    text.gauge("keyload_shard_waiting_calls", "Calls that wait.", each(lambda shard: shard.waiting))


def _write_commands(text: Exposition, states: Sequence[WorkerState | None]) -> None:
    present = [(worker, state) for worker, state in enumerate(states) if state is not None]
    text.gauge(
        "keyload_worker_commands",
        "Commands that the worker holds.",
        [
            ((("worker", worker), *labels), value)
            for worker, state in present
            for labels, value in _lanes(state.commands, state.control_commands)
        ],
    )
    text.gauge(
        "keyload_worker_retained_bytes",
        "Bytes held by the worker's commands.",
        [
            ((("worker", worker), *labels), value)
            for worker, state in present
            for labels, value in _lanes(state.retained_bytes, state.control_retained_bytes)
        ],
    )


def _lanes(data: int, control: int) -> list[tuple[Labels, int]]:
    """The two pools of admission."""
    return [((("lane", "data"),), data), ((("lane", "control"),), control)]


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
