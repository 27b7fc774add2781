"""From the settings of a node to its guard record and the launch message of each worker (link.launch)."""

from __future__ import annotations

import hashlib

import msgspec

from keyload.link.addresses import read_address
from keyload.link.launch import Bootstrap, CommandLimits, PeerAddress, StorageTimes, WorkerLaunch
from keyload.node.settings import NodeSettings
from keyload.storage.directory import Guard, Identity, kept_numbers

DURABILITY_ALONE = "LocalDurable"
DURABILITY_CLUSTER = "QuorumDurable"
"""The profiles that the trials of kills and power losses stand for (CMD-32, STO-27)."""


def durability(settings: NodeSettings) -> str:
    """Name of the durability profile that an acknowledgement of this node stands for (CMD-32)."""
    return DURABILITY_CLUSTER if settings.peers else DURABILITY_ALONE


def identity(settings: NodeSettings) -> Identity:
    """Whose data directory it is, with the guard record (CLU-6)."""
    voters = tuple(peer.id for peer in settings.peers)
    guard = Guard(voters, settings.workers, settings.data_shards, kept_numbers(settings.numbers))
    return Identity(settings.incarnation.lower(), settings.node_id, guard)


def guard_digest(settings: NodeSettings) -> bytes:
    """SHA-256 of what all nodes must have in common; peers compare it at first contact (CLU-21, ADM-22).

    The voters are not in it: they change by exchange, and each proves itself by its key.
    """
    shared = (identity(settings).digest(), msgspec.structs.astuple(settings.outbox))
    return hashlib.sha256(msgspec.msgpack.encode(shared)).digest()


def worker_launch(settings: NodeSettings, worker: int, endpoint: str) -> WorkerLaunch:
    """The message that starts worker `worker` of this node on the ipc `endpoint`."""
    peers = [
        PeerAddress(number, peer.id, address.host, address.port, peer.public_key, peer.public_endpoint)
        for number, peer in zip(settings.numbers, settings.peers, strict=True)
        for address in (read_address(peer.peer_address),)
    ]
    limits = msgspec.structs.asdict(settings.admission.command)
    return WorkerLaunch(
        worker=worker,
        workers=settings.workers,
        shards=settings.data_shards,
        node_number=settings.number,
        node_id=settings.node_id,
        incarnation=settings.incarnation.lower(),
        directory=settings.data_directory,
        endpoint=endpoint,
        guard=guard_digest(settings),
        durability=durability(settings),
        peers=peers,
        secret_key=settings.peer_secret_key or "",
        bootstrap=bootstrap(settings.admin_key),
        tick_ms=settings.timings.tick_ms,
        heartbeat_ms=settings.timings.heartbeat_ms,
        election_ms_min=settings.timings.election_ms_min,
        election_ms_max=settings.timings.election_ms_max,
        call_ms=settings.timings.call_ms,
        maximum_bytes=settings.maximum_bytes,
        minimum_free_bytes=settings.minimum_free_bytes,
        storage=StorageTimes(**msgspec.structs.asdict(settings.storage)),
        outcomes_retention_days=settings.outcomes.retention_days,
        outbox_max_records=settings.outbox.max_records,
        outbox_max_bytes=settings.outbox.max_bytes,
        outbox_when_full=settings.outbox.when_full,
        commands=CommandLimits(**limits),
    )


def bootstrap(admin_key: str | None) -> Bootstrap | None:
    """Id and verifier of the bootstrap key; the secret itself never leaves the front (SEC-2)."""
    if admin_key is None:
        return None
    return Bootstrap(admin_key.partition(".")[0], hashlib.sha256(admin_key.encode()).hexdigest())
