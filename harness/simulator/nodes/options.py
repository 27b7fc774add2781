"""What one run with whole nodes looks like; everything is drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Options:
    """Times are in virtual milliseconds, probabilities per message, call or choice."""

    nodes: int
    tick_ms: int
    election_ticks: tuple[int, int]
    heartbeat_ticks: int
    tick_drift: float
    """How much faster or slower a node's ticks may come."""
    delay_ms_max: int
    slow_delay: float
    """Probability that a frame takes ten times as long."""
    loss: float
    duplication: float
    ordered: bool
    """Whether a link keeps the order of its frames."""
    encoded: bool
    """Whether consensus messages pass through their wire form."""
    rounds: int
    """Rounds of log, apply and send in one turn of a worker."""
    sync_ms_max: int
    client_ms: int
    """Mean time between two calls of clients."""
    open_calls: int
    read_share: float
    repeat_share: float
    """Probability that a command that was answered is sent once more."""
    double_share: float
    """Probability that a command is sent to two nodes at once."""
    documents: int
    partitions: int
    mails: int
    """Values of the unique field."""
    outbox_records: int
    checkpoint_ms: int
    checkpoint_takes_ms: int
    retained: int
    """Entries a leader keeps for a slow follower; then it gets a snapshot."""
    segment_entries: int
    """Entries dropped at once from the head of the log."""
    snapshot_takes_ms: int
    chunk_rows: int
    spares: int
    """Nodes that may come into the cluster; a node that is alone by its configuration stays alone."""
    restart_ms: int
    """Mean time until a node that went down comes back."""
    fault_ms: int
    """Mean time between two faults."""
    lull_ms: int
    """Mean time without faults after everything was mended."""
    faults: dict[str, int]
    """Weights of the faults."""
    max_append_bytes: int
    max_inflight_messages: int
    max_uncommitted_bytes: int
    max_committed_bytes: int


FAULTS = (
    "kill",
    "power",
    "blackout",
    "power_in_sync",
    "blackout_in_sync",
    "kill_in_install",
    "power_in_install",
    "pause",
    "split",
    "one_way",
    "cut",
    "transfer",
    "campaign",
    "disk_full",
    "slow_disk",
    "failing_sync",
    "clock",
    "erase",
    "change",
)
REPAIRS = ("restart", "resume", "heal", "room", "fast_disk", "set_clock", "mend")


def draw(rng: Random) -> Options:
    """The options of a run."""
    least = rng.choice((5, 10, 20))
    nodes = rng.choice((1, 3, 3, 3, 3, 3, 5))
    return Options(
        nodes=nodes,
        tick_ms=50,
        election_ticks=(least, least + rng.choice((3, 20))),
        heartbeat_ticks=rng.randint(1, least // 5),
        tick_drift=rng.choice((0.0, 0.02, 0.3)),
        delay_ms_max=rng.choice((1, 5, 5, 40, 200)),
        slow_delay=rng.choice((0.0, 0.0, 0.02, 0.2)),
        loss=rng.choice((0.0, 0.0, 0.01, 0.1)),
        duplication=rng.choice((0.0, 0.0, 0.05, 0.3)),
        ordered=rng.random() < 0.5,
        encoded=rng.random() < 0.2,
        rounds=rng.choice((1, 2, 4)),
        sync_ms_max=rng.choice((0, 1, 10, 60)),
        client_ms=rng.choice((5, 20, 100)),
        open_calls=rng.choice((4, 32)),
        read_share=rng.choice((0.2, 0.5)),
        repeat_share=rng.choice((0.05, 0.3)),
        double_share=rng.choice((0.0, 0.1, 0.5)),
        documents=rng.choice((1, 4, 30)),
        partitions=rng.choice((1, 2)),
        mails=rng.choice((2, 8)),
        outbox_records=rng.choice((20, 500)),
        checkpoint_ms=rng.choice((300, 2000, 10_000)),
        checkpoint_takes_ms=rng.choice((1, 100, 1000)),
        retained=rng.choice((5, 100, 100_000)),
        segment_entries=rng.choice((1, 20, 200)),
        snapshot_takes_ms=rng.choice((0, 20, 500)),
        chunk_rows=rng.choice((3, 50, 10_000)),
        spares=rng.choice((0, 1, 3, 6)) if nodes > 1 else 0,
        restart_ms=rng.choice((50, 1000, 4000)),
        fault_ms=rng.choice((100, 300, 1000, 3000)),
        lull_ms=rng.choice((500, 3000)),
        faults={name: rng.choice((0, 1, 1, 3)) for name in FAULTS}
        | {name: rng.choice((1, 3)) for name in REPAIRS}
        | {"mend": rng.choice((1, 3, 8))},
        max_append_bytes=rng.choice((1, 2000, 1 << 20)),
        max_inflight_messages=rng.choice((1, 3, 64)),
        max_uncommitted_bytes=rng.choice((3000, 1 << 26)),
        max_committed_bytes=rng.choice((1, 3000, 1 << 22)),
    )
