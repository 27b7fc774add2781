"""Entry of a worker process: `python -m keyload.worker`, started by a front with its launch message on
standard input.

The exit status is 0 after an ordered stop, 3 after a failed write, 4 after a defect of the program, 2 for a
launch message that is none, and `EXIT_DAMAGED` when files are damaged or of a foreign format: then another
start would not help.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
from pathlib import Path

import msgspec
import zmq

from keyload.codec import kernels
from keyload.consensus import Config, Membership, Raft
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.link import log
from keyload.link.launch import EXIT_DAMAGED, WorkerLaunch
from keyload.link.log import Category
from keyload.models.outbox import OutboxLimits
from keyload.storage import Store, Wal, open_states, private_directory, recover_state
from keyload.storage.hooks import Step
from keyload.worker.executor import Executor
from keyload.worker.loop import Worker
from keyload.worker.shard import Shard
from keyload.worker.steps import step_hook

LIFELINE = 0
"""Standard input: the launch message, then nothing until the parent is gone."""

MAX_LAUNCH_BYTES = 1 << 20
REPEAT_HEARTBEATS = 3
EXIT_LAUNCH = 2
EXIT_STORE = 3
EXIT_DEFECT = 4


def main() -> int:
    """Run one worker until its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        launch = read_launch(LIFELINE)
        step = step_hook(os.environ)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_LAUNCH
    log.name_process(f"worker-{launch.worker}")
    try:
        return _work(launch, step)
    except KeyLoadError as error:
        log.event(Category.STORE_REFUSED, code=error.code)
        if error.code in (ErrorCode.CORRUPTION, ErrorCode.FORMAT_UNSUPPORTED):
            return EXIT_DAMAGED
    except OSError as error:
        log.event(Category.STORE_REFUSED, errno=error.errno or 0)
    except Exception as error:
        log.failure(Category.DEFECT, error)
        return EXIT_DEFECT
    return EXIT_STORE


def read_launch(descriptor: int) -> WorkerLaunch:
    """The launch message: a 4-byte big-endian length and MessagePack. Raises ValueError when it is none."""
    length = int.from_bytes(_read_exactly(descriptor, 4), "big")
    if not 0 < length <= MAX_LAUNCH_BYTES:
        raise ValueError("the launch message has an impossible length")
    try:
        return msgspec.msgpack.decode(_read_exactly(descriptor, length), type=WorkerLaunch)
    except msgspec.MsgspecError as error:
        raise ValueError(
            "the launch message is malformed; this program is started by `keyload serve`"
        ) from error


def _read_exactly(descriptor: int, count: int) -> bytes:
    content = b""
    while len(content) < count:
        part = os.read(descriptor, count - len(content))
        if not part:
            raise ValueError("the launch message ends early; this program is started by `keyload serve`")
        content += part
    return content


def _work(launch: WorkerLaunch, step: Step) -> int:
    log.event(Category.KERNELS, **kernels.active())
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
    sys.setswitchinterval(0.0005)
    worker = build(launch, context=context, step=step, lifeline=LIFELINE)
    gc.collect()
    gc.freeze()
    worker.run()
    worker.close()
    context.term()
    return 0


def build(
    launch: WorkerLaunch, *, context: zmq.Context[zmq.Socket[bytes]], step: Step, lifeline: int
) -> Worker:
    """Open the worker's log and shards, replay them, and make the worker that runs them."""
    directory = Path(launch.directory) / f"worker-{launch.worker}"
    private_directory(directory)
    recover_state(directory)
    wal = Wal(
        directory / "wal",
        worker=launch.worker,
        incarnation=launch.incarnation,
        segment_bytes=launch.storage.segment_bytes,
        step=step,
    )
    stores = open_states(
        directory,
        wal,
        shard_numbers(launch),
        launch.maximum_bytes,
        membership=_configured(launch).packed(),
        step=step,
    )
    shards = {number: _shard(number, launch, wal, store, step) for number, store in stores.items()}
    return Worker(launch, context=context, wal=wal, shards=shards, step=step, lifeline=lifeline)


def shard_numbers(launch: WorkerLaunch) -> list[int]:
    """The shards of this worker: shard g lives in worker g mod W (CLU-8)."""
    return [number for number in range(launch.shards + 1) if number % launch.workers == launch.worker]


def _shard(number: int, launch: WorkerLaunch, wal: Wal, store: Store, step: Step) -> Shard:
    config = Config(
        id=launch.node_number,
        election_ticks_min=max(1, launch.election_ms_min // launch.tick_ms),
        election_ticks_max=max(2, launch.election_ms_max // launch.tick_ms),
        heartbeat_ticks=max(1, launch.heartbeat_ms // launch.tick_ms),
        rng=random.SystemRandom(),
    )
    log = wal.log(number)
    assert store.membership is not None
    raft = Raft(config, log, log.hard_state, store.applied.index, Membership.unpacked(store.membership))
    if raft.membership.voters == (launch.node_number,):
        raft.campaign()
    executor = Executor(
        shard=number,
        incarnation=launch.incarnation,
        durability=launch.durability,
        data_shards=launch.shards,
        outbox=OutboxLimits(
            launch.outbox_max_records, launch.outbox_max_bytes, launch.outbox_when_full == "dropUnpinned"
        ),
        outcomes_retention_days=launch.outcomes_retention_days,
    )
    return Shard(number, raft, store, executor, step, launch.heartbeat_ms * REPEAT_HEARTBEATS / 1000)


def _configured(launch: WorkerLaunch) -> Membership:
    """The replicas a new state begins with; entries of the log change them."""
    return Membership(launch.first_voters)


if __name__ == "__main__":
    sys.exit(main())
