"""What one run of the simulator looks like; everything is drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Options:
    """Times are in virtual milliseconds, probabilities per message or per choice."""

    nodes: int
    tick_ms: int
    election_ticks: tuple[int, int]
    heartbeat_ticks: int
    tick_drift: float
    """How much faster or slower a node's clock may run."""
    delay_ms_max: int
    slow_delay: float
    """Probability that a message takes ten times as long."""
    loss: float
    duplication: float
    ordered: bool
    """Whether a link keeps the order of its messages."""
    encoded: bool
    """Whether messages pass through their wire form."""
    sync_ms_max: int
    blocking_sync: bool
    """Whether a node that syncs takes no events meanwhile."""
    client_ms: int
    """Mean time between two client calls."""
    fault_ms: int
    """Mean time between two faults."""
    faults: dict[str, int]
    """Weights of the faults."""
    payload_max: int
    max_append_bytes: int
    max_inflight_messages: int
    max_uncommitted_bytes: int
    max_committed_bytes: int
    first_start: bool
    """Whether the voters have yet to join; else they joined before, and did nothing since."""
    spares: int
    """Nodes that belong to nobody yet; a change of the membership may take them in."""
    snapshot_ms_max: int
    alarm_rate: float = 0.0
    """How often another node sees its connection to the one that a fault strikes break; runs that are asked
    for it only, so that a seed goes on telling its story."""


FAULTS = ("crash", "pause", "split", "one_way", "cut", "campaign", "transfer", "reboot")
LASTING = ("erase", "trim", "change")
REPAIRS = ("restart", "resume", "heal")


def draw(rng: Random) -> Options:
    """The options of a run."""
    least = rng.choice((5, 5, 10, 20))
    lasting = rng.random() < 0.7
    return Options(
        nodes=rng.choice((1, 2, 3, 3, 3, 3, 4, 5, 5)),
        tick_ms=50,
        election_ticks=(least, least + rng.choice((1, 3, 20))),
        heartbeat_ticks=rng.randint(1, least // 5),
        tick_drift=rng.choice((0.0, 0.02, 0.5)),
        delay_ms_max=rng.choice((1, 5, 40, 200)),
        slow_delay=rng.choice((0.0, 0.0, 0.02, 0.2)),
        loss=rng.choice((0.0, 0.0, 0.01, 0.1, 0.3)),
        duplication=rng.choice((0.0, 0.0, 0.05, 0.3)),
        ordered=rng.random() < 0.3,
        encoded=rng.random() < 0.3,
        sync_ms_max=rng.choice((0, 1, 10, 120)),
        blocking_sync=rng.random() < 0.5,
        client_ms=rng.choice((10, 50, 200)),
        fault_ms=rng.choice((20, 50, 200, 700, 3000)),
        faults={name: rng.choice((0, 1, 1, 3)) for name in FAULTS}
        | {name: rng.choice((1, 3)) for name in REPAIRS}
        | {name: rng.choice((0, 1, 3)) if lasting else 0 for name in LASTING},
        payload_max=rng.choice((8, 200)),
        max_append_bytes=rng.choice((1, 100, 1 << 20)),
        max_inflight_messages=rng.choice((1, 3, 64)),
        max_uncommitted_bytes=rng.choice((1000, 1 << 26)),
        max_committed_bytes=rng.choice((1, 500, 1 << 22)),
        first_start=rng.random() < 0.3,
        spares=rng.choice((0, 1, 2, 3)) if lasting else 0,
        snapshot_ms_max=rng.choice((5, 100, 2000)),
    )
