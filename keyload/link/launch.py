"""What a front hands to each worker it starts: one MessagePack message on the worker's standard input.

The pipe stays open afterwards; its end tells the worker that its parent is gone (CLU-9).
"""

from __future__ import annotations

import msgspec

EXIT_DAMAGED = 5
"""Exit status of a worker that found files damaged or of a foreign format; they are as they were (CLU-17)."""


class PeerAddress(msgspec.Struct, frozen=True):
    """One node of the cluster: `number` is never used twice, `host` and `port` are its peer address (worker K
    listens on `port` + K), `public_key` its CURVE key in Z85, `origin` its public origin.
    """

    number: int
    node_id: str
    host: str
    port: int
    public_key: str
    origin: str = ""


class Bootstrap(msgspec.Struct, frozen=True):
    """Key of the first cluster administrator, written into an empty store only (SEC-6)."""

    key_id: str
    verifier: str


class CommandLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the second admission gate, per worker (ADM-12); counts and bytes."""

    max_commands: int = 1024
    max_retained_bytes: int = 134_217_728
    max_tenant_commands: int = 512
    max_principal_commands: int = 256
    reserved_control_commands: int = 128
    reserved_control_bytes: int = 16_777_216
    max_control_payload_bytes: int = 65_536
    max_tenant_control_commands: int = 64
    max_principal_control_commands: int = 64
    writer_queue: int = 1024


class StorageTimes(msgspec.Struct, frozen=True, kw_only=True):
    """When state is made durable and how much log is kept (STO-17); milliseconds and bytes."""

    checkpoint_ms: int = 10_000
    checkpoint_log_bytes: int = 64 << 20
    segment_bytes: int = 64 << 20
    retained_log_bytes: int = 1 << 30


class WorkerLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one worker needs. `peers` is empty for a node alone, else holds the voters of its settings,
    itself included.

    `shards` is the number of data shards; shard 0 comes on top. `guard` is a digest of the guard record that
    peers compare at first contact (CLU-21). Durations are in milliseconds.
    """

    worker: int
    workers: int
    shards: int
    node_number: int
    node_id: str
    incarnation: str
    directory: str
    endpoint: str
    guard: bytes
    durability: str
    peers: list[PeerAddress] = []
    secret_key: str = ""
    bootstrap: Bootstrap | None = None
    tick_ms: int = 50
    heartbeat_ms: int = 100
    election_ms_min: int = 1000
    election_ms_max: int = 2000
    call_ms: int = 2000
    maximum_bytes: int = 64 << 30
    minimum_free_bytes: int = 256 << 20
    storage: StorageTimes = StorageTimes()
    outcomes_retention_days: int = 7
    outbox_max_records: int = 100_000
    outbox_max_bytes: int = 1 << 30
    outbox_when_full: str = "dropUnpinned"
    commands: CommandLimits = CommandLimits()

    @property
    def first_voters(self) -> tuple[int, ...]:
        """Numbers of the voters a shard begins with. They are 1 to their number, whoever has been exchanged
        since: an exchange changes numbers, never how many there are (CLU-19)."""
        return tuple(range(1, len(self.peers) + 1)) or (self.node_number,)
