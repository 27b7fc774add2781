"""The one path on which a decoded call is executed, for HTTP and MCP alike (MCP-5, MCP-26)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import msgspec

from keyload.codec.fingerprint import fingerprint
from keyload.codec.identity import PartitionKey, partition_key
from keyload.codec.placement import FIRST_EPOCH, Place
from keyload.codec.text_formats import Texts
from keyload.contract.admin import (
    ADMIN_ADMISSION,
    ADMIN_BACKUP,
    CommandAdmissionLimits,
    CommandAdmissionSnapshot,
    NodeAdmissionStatus,
)
from keyload.contract.cluster import ADMIN_STATUS, NodeStatus
from keyload.contract.errors import UNSTORED, ErrorCode, KeyLoadError, Problem
from keyload.contract.limits import whole
from keyload.contract.operation import Operation
from keyload.contract.operations import partition_of, write_identity_of
from keyload.front.admission import HttpGate
from keyload.front.backups import BackupDesk
from keyload.front.barrier import lost
from keyload.front.calls import Caller, Outcome
from keyload.front.measures import Measures
from keyload.front.workers import Answer, WorkerHub, payload_of, unknown_outcome
from keyload.link import log
from keyload.link.launch import CommandLimits
from keyload.link.messages import Refusal

SYSTEM = Place(0, FIRST_EPOCH)
PLACING_PAUSE = 0.02
"""Seconds before a call is sent again whose partition is being placed; placing takes a few round trips."""

MAX_REPLY_BYTES = whole("http.maxDataReplyBytes")

_UNDECIDED = (UNSTORED - {ErrorCode.UNKNOWN_WRITE_OUTCOME, ErrorCode.CORRUPTION}) | {
    ErrorCode.RESOURCE_EXHAUSTED
}
"""Codes of a repetition that do not tell what became of the call."""

Submit = Callable[[Place], asyncio.Future[Answer]]

_problems = msgspec.msgpack.Decoder(Problem)
_statuses = msgspec.json.Decoder(NodeStatus)


class _ShardUsage(msgspec.Struct, frozen=True, rename="camel"):
    """What the front takes from the counters of a shard."""

    generation: int


class _WorkerUsage(msgspec.Struct, frozen=True, rename="camel"):
    """What the front takes from a worker's counters."""

    commands: int
    retained_bytes: int
    control_commands: int
    control_retained_bytes: int
    tenants: list[str]
    principals: list[str]
    shards: list[_ShardUsage]


_usages = msgspec.json.Decoder(_WorkerUsage)


class Execution:
    """Sends calls to the shards of their partitions. `shards` is the number of data shards."""

    def __init__(
        self,
        hub: WorkerHub,
        shards: int,
        gate: HttpGate,
        ready: Callable[[], bool],
        backups: BackupDesk,
        measures: Measures,
        limits: CommandLimits | None = None,
    ) -> None:
        self._hub = hub
        self._shards = shards
        self._gate = gate
        self._ready = ready
        self._measures = measures
        self._generations: dict[int, int] = {}
        self._limits = limits or CommandLimits()
        self._answered_here: dict[str, Callable[[Caller], Awaitable[bytes]]] = {
            ADMIN_ADMISSION.name: self._admission,
            ADMIN_STATUS.name: self._status,
            ADMIN_BACKUP.name: backups.make,
        }

    async def execute(
        self,
        caller: Caller,
        operation: Operation,
        command_id: str | None,
        request: Any,
        texts: Texts | None = None,
    ) -> Outcome:
        """Run one call (`keyload.front.calls.Invoker`); every failure is the outcome's problem.

        `texts` are the canonical JSON texts that decoding met, None when nobody kept them.
        """
        began = time.monotonic()
        outcome = await self._outcome(caller, operation, command_id, request, texts)
        failure = None if outcome.problem is None else ErrorCode(outcome.problem.error_code)
        self._measures.called(operation, time.monotonic() - began, failure)
        return outcome

    async def _outcome(
        self,
        caller: Caller,
        operation: Operation,
        command_id: str | None,
        request: Any,
        texts: Texts | None,
    ) -> Outcome:
        request_id = str(uuid4())
        try:
            here = self._answered_here.get(operation.name)
            if here is not None:
                payload = await here(caller)
            elif (identity := write_identity_of(operation, request, command_id)) is not None:
                payload = await self._command(caller, operation, identity, request, texts)
            else:
                payload = await self._read(caller, operation, request)
        except KeyLoadError as error:
            known = error.code is not ErrorCode.UNAUTHENTICATED  # else nothing was executed (CON-35)
            return Outcome(request_id if known else None, problem=error.problem)
        except Exception as error:
            log.failure(log.Category.REQUEST_FAILED, error)
            failure = lost() if operation.kind == "read" else unknown_outcome()
            return Outcome(request_id, problem=failure.problem)
        return Outcome(request_id, payload=payload)

    async def _command(
        self, caller: Caller, operation: Operation, identity: str, request: Any, texts: Texts | None
    ) -> bytes:
        partition = _partition(operation, request)
        mark = fingerprint(operation.name, partition, request, texts)
        payload = msgspec.msgpack.encode(request)

        def submit(place: Place) -> asyncio.Future[Answer]:
            return self._hub.command(
                shard=place.shard,
                operation=operation.name,
                principal=caller.principal.id,
                catalog_version=caller.catalog_version,
                command_id=UUID(identity).bytes,
                fingerprint=mark,
                partition=partition,
                payload=payload,
                control=operation.admission_class == "control",
                epoch=place.epoch,
                credential=caller.credential,
            )

        try:
            return payload_of(await self._placed(partition, submit, 2 * self._hub.call_seconds))
        except KeyLoadError:
            raise
        except Exception as error:
            log.failure(log.Category.REQUEST_FAILED, error)
            raise unknown_outcome() from None

    async def _read(self, caller: Caller, operation: Operation, request: Any) -> bytes:
        partition = _partition(operation, request)
        content = msgspec.msgpack.encode(request)

        def submit(place: Place) -> asyncio.Future[Answer]:
            return self._hub.read(
                shard=place.shard,
                operation=operation.name,
                principal=caller.principal.id,
                catalog_version=caller.catalog_version,
                partition=partition,
                payload=content,
                epoch=place.epoch,
                credential=caller.credential,
                long=operation.runs_long,
            )

        payload = payload_of(await self._placed(partition, submit, self._hub.call_seconds))
        if len(payload) > MAX_REPLY_BYTES:
            raise KeyLoadError(
                ErrorCode.BUDGET_EXCEEDED, f"The reply is larger than {MAX_REPLY_BYTES} bytes."
            )
        return payload

    async def _placed(self, partition: PartitionKey | None, submit: Submit, seconds: float) -> Answer:
        """The answer of a call from the shard its partition lives in.

        A partition that is being placed answers "again" (`keyload.models.cluster.placement`): the call has
        changed nothing, or has begun a binding that its repetition asks for. It is sent again, to wherever
        the directory then says, for as long as one call may take.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        answer = await self._submit(partition, submit)
        while isinstance(answer, Refusal) and answer.again and loop.time() < deadline:
            await asyncio.sleep(PLACING_PAUSE)
            answer = await self._repeat(partition, submit, answer)
        return answer

    async def _submit(self, partition: PartitionKey | None, submit: Submit) -> Answer:
        place = SYSTEM if partition is None else self._hub.catalog.place(partition, self._shards)
        return await submit(place)

    async def _repeat(self, partition: PartitionKey | None, submit: Submit, before: Refusal) -> Answer:
        """Send a call again. What says nothing of its fate leaves it as it was told before (CON-66)."""
        told = msgspec.structs.replace(before, again=False)
        try:
            answer = await self._submit(partition, submit)
        except KeyLoadError as error:
            if error.code is ErrorCode.UNKNOWN_WRITE_OUTCOME:
                raise
            return told
        if isinstance(answer, Refusal) and not answer.again:
            code = _problems.decode(answer.payload).error_code
            if code in _UNDECIDED:
                return told
        return answer

    async def _status(self, caller: Caller) -> bytes:
        """The system shard's worker knows everything but this process, its readiness, and how often states
        of other workers were replaced (CLU-26, CLU-29).
        """
        status = _statuses.decode(await self._read(caller, ADMIN_STATUS, None))
        for worker in range(1, self._hub.workers):
            await self._learn_generations(worker)
        return msgspec.json.encode(
            msgspec.structs.replace(
                status,
                process_id=os.getpid(),
                routing_ready=self._ready(),
                read_generation=status.read_generation + sum(self._generations.values()),
            )
        )

    async def _learn_generations(self, worker: int) -> None:
        """Ask a worker; while it is away what it said last stands."""
        with suppress(KeyLoadError):
            usage = _usages.decode(payload_of(await self._hub.usage(worker)))
            self._generations[worker] = sum(shard.generation for shard in usage.shards)

    async def _admission(self, caller: Caller) -> bytes:
        """Counters of both gates, summed over the workers (ADM-31); they live here, not in a shard."""
        caller.require_administrator()
        usages = [
            _usages.decode(payload_of(await self._hub.usage(worker))) for worker in range(self._hub.workers)
        ]
        usage = CommandAdmissionSnapshot(
            commands=sum(usage.commands for usage in usages),
            retained_bytes=sum(usage.retained_bytes for usage in usages),
            control_commands=sum(usage.control_commands for usage in usages),
            control_retained_bytes=sum(usage.control_retained_bytes for usage in usages),
            active_tenant_scopes=len({name for usage in usages for name in usage.tenants}),
            active_principal_scopes=len({name for usage in usages for name in usage.principals}),
        )
        limits = msgspec.convert(self._limits, CommandAdmissionLimits, from_attributes=True)
        return msgspec.json.encode(NodeAdmissionStatus(limits=limits, usage=usage, http=self._gate.status()))


def _partition(operation: Operation, request: Any) -> PartitionKey | None:
    """The four texts of a call's partition, None for the global scope (CMD-15)."""
    reference = partition_of(operation, request)
    return None if reference is None else partition_key(reference)
