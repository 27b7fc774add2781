"""Long reads, made by processes beside the worker (STO-14).

Reads that may take long would hold up the loop, and so would threads: the loop gives up the interpreter's
lock at every call of LMDB, at every wait and every sync, and gets it back only after the running read's slice
(docs/performance.md). The processes are started when they are needed and ended when they are idle; killing
one is always safe, for it only reads.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from keyload.contract.errors import ErrorCode
from keyload.link import log
from keyload.link.log import Category
from keyload.link.messages import CatalogDelta, Read
from keyload.models.context import NodeFacts
from keyload.worker.batch import Answer
from keyload.worker.calls import ReadCall, refusal
from keyload.worker.read_jobs import Job, Result, Setup
from keyload.worker.reader_process import READER_COMMAND, ReaderProcess

MAX_PROCESSES = 4
"""Long reads of one worker that run at once; 30 MB of memory each."""

MAX_WAITING = 32
"""Long reads of one worker that wait for a process."""

IDLE_SECONDS = 30.0
"""A process that had nothing to do for so long is ended."""

GRACE_SECONDS = 1.0
"""How long a process may go on with a read whose time is over or that nobody wants any more."""

Deliver = Callable[[ReadCall, Answer], None]


class LongRead(NamedTuple):
    """A read with what it needs besides the data of its shard; `now` in ticks."""

    call: ReadCall
    read: Read
    catalog: CatalogDelta
    node: NodeFacts | None
    now: int


class ReaderPool:
    """Runs long reads and hands their answers to `deliver`. `descriptor` becomes readable when there are
    some.
    """

    def __init__(self, setup: Setup, deliver: Deliver, command: Sequence[str] = READER_COMMAND) -> None:
        self._setup = setup
        self._deliver = deliver
        self._command = command
        self._poll = select.epoll()
        self._processes: dict[int, ReaderProcess] = {}
        self._waiting: deque[LongRead] = deque()
        self._next_number = 1

    @property
    def descriptor(self) -> int:
        """What the loop's poller watches."""
        return self._poll.fileno()

    @property
    def process_ids(self) -> list[int]:
        """Process ids of the readers that run now."""
        return [process.process_id for process in self._processes.values()]

    @property
    def running(self) -> int:
        """Reads that are being made."""
        return sum(process.call is not None for process in self._processes.values())

    def __len__(self) -> int:
        return self.running + len(self._waiting)

    # -- arrival

    def submit(self, long: LongRead, now: float) -> None:
        """Take a read whose barrier has passed; its answer comes by `deliver`."""
        if len(self._waiting) >= MAX_WAITING:
            self._deliver(long.call, refusal(ErrorCode.RESOURCE_EXHAUSTED))
            return
        self._waiting.append(long)
        self._start_waiting(now)

    def _start_waiting(self, now: float) -> None:
        while self._waiting:
            process = self._free_process(now)
            if process is None:
                return
            long = self._waiting.popleft()
            seconds = long.call.until - now
            if seconds <= 0:
                self._deliver(long.call, refusal(ErrorCode.BUDGET_EXCEEDED))
                continue
            job = Job(self._next_number, long.read, long.now, seconds, long.catalog, long.node)
            self._next_number += 1
            process.work(long.call, job, long.call.until + GRACE_SECONDS)
            self._watch(process)

    def _free_process(self, now: float) -> ReaderProcess | None:
        """An idle process, a new one where there may be another, None when all are at work."""
        for process in self._processes.values():
            if process.call is None:
                return process
        if len(self._processes) >= MAX_PROCESSES:
            return None
        try:
            process = ReaderProcess(self._setup, now, self._command)
        except OSError:
            log.event(Category.READER_NOT_STARTED)
            self._refuse_waiting(lambda _: not self._processes)
            return None
        self._processes[process.socket.fileno()] = process
        self._poll.register(process.socket, select.EPOLLIN)
        return process

    # -- answers

    def receive(self, now: float) -> None:
        """Take what the processes have to say."""
        for descriptor, _ in self._poll.poll(0):
            process = self._processes.get(descriptor)
            if process is not None:
                self._attend(process, now)
        self._start_waiting(now)

    def _attend(self, process: ReaderProcess, now: float) -> None:
        process.write()
        try:
            result = process.read()
        except EOFError:
            log.event(Category.READER_ENDED)
            self._end(process, ErrorCode.OWNERSHIP_LOST)
            return
        if result is not None:
            self._finish(process, result, now)
        self._watch(process)

    def _finish(self, process: ReaderProcess, result: Result, now: float) -> None:
        self._deliver(process.finished(now), Answer(result.refused, result.payload, result.again))

    def _watch(self, process: ReaderProcess) -> None:
        writing = select.EPOLLOUT if process.wants_to_write else 0
        self._poll.modify(process.socket, select.EPOLLIN | writing)

    # -- ends

    def sweep(self, now: float) -> None:
        """End what is over time: waiting reads, processes that do not stop, processes long idle."""
        for process in list(self._processes.values()):
            if process.call is not None and now > process.give_up_at:
                log.event(Category.READER_KILLED)
                self._end(process, ErrorCode.BUDGET_EXCEEDED)
            elif process.call is None and now - process.idle_since > IDLE_SECONDS:
                self._end(process, ErrorCode.OWNERSHIP_LOST)
        late = [long for long in self._waiting if long.call.until <= now]
        for long in late:
            self._waiting.remove(long)
            self._deliver(long.call, refusal(ErrorCode.BUDGET_EXCEEDED))
        self._start_waiting(now)

    def cancel(self, call: int, now: float) -> None:
        """Nobody waits for the front's call any more: end it soon, or at once when it has not begun."""
        for process in self._processes.values():
            if process.call is not None and process.call.is_front_call(call):
                process.cancel(now + GRACE_SECONDS)
                self._watch(process)
        self._refuse_waiting(lambda long: long.call.is_front_call(call))

    def drain(self, shard: int) -> None:
        """The files of a shard are about to be replaced: end its reads as OwnershipLost and every process
        that has the shard open (CLU-26). Returns when they are gone, after some milliseconds.
        """
        self._refuse_waiting(lambda long: long.read.shard == shard)
        for process in list(self._processes.values()):
            if shard in process.shards:
                self._end(process, ErrorCode.OWNERSHIP_LOST)

    def close(self) -> None:
        """End everything, as OwnershipLost."""
        self._refuse_waiting(lambda _: True)
        for process in list(self._processes.values()):
            self._end(process, ErrorCode.OWNERSHIP_LOST)
        self._poll.close()

    def _refuse_waiting(self, concerned: Callable[[LongRead], bool]) -> None:
        refused = [long for long in self._waiting if concerned(long)]
        for long in refused:
            self._waiting.remove(long)
            self._deliver(long.call, refusal(ErrorCode.OWNERSHIP_LOST))

    def _end(self, process: ReaderProcess, code: ErrorCode) -> None:
        """Kill a process; the read it was at is refused with `code`."""
        del self._processes[process.socket.fileno()]
        self._poll.unregister(process.socket)
        process.end()
        if process.call is not None:
            self._deliver(process.call, refusal(code))
