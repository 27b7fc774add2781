"""Parts of a node that break one rule each, to prove that the checks of the simulator can fail."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from random import Random

from harness.simulator.nodes.log import Log
from harness.simulator.nodes.node import Disk
from harness.simulator.nodes.state import Image, State
from harness.simulator.nodes.worker import Worker
from keyload.consensus import Config, Entry, HardState, LogStorage, Membership, Raft, Ready
from keyload.link.messages import Command, Read
from keyload.models import tags
from keyload.models.context import CatalogView
from keyload.models.partitions.head import META, ShardMeta
from keyload.models.partitions.keys import META_KEY
from keyload.storage import Reader, Store, WriteSet
from keyload.worker.batch import Batch, Pending
from keyload.worker.calls import ReadCall
from keyload.worker.executor import Executor
from keyload.worker.shard import Completed, Executed, Shard


class _WithoutOutcomes:
    """A cut in which no command was ever answered."""

    def __init__(self, base: Reader) -> None:
        self._base = base
        self.scan = base.scan

    def get(self, key: bytes) -> bytes | None:
        return None if key[8:9] == tags.OUTCOME else self._base.get(key)


class ForgetsOutcomes(Executor):
    """Executes a repeated command again."""

    def execute(self, reader: Reader, pending: Sequence[Pending], catalog: CatalogView, now: int) -> Batch:
        return super().execute(_WithoutOutcomes(reader), pending, catalog, now)


class KeepsNoRefusals(Executor):
    """Keeps no outcome of a command that was refused."""

    def execute(self, reader: Reader, pending: Sequence[Pending], catalog: CatalogView, now: int) -> Batch:
        batch = super().execute(reader, pending, catalog, now)
        for place, answer in enumerate(batch.answers):
            if answer is not None and answer.refused:
                identity = pending[place].command.command_id
                for key in [
                    key for key in batch.writes if key[8:9] == tags.OUTCOME and key.endswith(identity)
                ]:
                    del batch.writes[key]
        return batch


class TakesAnyClock(Executor):
    """Logs the instant of its own clock, earlier than the last one or not."""

    def execute(self, reader: Reader, pending: Sequence[Pending], catalog: CatalogView, now: int) -> Batch:
        batch = super().execute(reader, pending, catalog, now)
        stored = batch.writes.get(META_KEY)
        if stored is not None:
            meta = META.decode(stored)
            batch.writes[META_KEY] = META.encode(ShardMeta(meta.position, now, meta.next_number))
        return batch


class LosesIndexEntries(Executor):
    """A document and its index entry do not move together."""

    def execute(self, reader: Reader, pending: Sequence[Pending], catalog: CatalogView, now: int) -> Batch:
        batch = super().execute(reader, pending, catalog, now)
        for key in [key for key in batch.writes if key[8:9] == tags.INDEX and zlib.crc32(key) % 5 == 0]:
            del batch.writes[key]
        return batch


class AnswersAtOnce(Shard):
    """Answers commands when they are proposed, not when they are committed."""

    def execute(self, catalog: object, ticks: int) -> Executed:
        known = len(self.in_flight)
        done = super().execute(catalog, ticks)  # type: ignore[arg-type]
        early = [each for flight in list(self.in_flight)[known:] for each in flight.completed]
        return Executed(done.missing, [*done.completed, *early])


class AnswersTheDisplaced(Shard):
    """Takes the entry of another leader at the same index for its own batch."""

    def apply(self, entries: Sequence[Entry]) -> tuple[list[Completed], list[WriteSet]]:
        completed: list[Completed] = []
        for entry in entries:
            if self.in_flight and self.in_flight[0].index == entry.index:
                completed += self.in_flight.popleft().completed
        return completed, super().apply(entries)[1]


class ReadsWithoutBarrier(Worker):
    """Answers reads from what it has applied."""

    def _begin_turn(self) -> None:
        super()._begin_turn()
        self.reads.serve(self._node.clock, self._world.now)

    def ask(self, message: Command | Read) -> None:
        if isinstance(message, Read):
            self.shard.reads._confirmed.append(
                (0, [ReadCall(message, self._world.now + 2.0, self._world.now + 2.0)])
            )
            self.wake_soon()
        else:
            super().ask(message)


class InstallsAmidACheckpoint(Worker):
    """A checkpoint of the old state comes to its end after a snapshot took the place of that state."""

    def _must_wait(self, image: Image) -> bool:
        return False


class ReadsBeforeApplying(Worker):
    """Answers reads once the leader confirmed them, without waiting for their index to be applied."""

    def _end_round(self) -> None:
        ready = self._open
        if ready is not None:
            self._open = Ready(
                ready.hard_state,
                ready.entries,
                ready.messages,
                ready.messages_after_sync,
                ready.committed,
                [(context, 0) for context, _ in ready.reads],
                ready.lost_reads,
            )
            self.raft._open_ready = self._open
        super()._end_round()


class SpeaksBeforeTheSync(Worker):
    """Votes and acknowledgements leave before what they promise is on disk."""

    def _begin_round(self) -> None:
        late = self.raft._after_sync
        self._send(late)
        late.clear()
        super()._begin_round()


class ForgetsSyncedTurns(Log):
    """A log whose sync does not reach the platter every time."""

    syncs = 0

    def sync(self) -> None:
        self.syncs += 1
        if self.syncs % 7:
            super().sync()

    def reopen(self) -> None:
        super().sync()


class TearsATurn(Log):
    """Keeps the entries of a torn turn, and loses the term that stood in front of them."""

    def crash(self, rng: Random) -> None:
        self._unsynced = [record for record in self._unsynced if isinstance(record, Entry)]
        super().crash(rng)


class AppliesAgain(State):
    """Forgets its position when the power fails, but not what it applied."""

    def lose_power(self) -> None:
        saved = self._saved
        self._saved = Image(self.rows.content, self.rows.digest, saved.applied, saved.membership)
        super().lose_power()


class LosesACheckpoint(State):
    """Says that a checkpoint is durable, and does not have it."""

    def save(self, image: Image) -> None:
        if image.applied.index == 0:
            super().save(image)


class TakesHalfASnapshot(State):
    """A snapshot without the outcomes of commands."""

    def image(self) -> Image:
        image = super().image()
        rows = {key: value for key, value in image.rows.items() if key[8:9] != tags.OUTCOME}
        digest = sum(hash(row) for row in rows.items()) & ((1 << 64) - 1)
        return image._replace(rows=rows, digest=digest)


class CountsAtOnce(Raft):
    """A replica that takes an empty disk for a first start."""

    def __init__(
        self, config: Config, log: LogStorage, hard_state: HardState, applied: int, membership: Membership
    ) -> None:
        joined = HardState(hard_state.term, hard_state.vote, hard_state.commit, True)
        super().__init__(config, log, joined, applied, membership)


class ForgetsAnInstallation(Disk):
    """Starts as if no snapshot had been about to take the place of its state."""

    def open(self) -> None:
        self.installing = None
        super().open()


class KeepsBatchesInFlight(Shard):
    """Waits for batches that a snapshot has overtaken."""

    def restored(self, store: Store) -> None:
        overtaken = list(self.in_flight)
        super().restored(store)
        self.in_flight.extend(overtaken)


class LosesARow(State):
    """Loses the last row of a write set now and then."""

    def apply(
        self, index: int, term: int, write_sets: Iterable[WriteSet], membership: bytes | None = None
    ) -> None:
        kept = _without_some(write_sets) if index % 5 == 0 else write_sets
        super().apply(index, term, kept, membership)


def _without_some(write_sets: Iterable[WriteSet]) -> Iterator[WriteSet]:
    for writes in write_sets:
        yield writes[:-1]
