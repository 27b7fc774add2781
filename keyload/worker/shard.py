"""One replica of one shard: its consensus, its applied state, and the commands and reads that wait in it.

A shard does no network and no log I/O. The worker hands it what arrived, asks it once per turn to execute and
for its consensus `Ready`, writes the log, and then lets it apply; what is to be answered comes back as return
values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from keyload.consensus import Entry, Membership, Raft, Role
from keyload.contract.errors import ErrorCode
from keyload.link.catalog import Catalog
from keyload.storage import Layered, Reader, Store, WriteSet, pack_writes, stored_form, unpack_writes
from keyload.storage.hooks import Step
from keyload.worker.barriers import BarrierQueue
from keyload.worker.batch import Answer
from keyload.worker.calls import CommandCall, Missing, refusal
from keyload.worker.executor import Executor
from keyload.worker.queue import CommandQueue

MAX_IN_FLIGHT = 2
"""Batches proposed and not yet applied: one in flight, one executed on top of it (DECISIONS 3)."""

BATCH_COMMANDS = 256
EXPIRED_OUTCOMES = 1000
"""Outcomes removed in one slice, about."""


class Completed(NamedTuple):
    """A command with its answer."""

    call: CommandCall
    answer: Answer


class InFlight(msgspec.Struct, frozen=True):
    """A batch that was proposed at `index` in `term` and is not applied yet."""

    index: int
    term: int
    completed: Sequence[Completed]
    writes: dict[bytes, bytes | None]
    stored: WriteSet


class Executed(NamedTuple):
    """What one execution leaves to do now: commands that need evidence, refusals that change nothing."""

    missing: Sequence[Missing] = ()
    completed: Sequence[Completed] = ()


NOTHING = Executed()


class Shard:
    """State of one shard on this node. `executor` runs its commands while this replica leads."""

    def __init__(
        self, number: int, raft: Raft, store: Store, executor: Executor, step: Step, repeat: float
    ) -> None:
        self.number = number
        self.raft = raft
        self.store = store
        self.executor = executor
        self.reads = BarrierQueue(repeat)
        self.queue = CommandQueue()
        self.forwarded: dict[int, CommandCall] = {}
        """Commands passed to the leader's worker, by the number this worker gave them."""
        self.in_flight: deque[InFlight] = deque()
        self.hold_until = 0.0
        """No command is forwarded before this instant: the last leader asked was not one."""
        self.more = False
        """Whether commands are left that the next turn can run at once."""
        self.clock_uncertain = False
        """Whether the clock lay too far behind the last logged instant when commands ran last (SCH-2)."""
        self._step = step
        self._seen = (0, 0)
        self._replay_to = raft.commit

    @property
    def leads(self) -> bool:
        """Whether this replica leads its shard."""
        return self.raft.role is Role.LEADER

    @property
    def replayed(self) -> bool:
        """Whether what was committed before this start is applied again (STO-6)."""
        return self.store.applied.index >= self._replay_to

    # -- commands

    def leader_changed(self) -> bool:
        """Whether term or leader differ from the last time this was asked."""
        now = (self.raft.term, self.raft.leader or 0)
        changed = now != self._seen
        self._seen = now
        return changed

    def reclaim_forwarded(self) -> None:
        """Take back what was passed to a leader that is none any more: its successor knows stored outcomes,
        so a command that did commit is answered from there and not executed twice.
        """
        calls = [call for call in self.forwarded.values() if not call.answered]
        for call in calls:
            call.repeated = True
        self.forwarded.clear()
        self.queue.put_back(calls)

    def execute(self, catalog: Catalog, ticks: int) -> Executed:
        """Run waiting commands as one batch and propose it, if this replica leads and a batch may be in
        flight.

        `ticks` is the node's clock in units of 100 ns since 1970. Commands that name a later catalog than the
        present one stay in the queue.
        """
        self.more = False
        if not self.queue or len(self.in_flight) >= MAX_IN_FLIGHT or not self.raft.leader_ready:
            return NOTHING
        calls = self._runnable(catalog)
        if not calls:
            return NOTHING
        with self.store.reader() as reader:
            batch = self.executor.execute(
                self._above(reader), [call.pending for call in calls], catalog, ticks
            )
        self.queue.put_back(calls[batch.taken :])
        self.clock_uncertain = batch.clock_uncertain
        self._step("Executed")
        completed = [
            Completed(call, answer) for call, answer in zip(calls, batch.answers, strict=False) if answer
        ]
        missing = [Missing(calls[place], needs) for place, needs in batch.evidence]
        if not batch.writes:
            self.more = bool(self.queue)
            return Executed(missing, completed)
        if self._propose(completed, batch.writes):
            self.more = bool(self.queue)
            for call, _ in completed:
                call.submitted = True
        else:
            self.queue.put_back(call for call, _ in completed)
        return Executed(missing)

    def _runnable(self, catalog: Catalog) -> list[CommandCall]:
        calls = self.queue.take(BATCH_COMMANDS)
        later = [call for call in calls if call.command.catalog_version > catalog.version]
        if later:
            self.queue.put_back(later)
            calls = [call for call in calls if call.command.catalog_version <= catalog.version]
        return calls

    def _propose(self, completed: Sequence[Completed], writes: dict[bytes, bytes | None]) -> bool:
        """Hand a write set to consensus; False when it takes none now."""
        stored = stored_form(writes)
        index = self.raft.propose(pack_writes(stored))
        if index is None:
            return False
        self.in_flight.append(InFlight(index, self.raft.term, completed, writes, stored))
        return True

    def expire_outcomes(self, ticks: int) -> bool:
        """Remove a slice of the outcomes past their retention (CMD-25); whether that should go on at once,
        because there are more or no batch could be in flight now.
        """
        if not self.raft.leader_ready:
            return False
        if len(self.in_flight) >= MAX_IN_FLIGHT:
            return True
        with self.store.reader() as reader:
            writes = self.executor.expire_outcomes(self._above(reader), ticks, EXPIRED_OUTCOMES)
        if writes:
            self._propose((), writes)
        return len(writes) >= EXPIRED_OUTCOMES

    def _above(self, reader: Reader) -> Reader:
        """The applied state with the batches in flight on top of it."""
        return Layered(reader, *(flight.writes for flight in self.in_flight)) if self.in_flight else reader

    # -- applying

    def apply(self, entries: Sequence[Entry]) -> tuple[list[Completed], list[WriteSet]]:
        """Apply committed entries in one transaction.

        Returns the commands whose outcome is now certain, and the write sets that were applied.
        """
        completed: list[Completed] = []
        applied: list[WriteSet] = []
        membership: bytes | None = None
        for entry in entries:
            flight = self._landed(entry)
            if flight is not None:
                applied.append(flight.stored)
                completed.extend(flight.completed)
            elif entry.membership:
                membership = entry.data
            elif entry.data:
                applied.append(unpack_writes(entry.data))
        last = entries[-1]
        self.store.apply(last.index, last.term, applied, membership)
        self._step("Applied")
        return completed, applied

    def _landed(self, entry: Entry) -> InFlight | None:
        """The batch in flight that this entry is; batches that another leader's entry displaced run again."""
        if not self.in_flight or self.in_flight[0].index != entry.index:
            return None
        flight = self.in_flight.popleft()
        if flight.term == entry.term:
            return flight
        self.in_flight.appendleft(flight)
        self._run_again()
        return None

    def _run_again(self) -> None:
        """Put every batch in flight back into the queue, in its order: another leader's entries displaced
        it, or its fate is in a snapshot. A stored outcome answers what did commit.
        """
        displaced = list(self.in_flight)
        self.in_flight.clear()
        for lost in reversed(displaced):
            self.queue.put_back(call for call, _ in lost.completed if not call.answered)

    def restored(self, store: Store) -> None:
        """State and log were replaced by a snapshot (CLU-15); `store` is the new state."""
        assert store.membership is not None
        self.store = store
        self._run_again()
        self.raft.restore(store.applied.index, store.applied.term, Membership.unpacked(store.membership))

    # -- deadlines

    def sweep(self, now: float) -> list[Completed]:
        """The commands whose time is over: not submitted ones are OwnershipLost, others have an unknown
        outcome.
        """
        late = self.queue.sweep(now)
        for number, call in list(self.forwarded.items()):
            if call.deadline <= now:
                del self.forwarded[number]
                late.append(call)
        late.extend(call for flight in self.in_flight for call, _ in flight.completed if call.deadline <= now)
        return [Completed(call, unanswered(call)) for call in late if not call.answered]

    def drain(self) -> list[Completed]:
        """Every command that waits, at the end of the worker."""
        waiting: Iterable[CommandCall] = (
            *self.queue.take(len(self.queue)),
            *self.forwarded.values(),
            *(call for flight in self.in_flight for call, _ in flight.completed),
        )
        return [Completed(call, unanswered(call)) for call in waiting if not call.answered]


def unanswered(call: CommandCall) -> Answer:
    """What a command without a definite answer is told (CLU-11, CMD-27)."""
    code = ErrorCode.UNKNOWN_WRITE_OUTCOME if call.submitted else ErrorCode.OWNERSHIP_LOST
    return refusal(code)
