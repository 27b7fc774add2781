"""What a worker tells its front about itself: its command gate and the state of its shards."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from keyload.codec import kernels
from keyload.link.launch import WorkerLaunch
from keyload.storage import Wal
from keyload.worker.admission import CommandGate
from keyload.worker.shard import Shard


class ShardUsage(msgspec.Struct, frozen=True, rename="camel"):
    """One shard of the worker."""

    shard: int
    role: str
    term: int
    leader: int
    commit: int
    applied: int
    log_bytes: int
    generation: int
    waiting: int


class WorkerUsage(msgspec.Struct, frozen=True, rename="camel"):
    """Command gate counts, as the members of CommandAdmissionSnapshot, and the shards.

    `tenants` and `principals` are the names active in this worker, so that a front can count them once over
    all its workers; they leave the node as counts only (ADM-31).
    """

    worker: int
    process_id: int
    commands: int
    retained_bytes: int
    control_commands: int
    control_retained_bytes: int
    tenants: list[str]
    principals: list[str]
    shards: list[ShardUsage]
    accelerated: dict[str, str]


def usage(launch: WorkerLaunch, gate: CommandGate, shards: Mapping[int, Shard], wal: Wal) -> bytes:
    """The worker's counters as JSON."""
    return msgspec.json.encode(
        WorkerUsage(
            worker=launch.worker,
            process_id=os.getpid(),
            commands=gate.data.commands,
            retained_bytes=gate.data.bytes,
            control_commands=gate.control.commands,
            control_retained_bytes=gate.control.bytes,
            tenants=sorted({*gate.data.tenants, *gate.control.tenants}),
            principals=sorted({*gate.data.principals, *gate.control.principals}),
            shards=[_shard(shard, wal) for shard in shards.values()],
            accelerated=kernels.active(),
        )
    )


def _shard(shard: Shard, wal: Wal) -> ShardUsage:
    kept = wal.log(shard.number)
    return ShardUsage(
        shard=shard.number,
        role=shard.raft.role.name.lower(),
        term=shard.raft.term,
        leader=shard.raft.leader or 0,
        commit=shard.raft.commit,
        applied=shard.store.applied.index,
        log_bytes=kept.bytes_from(kept.first_index),
        generation=shard.store.generation,
        waiting=len(shard.queue) + len(shard.reads),
    )
