"""Messages between a front, its workers and the workers of other nodes.

Each is an array-like tagged msgspec struct; a ZeroMQ frame carries a list of them (`keyload.link.framing`).
`call` numbers are chosen by the asking side and come back unchanged. A request's content travels as
MessagePack bytes (`payload`) that only the process that executes it decodes.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from keyload.codec.credentials import Credential
from keyload.codec.identity import PartitionKey
from keyload.codec.placement import FIRST_EPOCH

INTERNAL = ""
"""The principal of commands that the server issues by itself; no stored one can be called so (SEC-9)."""


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all link messages."""


class Command(_Message, frozen=True, tag="c"):
    """A write. `partition` None means the global scope, kept by shard 0 (CMD-15). `epoch` is the placement
    epoch by which `shard` was chosen for the partition (CLU-31). `principal` is INTERNAL in commands of the
    server itself. `credential` is what the principal was found by, None when the server acts for it without
    one.

    `command_id` is 16 bytes, `fingerprint` 32 bytes (CMD-17), `payload` the request record as MessagePack
    (`msgspec.msgpack.encode` of the contract type; of a bool for a boolean request), `control` the admission
    lane.
    """

    call: int
    shard: int
    operation: str
    principal: str
    catalog_version: int
    command_id: bytes
    fingerprint: bytes
    partition: PartitionKey | None
    payload: bytes
    control: bool = False
    epoch: int = FIRST_EPOCH
    credential: Credential | None = None


class Read(_Message, frozen=True, tag="r"):
    """A read of one shard behind a barrier begun after it arrived (CLU-24); `epoch` and `credential` as in
    `Command`."""

    call: int
    shard: int
    operation: str
    principal: str
    catalog_version: int
    partition: PartitionKey | None
    payload: bytes
    epoch: int = FIRST_EPOCH
    credential: Credential | None = None


class Barrier(_Message, frozen=True, tag="b"):
    """Asks worker 0 to confirm the catalog: answered by `Confirmed` (architecture, reads and identity)."""

    call: int


class Confirmed(_Message, frozen=True, tag="f"):
    """A system-shard barrier begun after `Barrier` arrived has passed; every catalog change up to
    `catalog_version` was sent before this message."""

    call: int
    catalog_version: int


class Reply(_Message, frozen=True, tag="y"):
    """Success: `payload` is the result as the JSON text of its contract type, ready for the wire."""

    call: int
    payload: bytes


class Refusal(_Message, frozen=True, tag="x"):
    """Failure: `payload` is the `Problem` as MessagePack.

    With `again` it is none yet: the call met a partition that is being placed. The front chooses the shard
    anew and sends the call again under the same identity; the problem is what to tell when time is over.
    """

    call: int
    payload: bytes
    again: bool = False


class Cancel(_Message, frozen=True, tag="z"):
    """Nobody waits for the read with this number any more."""

    call: int


class CatalogDelta(_Message, frozen=True, tag="d"):
    """Catalog rows up to `version`, worker 0 to front, front to the other workers.

    `rows` holds (table, key parts, MessagePack of the record or None when gone); `whole` replaces everything.
    """

    version: int
    whole: bool
    rows: list[tuple[str, tuple[str, ...], bytes | None]]


class Usage(_Message, frozen=True, tag="u"):
    """Asks a worker for its admission counters and shard states; answered by `Reply` with JSON."""

    call: int


class BackupShard(_Message, frozen=True, tag="s"):
    """Asks for an image of a shard in the backup `backup` (32 hex digits), cut behind a barrier begun after
    it arrived; answered by `Reply` with the JSON of a `backup.ShardImage` once the file is durable."""

    call: int
    shard: int
    backup: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]


class Fault(_Message, frozen=True, tag="!"):
    """A worker tells its front that it stops, with a closed category, before it exits."""

    category: str


class Ready(_Message, frozen=True, tag="k"):
    """A worker tells its front which of its shards are replayed (`shards`), and whether all are."""

    worker: int
    shards: list[int]
    complete: bool


class Raft(_Message, frozen=True, tag="m"):
    """Consensus messages of one shard: `payload` is MessagePack of a list of `consensus.Message`."""

    shard: int
    payload: bytes


class Forward(_Message, frozen=True, tag="w"):
    """A command passed to the leader's worker of another node; `call` is the sending worker's own number."""

    call: int
    origin: int
    command: Command


class ForwardReply(_Message, frozen=True, tag="v"):
    """The leader's answer to a `Forward`: `refused` tells whether `payload` is a Problem, `again` is as in
    `Refusal`."""

    call: int
    refused: bool
    payload: bytes
    again: bool = False


class Condition(_Message, frozen=True, tag="n"):
    """How a node is, told to its peers once a second: its clock in ticks, and whether it has room for new
    writes.
    """

    ticks: int
    room: bool


class Evidence(_Message, frozen=True, tag="e"):
    """A worker asks its front to run a read in another worker's shard (DECISIONS 1 and 4)."""

    call: int
    read: Read


class SnapshotOffer(_Message, frozen=True, tag="so"):
    """A leader has a snapshot for a follower whose next entry is no longer in its log (CLU-15).

    `manifest` is the JSON text of a `SnapshotManifest`. It is offered again until the follower has caught
    up.
    """

    shard: int
    manifest: bytes


class SnapshotWant(_Message, frozen=True, tag="sw"):
    """A follower asks for the chunk at `offset` of the snapshot `id`; it keeps few of them open (CLU-16)."""

    shard: int
    id: str
    offset: int


class SnapshotChunk(_Message, frozen=True, tag="sc"):
    """One chunk of a snapshot, the answer to a `SnapshotWant`."""

    shard: int
    id: str
    offset: int
    data: bytes


class Errand(_Message, frozen=True, tag="i"):
    """A worker asks its front to have a command of the server itself executed in another worker's shard."""

    call: int
    command: Command


FrontToWorker = Command | Read | Barrier | Cancel | CatalogDelta | Usage | BackupShard | Reply | Refusal
WorkerToFront = Reply | Refusal | Confirmed | CatalogDelta | Fault | Ready | Evidence | Errand
Snapshot = SnapshotOffer | SnapshotWant | SnapshotChunk
PeerToPeer = Raft | Forward | ForwardReply | Condition | Snapshot
