"""Whole nodes under faults, and the proof that the checks of the simulator can fail."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from harness.simulator.nodes.options import Options, draw
from harness.simulator.nodes.simulation import simulate
from harness.simulator.nodes.world import Parts
from tests.unit.simulator import broken

STEPS = 3_000

FAILED_ONCE = {
    1796081704148266: "clocks set back to the last committed instant, before that of a batch in flight",
    1796085281760127: "a node that is alone by its configuration was erased after others had come",
}
"""Seeds that failed, and why; they hold since the cause is removed."""


@pytest.mark.covers(
    "CLU-7", "CLU-10", "CLU-13", "CLU-14", "CLU-15", "CLU-18", "CLU-19", "CLU-24", "STO-9", "TST-12"
)
@pytest.mark.parametrize("seed", range(8))
def test_every_promise_holds(seed: int) -> None:
    report = simulate(seed, STEPS)
    assert report.violation is None, f"{report.violation}\n{report.replay}"


@pytest.mark.covers("CLU-10", "CLU-14", "STO-9")
@pytest.mark.parametrize("seed", FAILED_ONCE, ids=FAILED_ONCE.values())
def test_what_failed_once_holds(seed: int) -> None:
    report = simulate(seed, STEPS)
    assert report.violation is None, f"{report.violation}\n{report.replay}"


@pytest.mark.covers("TST-12")
def test_a_seed_tells_everything() -> None:
    first, again, other = simulate(7, STEPS), simulate(7, STEPS), simulate(8, STEPS)
    assert first == again
    assert first.digest != other.digest


def _options(faults: dict[str, int], **others: object) -> Options:
    """Three quick nodes that know only the named faults."""
    quiet = replace(
        draw(Random(1)),
        nodes=3,
        tick_drift=0.02,
        election_ticks=(5, 8),
        heartbeat_ticks=1,
        delay_ms_max=5,
        slow_delay=0.0,
        loss=0.0,
        duplication=0.0,
        ordered=True,
        encoded=False,
        rounds=2,
        sync_ms_max=10,
        client_ms=20,
        open_calls=32,
        read_share=0.2,
        repeat_share=0.05,
        double_share=0.1,
        documents=4,
        partitions=1,
        mails=8,
        outbox_records=20,
        checkpoint_ms=300,
        checkpoint_takes_ms=100,
        retained=100_000,
        segment_entries=1,
        snapshot_takes_ms=20,
        chunk_rows=50,
        spares=0,
        restart_ms=300,
        fault_ms=200,
        max_append_bytes=1 << 20,
        max_inflight_messages=64,
        max_uncommitted_bytes=1 << 26,
        max_committed_bytes=1 << 22,
        faults=dict.fromkeys(draw(Random(1)).faults, 0) | faults,
    )
    return replace(quiet, **others)  # type: ignore[arg-type]


CUTS = {"cut": 2, "heal": 2}
POWER = _options(CUTS | {"blackout_in_sync": 2, "power_in_sync": 2}, sync_ms_max=60)
DEPOSED = _options({"cut": 2, "heal": 1}, fault_ms=900)
LEFT_BEHIND = _options({"cut": 2, "heal": 1}, fault_ms=900, retained=5)
CHECKPOINTS = _options(CUTS | {"power": 3}, fault_ms=500, retained=5, checkpoint_takes_ms=1000)
ERASED = _options(CUTS | {"erase": 3, "kill": 1}, fault_ms=300)
CLOCKS = _options(CUTS | {"clock": 3})
SLOW_CHECKPOINTS = _options(
    {"slow_disk": 2, "fast_disk": 1, "cut": 2, "heal": 2, "power": 3},
    fault_ms=300,
    retained=1,
    checkpoint_takes_ms=200,
    restart_ms=100,
    sync_ms_max=1,
)
INSTALLS = _options(CUTS | {"power_in_install": 2, "kill_in_install": 1}, fault_ms=500, retained=5)


def test_the_runs_are_not_idle() -> None:
    counts = sum((simulate(2, STEPS, options=each).counts for each in (None, INSTALLS, ERASED)), Counter())
    for name in ("acknowledged", "reads served", "snapshots installed", "erased", "terms"):
        assert counts[name] > 0, name


Case = tuple[Parts, Options | None, int, str]
"""What is broken, the options of the runs (None: drawn), the first seed to try, what the report says."""

BROKEN: dict[str, Case] = {
    "an executor that forgets outcomes": (Parts(executor=broken.ForgetsOutcomes), None, 0, "and again at"),
    "an executor that keeps no refusals": (
        Parts(executor=broken.KeepsNoRefusals),
        None,
        0,
        "not its outcome",
    ),
    "an executor that takes any clock": (Parts(executor=broken.TakesAnyClock), CLOCKS, 0, "goes back"),
    "an executor that loses index entries": (Parts(executor=broken.LosesIndexEntries), None, 1, "index "),
    "a shard that answers at once": (Parts(shard=broken.AnswersAtOnce), None, 0, "not its outcome"),
    "a shard that answers what was displaced": (Parts(shard=broken.AnswersTheDisplaced), DEPOSED, 0, ""),
    "a shard that keeps batches in flight": (
        Parts(shard=broken.KeepsBatchesInFlight),
        LEFT_BEHIND,
        9,
        "20000",
    ),
    "a worker that reads without barrier": (Parts(worker=broken.ReadsWithoutBarrier), None, 0, "stale read"),
    "a worker that reads too early": (
        Parts(worker=broken.ReadsBeforeApplying),
        None,
        0,
        "stale read",
    ),
    "a worker that speaks before the sync": (Parts(worker=broken.SpeaksBeforeTheSync), POWER, 18, "lacks"),
    "a log that forgets synced turns": (Parts(log=broken.ForgetsSyncedTurns), POWER, 0, ""),
    "a log that tears a turn": (Parts(log=broken.TearsATurn), POWER, 8, "the hard state"),
    "a disk that forgets an installation": (Parts(disk=broken.ForgetsAnInstallation), INSTALLS, 4, "applied"),
    "a state that loses a row": (Parts(state=broken.LosesARow), None, 0, "another state"),
    "a state that applies again": (Parts(state=broken.AppliesAgain), POWER, 0, "another state"),
    "a state that loses a checkpoint": (Parts(state=broken.LosesACheckpoint), CHECKPOINTS, 0, "before"),
    "a worker that installs amid a checkpoint": (
        Parts(worker=broken.InstallsAmidACheckpoint),
        SLOW_CHECKPOINTS,
        0,
        "before the log",
    ),
    "a snapshot without outcomes": (Parts(state=broken.TakesHalfASnapshot), LEFT_BEHIND, 0, "another state"),
    "a replica that counts at once": (Parts(raft=broken.CountsAtOnce), ERASED, 0, ""),
}
MOST_SEEDS = 100


@pytest.mark.covers("CLU-7", "CLU-10", "CLU-13", "CLU-14", "CLU-15", "CLU-18", "CLU-24", "STO-9")
@pytest.mark.parametrize("case", BROKEN.values(), ids=list(BROKEN))
def test_a_broken_rule_is_found(case: Case) -> None:
    """The same seed holds with the true part: the rule is what makes the difference."""
    parts, options, first, told = case
    for seed in range(first, first + MOST_SEEDS):
        report = simulate(seed, STEPS, parts, options)
        if report.violation is not None and told in report.violation:
            assert simulate(seed, STEPS, options=options).violation is None
            return
    pytest.fail(f"it got through {MOST_SEEDS} seeds")
