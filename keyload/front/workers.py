"""The front's side of its workers: calls, shared barriers, the catalog feed and evidence between workers.

The node is a star: workers never speak to each other, so what one needs of another passes through here. A
call is an entry in a dictionary and a future, never a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count

import msgspec
import zmq

from keyload.codec.credentials import Credential
from keyload.codec.placement import FIRST_EPOCH
from keyload.contract.errors import ErrorCode, KeyLoadError, Problem
from keyload.contract.limits import whole
from keyload.front.barrier import BarrierAnswer, SharedBarrier, lost
from keyload.front.links import WorkerLink
from keyload.link import log
from keyload.link.catalog import Catalog
from keyload.link.messages import (
    BackupShard,
    Barrier,
    Cancel,
    CatalogDelta,
    Command,
    Confirmed,
    Errand,
    Evidence,
    Fault,
    PartitionKey,
    Read,
    Ready,
    Refusal,
    Reply,
    Usage,
    WorkerToFront,
)

Answer = Reply | Refusal
_Result = Reply | Refusal | Confirmed | KeyLoadError

BACKUP_SECONDS = 3600.0
"""How long one image of a backup may take."""
LONG_SECONDS = whole("read.deadlineSeconds")

MAX_CALLS = 16_384
"""Calls of all kinds that may be unanswered at once."""

_problems = msgspec.msgpack.Decoder(Problem)


class _Call:
    """One unanswered call: where it went, when it ends, and who hears of it."""

    __slots__ = ("answer", "barrier", "deadline", "link")

    def __init__(
        self, link: WorkerLink, deadline: float, answer: Callable[[_Result], None], barrier: bool
    ) -> None:
        self.link = link
        self.barrier = barrier
        self.deadline = deadline
        self.answer = answer


class WorkerHub:
    """All workers of a node. `workers` is their number, `call_ms` the time of a read or barrier.

    A write ends after twice that time, as UnknownWriteOutcome. `on_fault` hears of a worker that stops
    itself.
    """

    def __init__(
        self,
        workers: int,
        *,
        call_ms: int = 2000,
        max_calls: int = MAX_CALLS,
        on_fault: Callable[[int, str], None] | None = None,
    ) -> None:
        self.workers = workers
        self.catalog = Catalog()
        self.last_confirmed: float | None = None
        self.call_seconds = call_ms / 1000
        self._max_calls = max_calls
        self._on_fault = on_fault
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._links: dict[int, WorkerLink] = {}
        self._complete: dict[int, bool] = {}
        self._numbers = count(1)
        self._reads: dict[int, _Call] = {}  # each in order of its deadlines
        self._long_reads: dict[int, _Call] = {}
        self._commands: dict[int, _Call] = {}
        self._backups: dict[int, _Call] = {}
        self._barrier = SharedBarrier(self._begin_barrier, self.call_seconds)
        self._sweeper: asyncio.TimerHandle | None = None

    # -- lifecycle -------------------------------------------------------------------------------------------

    def attach(self, worker: int, endpoint: str) -> None:
        """Bind `endpoint` (a new `ipc://` address for each start of a worker) and take the worker in."""
        if worker in self._links or not 0 <= worker < self.workers:
            raise ValueError("a worker is attached once, under its own number")
        link = WorkerLink(self._context, worker, endpoint, self._receive)
        self._links[worker] = link
        self._complete[worker] = False
        if worker != 0 and self.catalog.version > 0:
            link.send(self.catalog.snapshot())
        if self._sweeper is None:
            self._sweep()
        log.event(log.Category.WORKER_ATTACHED, worker=worker)

    def detach(self, worker: int) -> None:
        """The worker is gone: its writes end as UnknownWriteOutcome, its reads and barriers as
        OwnershipLost.
        """
        link = self._links.pop(worker, None)
        if link is None:
            return
        link.close()
        self._complete[worker] = False
        for calls, failure in self._kinds():
            for number in [number for number, call in calls.items() if call.link is link]:
                calls.pop(number).answer(failure())
        log.event(log.Category.WORKER_DETACHED, worker=worker)

    def close(self) -> None:
        """Detach every worker and give up the sockets."""
        for worker in list(self._links):
            self.detach(worker)
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._context.term()

    @property
    def replayed(self) -> bool:
        """Whether every worker is attached and has replayed all its shards (CLU-27)."""
        return all(self._complete.get(worker, False) for worker in range(self.workers))

    @property
    def outstanding(self) -> int:
        """Unanswered calls, those whose caller has left included."""
        return sum(len(calls) for calls, _ in self._kinds())

    # -- calls -----------------------------------------------------------------------------------------------

    def command(
        self,
        *,
        shard: int,
        operation: str,
        principal: str,
        catalog_version: int,
        command_id: bytes,
        fingerprint: bytes,
        partition: PartitionKey | None,
        payload: bytes,
        control: bool,
        epoch: int = FIRST_EPOCH,
        credential: Credential | None = None,
    ) -> asyncio.Future[Answer]:
        """Submit a write. Raises ResourceExhausted or OwnershipLost when it could not be submitted."""
        link = self._link(shard % self.workers)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        call = self._register(self._commands, link, 2 * self.call_seconds, partial(_settle, future))
        message = Command(
            call, shard, operation, principal, catalog_version, command_id, fingerprint, partition, payload,
            control, epoch, credential,
        )  # fmt: skip
        link.send(message, len(payload))
        return future

    def read(
        self,
        *,
        shard: int,
        operation: str,
        principal: str,
        catalog_version: int,
        partition: PartitionKey | None,
        payload: bytes,
        epoch: int = FIRST_EPOCH,
        credential: Credential | None = None,
        long: bool = False,
    ) -> asyncio.Future[Answer]:
        """Ask for a read; the future fails with OwnershipLost when no answer comes in time.

        A `long` one has the time of `read.deadlineSeconds` besides; when its future is cancelled, the worker
        hears that it may end.
        """
        link = self._link(shard % self.workers)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if long:
            seconds = 2 * self.call_seconds + LONG_SECONDS
            call = self._register(self._long_reads, link, seconds, partial(_settle, future))
            future.add_done_callback(partial(self._cancelled, call))
        else:
            call = self._register(self._reads, link, self.call_seconds, partial(_settle, future))
        message = Read(
            call, shard, operation, principal, catalog_version, partition, payload, epoch, credential
        )
        link.send(message, len(payload))
        return future

    def _cancelled(self, number: int, future: asyncio.Future[Answer]) -> None:
        """A long read is over; when nobody waited for its answer, its worker hears of it."""
        call = self._long_reads.pop(number, None)
        if call is not None and future.cancelled():
            call.link.send(Cancel(number))

    def usage(self, worker: int) -> asyncio.Future[Answer]:
        """The admission counters of one worker, as `Reply` with JSON."""
        link = self._links.get(worker)
        if link is None:
            raise recovering()
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        link.send(Usage(self._register(self._reads, link, self.call_seconds, partial(_settle, future))))
        return future

    def backup(self, shard: int, backup: str) -> asyncio.Future[Answer]:
        """Ask for the image of a shard in a backup; UnknownWriteOutcome when no answer comes."""
        link = self._link(shard % self.workers)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        call = self._register(self._backups, link, BACKUP_SECONDS, partial(_settle, future))
        link.send(BackupShard(call, shard, backup))
        return future

    def confirm(self) -> asyncio.Future[int]:
        """The catalog version that a system-shard barrier confirmed which began after this call (SEC-41)."""
        return self._barrier.wait()

    def _kinds(self) -> tuple[tuple[dict[int, _Call], Callable[[], KeyLoadError]], ...]:
        """The calls of each kind, with the failure of those that get no answer."""
        return (
            (self._reads, lost),
            (self._long_reads, lost),
            (self._commands, unknown_outcome),
            (self._backups, unknown_outcome),
        )

    def _link(self, worker: int) -> WorkerLink:
        """The way to a worker that has replayed its shards; until then RecoveryRequired (STO-6, STO-11)."""
        link = self._links.get(worker)
        if link is None or not self._complete[worker]:
            raise recovering()
        if link.full or self.outstanding >= self._max_calls:
            raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, "Too many calls wait for this node's workers.")
        return link

    def _register(
        self,
        calls: dict[int, _Call],
        link: WorkerLink,
        seconds: float,
        answer: Callable[[_Result], None],
        barrier: bool = False,
    ) -> int:
        number = next(self._numbers)
        deadline = asyncio.get_running_loop().time() + seconds
        calls[number] = _Call(link, deadline, answer, barrier)
        return number

    def _begin_barrier(self, answer: BarrierAnswer) -> None:
        link = self._links.get(0)
        if link is None or not self._complete[0]:
            answer(recovering())
            return
        number = self._register(
            self._reads, link, self.call_seconds, partial(self._confirmed, answer), barrier=True
        )
        link.send(Barrier(number))

    def _confirmed(self, answer: BarrierAnswer, result: _Result) -> None:
        if isinstance(result, Confirmed):
            self.last_confirmed = asyncio.get_running_loop().time()
            answer(result.catalog_version)
        else:
            answer(result if isinstance(result, KeyLoadError) else lost())

    def _sweep(self) -> None:
        """End what is over time: one timer for all calls."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for calls, failure in self._kinds():
            expired: list[int] = []
            for number, call in calls.items():
                if call.deadline > now:
                    break
                expired.append(number)
            for number in expired:
                calls.pop(number).answer(failure())
        self._barrier.expire(now)
        self._sweeper = loop.call_later(self.call_seconds / 20, self._sweep)

    # -- what workers say ------------------------------------------------------------------------------------

    def _receive(self, link: WorkerLink, message: WorkerToFront) -> None:
        if isinstance(message, Reply | Refusal | Confirmed):
            self._answered(link, message)
        elif isinstance(message, CatalogDelta):
            self._take_catalog(link, message)
        elif isinstance(message, Evidence):
            self._relay(link, message.call, message.read)
        elif isinstance(message, Errand):
            self._relay(link, message.call, message.command)
        elif isinstance(message, Ready):
            self._complete[link.worker] = message.complete
            log.event(log.Category.WORKER_READY, worker=link.worker, complete=message.complete)
        else:
            self._take_fault(link, message)

    def _answered(self, link: WorkerLink, message: Reply | Refusal | Confirmed) -> None:
        calls = next((calls for calls, _ in self._kinds() if message.call in calls), None)
        if calls is None:
            return  # its time was over
        call = calls[message.call]
        if call.link is not link or (isinstance(message, Confirmed) and not call.barrier):
            log.event(log.Category.LINK_MESSAGE_UNEXPECTED, worker=link.worker)
            return
        del calls[message.call]
        call.answer(message)

    def _take_catalog(self, link: WorkerLink, delta: CatalogDelta) -> None:
        if link.worker != 0:
            log.event(log.Category.LINK_MESSAGE_UNEXPECTED, worker=link.worker)
            return
        try:
            self.catalog.apply(delta)
        except (KeyError, msgspec.MsgspecError):
            log.event(log.Category.CATALOG_INVALID, worker=link.worker)
            self._report_fault(link, str(log.Category.CATALOG_INVALID))
            return
        size = sum(len(row or b"") for _, _, row in delta.rows)
        for worker, other in self._links.items():
            if worker != 0:
                other.send(delta, size)

    def _relay(self, asker: WorkerLink, call: int, asked: Read | Command) -> None:
        """Have a worker's read or command run where its shard lives; answer it under the worker's own
        number."""
        answer = partial(_return, asker, call)
        try:
            link = self._link(asked.shard % self.workers)
        except KeyLoadError as error:
            answer(error)
            return
        if isinstance(asked, Read):
            number = self._register(self._reads, link, self.call_seconds, answer)
        else:
            number = self._register(self._commands, link, 2 * self.call_seconds, answer)
        link.send(msgspec.structs.replace(asked, call=number), len(asked.payload))

    def _take_fault(self, link: WorkerLink, message: Fault) -> None:
        category = message.category if _is_category(message.category) else "unnamed"
        log.event(log.Category.WORKER_FAULT, worker=link.worker, fault=category)
        self._report_fault(link, category)

    def _report_fault(self, link: WorkerLink, category: str) -> None:
        self._complete[link.worker] = False
        if self._on_fault is not None:
            self._on_fault(link.worker, category)


def payload_of(answer: Answer) -> bytes:
    """The result of an answer; a refusal is raised as the failure it carries."""
    if isinstance(answer, Refusal):
        raise KeyLoadError.from_problem(_problems.decode(answer.payload))
    return answer.payload


def recovering() -> KeyLoadError:
    """The failure of a call whose worker is away or has not replayed its shards yet."""
    return KeyLoadError(ErrorCode.RECOVERY_REQUIRED, "The data is still being recovered on this node.")


def unknown_outcome() -> KeyLoadError:
    """The failure of a write that was submitted and got no answer (HTTP-19)."""
    return KeyLoadError(
        ErrorCode.UNKNOWN_WRITE_OUTCOME,
        "The write may or may not have been committed; send it again with the same identity.",
    )


def _settle(future: asyncio.Future[Answer], result: _Result) -> None:
    assert not isinstance(result, Confirmed)
    if future.done():
        return
    if isinstance(result, KeyLoadError):
        future.set_exception(result)
    else:
        future.set_result(result)


def _return(asker: WorkerLink, call: int, result: _Result) -> None:
    if isinstance(result, Reply):
        asker.send(Reply(call, result.payload), len(result.payload))
        return
    if isinstance(result, Refusal):
        refusal = msgspec.structs.replace(result, call=call)
    else:
        failure = result if isinstance(result, KeyLoadError) else lost()
        refusal = Refusal(call, msgspec.msgpack.encode(failure.problem))
    asker.send(refusal, len(refusal.payload))


def _is_category(text: str) -> bool:
    return len(text) <= 64 and text.replace("-", "").isalnum() and text.isascii()
