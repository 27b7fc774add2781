"""The settings of one node: their names, defaults and single bounds (CLI-8, CLI-9).

Names on the outside are camelCase and nest as the attributes here. `keyload.node.configuration` reads them
from a file and the environment, `keyload.node.checks` knows what concerns several of them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Size = Annotated[int, Meta(ge=1, le=2**53)]
WorkingSet = Annotated[int, Meta(ge=0, le=1 << 30)]
Milliseconds = Annotated[int, Meta(ge=1, le=600_000)]
Port = Annotated[int, Meta(ge=1, le=65_535)]
Text = Annotated[str, Meta(min_length=1, max_length=4096)]


class _Group(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of all groups of settings."""


class Peer(_Group, frozen=True):
    """One voter (CLU-1): `peer_address` is `host:port`; its worker K listens on `port` + K.

    `number` is for a voter that came by an exchange: the next one never used before (CLU-19). Without it the
    place in the list is the number.
    """

    id: Text
    public_endpoint: Text
    peer_address: Text
    public_key: Annotated[str, Meta(min_length=40, max_length=40)]
    number: Annotated[int, Meta(ge=1, le=65_535)] | None = None


class Timings(_Group, frozen=True):
    """Durations of consensus and calls in milliseconds (CLU-4)."""

    tick_ms: Milliseconds = 50
    heartbeat_ms: Milliseconds = 100
    election_ms_min: Milliseconds = 1000
    election_ms_max: Milliseconds = 2000
    call_ms: Milliseconds = 2000


class Http(_Group, frozen=True):
    """Bounds of request bodies in bytes."""

    max_body_bytes: Annotated[int, Meta(ge=1, le=33_554_432)] = 8_388_608
    max_control_body_bytes: Count = 65_536


class HttpAdmission(_Group, frozen=True):
    """The first admission gate, per node (ADM-5..ADM-11); counts and bytes."""

    max_requests: Count = 512
    max_reserved_bytes: Size = 2_147_483_648
    max_tenant_requests: Count = 256
    max_principal_requests: Count = 128
    reserved_control_requests: Count = 64
    reserved_control_bytes: Size = 33_554_432
    max_tenant_control_requests: Count = 32
    max_principal_control_requests: Count = 32
    heavy_read_reserved_bytes: WorkingSet = 67_108_864
    other_reserved_bytes: WorkingSet = 1_048_576


class CommandAdmission(_Group, frozen=True):
    """The second admission gate, per worker (ADM-12..ADM-18); counts and bytes."""

    max_commands: Count = 1024
    max_retained_bytes: Size = 134_217_728
    max_tenant_commands: Count = 512
    max_principal_commands: Count = 256
    reserved_control_commands: Count = 128
    reserved_control_bytes: Size = 16_777_216
    max_control_payload_bytes: Count = 65_536
    max_tenant_control_commands: Count = 64
    max_principal_control_commands: Count = 64
    writer_queue: Count = 1024


class Admission(_Group, frozen=True):
    """Both gates."""

    http: HttpAdmission = HttpAdmission()
    command: CommandAdmission = CommandAdmission()


class Mcp(_Group, frozen=True):
    """Memory of MCP frames and replies in bytes (ADM-28, ADM-30)."""

    max_ingress_bytes: Size = 1 << 30
    max_data_bytes: Size = 2 << 30
    max_control_bytes: Size = 128 << 20


class Outbox(_Group, frozen=True):
    """Per-partition list of accepted effects (ADM-21, ADM-22); equal on all voters."""

    max_records: Count = 100_000
    max_bytes: Size = 1 << 30
    when_full: Annotated[str, Meta(pattern="^(dropUnpinned|refuse)$")] = "dropUnpinned"


class Outcomes(_Group, frozen=True):
    """How long stored outcomes live (CMD-25); 0 keeps them for ever."""

    retention_days: Annotated[int, Meta(ge=0, le=36_500)] = 7


class Storage(_Group, frozen=True):
    """When state is made durable and how much log is kept (STO-17).

    A checkpoint is made every `checkpoint_ms` with changes, or after `checkpoint_log_bytes` of log, in
    segments of `segment_bytes`. A follower that needs more than `retained_log_bytes` gets a snapshot.
    """

    checkpoint_ms: Milliseconds = 10_000
    checkpoint_log_bytes: Size = 64 << 20
    segment_bytes: Annotated[int, Meta(ge=1 << 20, le=1 << 30)] = 64 << 20
    retained_log_bytes: Size = 1 << 30


class NodeSettings(_Group, frozen=True):
    """Everything `keyload serve` needs to know.

    `listen` is the `host:port` the front binds when it differs from that of `public_endpoint`, as behind a
    proxy that ends TLS. `scrape_token` opens `/metrics` without an administrator's key (CLU-29). `shards`
    None means three for each worker.
    """

    data_directory: Text
    node_id: Text
    public_endpoint: Text
    incarnation: Text
    signing_key: Text
    listen: Text | None = None
    peers: Annotated[tuple[Peer, ...], Meta(max_length=99)] = ()
    peer_secret_key: Text | None = None
    admin_key: Text | None = None
    scrape_token: Text | None = None
    workers: Annotated[int, Meta(ge=1, le=64)] = 1
    shards: Annotated[int, Meta(ge=1, le=1024)] | None = None
    maximum_bytes: Annotated[int, Meta(ge=1 << 20, le=1 << 44)] = 64 << 30
    minimum_free_bytes: Annotated[int, Meta(ge=0, le=1 << 44)] = 256 << 20
    allow_loopback_http: bool = False
    allow_private_network_http: bool = False
    timings: Timings = Timings()
    storage: Storage = Storage()
    http: Http = Http()
    admission: Admission = Admission()
    mcp: Mcp = Mcp()
    outbox: Outbox = Outbox()
    outcomes: Outcomes = Outcomes()

    @property
    def data_shards(self) -> int:
        """Number of data shards, shard 0 not counted."""
        return self.shards if self.shards is not None else 3 * self.workers

    @property
    def numbers(self) -> tuple[int, ...]:
        """The number of each voter, in their order."""
        return tuple(peer.number or place for place, peer in enumerate(self.peers, 1))

    @property
    def number(self) -> int:
        """The number of this node; 1 for a node alone."""
        pairs = zip(self.peers, self.numbers, strict=True)
        return next((number for peer, number in pairs if peer.id == self.node_id), 1)


SECRETS = ("signing_key", "peer_secret_key", "admin_key", "scrape_token")
"""Settings that may be given as `...File` instead (CLI-11)."""
