"""Serving reads: each waits for a barrier of its shard and, where its caller was confirmed at a later
catalog, for that catalog; then all that are ready are answered from one committed cut (CLU-24).

Reads that end within one page run inside the turn; those that may take long are made beside it, each from a
cut of its own (`worker.pool`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from keyload.contract.errors import ErrorCode
from keyload.contract.limits import whole
from keyload.contract.operations import OPERATIONS
from keyload.link.catalog import Catalog
from keyload.link.launch import WorkerLaunch
from keyload.link.messages import BackupShard, Barrier, Confirmed, Read, WorkerToFront
from keyload.models.context import NodeFacts
from keyload.storage import Reader
from keyload.worker import answers
from keyload.worker.batch import Answer
from keyload.worker.calls import Missing, ReadCall, refusal
from keyload.worker.nodes import Nodes
from keyload.worker.pool import LongRead, ReaderPool
from keyload.worker.read_jobs import Setup
from keyload.worker.reads import ReadAnswerer
from keyload.worker.shard import Shard

MAX_WAITING = 4096
"""Reads one shard may hold; the front's admission keeps below it."""

CHECK_SECONDS = 1.0
"""How often the places of dead reader processes are freed: until then they keep old pages in use."""

LONG_SECONDS = whole("read.deadlineSeconds")

EvidenceFound = Callable[[Missing, Answer], None]
TakeImage = Callable[[Shard, BackupShard], None]


class ReadDesk:
    """Takes reads in and answers them when their barrier has passed."""

    def __init__(
        self,
        launch: WorkerLaunch,
        *,
        shards: Mapping[int, Shard],
        catalog: Catalog,
        nodes: Nodes,
        send_front: Callable[[WorkerToFront], None],
        evidence_found: EvidenceFound,
        take_image: TakeImage,
    ) -> None:
        self._launch = launch
        self._shards = shards
        self._catalog = catalog
        self._nodes = nodes
        self._send_front = send_front
        self._evidence_found = evidence_found
        self._take_image = take_image
        self._answerers = {
            number: ReadAnswerer(shard=number, incarnation=launch.incarnation, data_shards=launch.shards)
            for number in shards
        }
        self._later: list[ReadCall] = []
        self._next_check = 0.0
        self.pool = ReaderPool(
            Setup(
                launch.worker,
                f"{launch.directory}/worker-{launch.worker}",
                launch.incarnation,
                launch.shards,
            ),
            self._deliver,
        )

    def arrive(self, message: Read | Barrier | BackupShard, now: float) -> None:
        """What the front asks that waits for a barrier."""
        read = ReadCall(message, now + self._launch.call_ms / 1000, now + LONG_SECONDS)
        shard = self._shards.get(0 if isinstance(message, Barrier) else message.shard)
        if shard is None:
            self._refuse(read, ErrorCode.OWNERSHIP_LOST)
        elif not shard.replayed:
            self._refuse(read, ErrorCode.RECOVERY_REQUIRED)
        elif len(shard.reads) >= MAX_WAITING:
            self._refuse(read, ErrorCode.RESOURCE_EXHAUSTED)
        else:
            shard.reads.add(read)

    def serve(self, ticks: int, now: float) -> None:
        """Answer everything whose barrier and catalog are reached; `ticks` is the node's clock."""
        if self._later:
            later, self._later = self._later, []
            for read in later:
                self._answer(self._shards[read.message.shard], [read], ticks, now)  # type: ignore[union-attr]
        for shard in self._shards.values():
            ready = shard.reads.take(shard.store.applied.index)
            if ready:
                self._answer(shard, ready, ticks, now)

    def _answer(self, shard: Shard, ready: Sequence[ReadCall], ticks: int, now: float) -> None:
        with shard.store.reader() as reader:
            for read in ready:
                message = read.message
                if isinstance(message, Barrier):
                    self._send_front(Confirmed(message.call, self._catalog.version))
                elif isinstance(message, BackupShard):
                    self._take_image(shard, message)
                elif message.catalog_version > self._catalog.version:
                    self._later.append(read)
                elif runs_long(message.operation):
                    self.pool.submit(self._long(shard, read, message, ticks), now)
                else:
                    self._deliver(read, self._run(shard, reader, message, ticks))

    def _run(self, shard: Shard, reader: Reader, message: Read, ticks: int) -> Answer:
        return self._answerers[shard.number].answer(
            message,
            reader,
            self._catalog,
            now=ticks,
            node=self._facts(shard) if shard.number == 0 else None,
        )

    def _long(self, shard: Shard, call: ReadCall, message: Read, ticks: int) -> LongRead:
        excerpt = self._catalog.excerpt(message.principal, message.partition, message.credential)
        return LongRead(call, message, excerpt, self._facts(shard) if shard.number == 0 else None, ticks)

    def _facts(self, shard: Shard) -> NodeFacts:
        return NodeFacts(
            node_id=self._launch.node_id,
            leader=self._nodes.name(shard.raft.leader or 0),
            voters=self._nodes.names(shard.raft.voters),
            durability=self._launch.durability,
            applied=shard.store.applied.index,
            read_generation=sum(shard.store.generation for shard in self._shards.values()),
        )

    def _deliver(self, read: ReadCall, answer: Answer) -> None:
        if read.missing is not None:
            self._evidence_found(read.missing, answer)
        else:
            self._send_front(answers.message(read.message.call, answer))

    def _refuse(self, read: ReadCall, code: ErrorCode) -> None:
        self._deliver(read, refusal(code))

    def refuse_all(self, reads: Sequence[ReadCall]) -> None:
        """Answer reads whose barrier was not reached in time, or whose worker stops (CLU-25)."""
        for read in reads:
            self._refuse(read, ErrorCode.OWNERSHIP_LOST)

    def cancel(self, call: int, now: float) -> None:
        """The front wants no answer to a read any more; only a long one is worth ending."""
        self.pool.cancel(call, now)

    def drain(self, shard: Shard) -> None:
        """The state of a shard is about to be replaced as a whole: every read of it that waits or runs is
        OwnershipLost (CLU-26). Afterwards nobody but the shard has its files open.
        """
        self.refuse_all(shard.reads.drain())
        waiting, self._later = self._later, []
        for read in waiting:
            if isinstance(read.message, Read) and read.message.shard == shard.number:
                self._refuse(read, ErrorCode.OWNERSHIP_LOST)
            else:
                self._later.append(read)
        self.pool.drain(shard.number)

    def close(self) -> None:
        """Refuse what waits and runs, and end the reader processes."""
        for shard in self._shards.values():
            self.refuse_all(shard.reads.drain())
        self.refuse_all(self._later)
        self.pool.close()

    def sweep(self, now: float) -> None:
        """Refuse the reads that wait too long for their catalog, end long ones that are over time."""
        self.pool.sweep(now)
        if now >= self._next_check:
            self._next_check = now + CHECK_SECONDS
            for shard in self._shards.values():
                shard.store.reader_check()
        late = [read for read in self._later if read.deadline <= now]
        if late:
            self._later = [read for read in self._later if read.deadline > now]
            self.refuse_all(late)


def runs_long(operation: str) -> bool:
    """Whether a read belongs beside the turn; one nobody knows is refused in it."""
    declared = OPERATIONS.get(operation)
    return declared is not None and declared.runs_long
