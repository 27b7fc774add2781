"""What the measurements make of what they saw, and that faults come from one number."""

from __future__ import annotations

import os
from random import Random

import pytest

from harness import background, credentials, failover
from harness.catchup import memory
from harness.faults import FaultKind, draw
from harness.metrics import read_replicas
from harness.steady import Sample, SteadyLoad


@pytest.mark.covers("CLU-29")
def test_the_replicas_of_a_node_are_read_from_its_metrics() -> None:
    text = """# HELP keyload_shard_role 1 for the role
# TYPE keyload_shard_role gauge
keyload_shard_role{shard="0",role="leader"} 1
keyload_shard_role{shard="0",role="follower"} 0
keyload_shard_role{shard="1",role="leader"} 0
keyload_shard_role{shard="1",role="follower"} 1
keyload_shard_term{shard="1"} 7.0
keyload_shard_leader{shard="1"} 3
keyload_shard_applied_index{shard="1"} 12
keyload_shard_commit_index{shard="1"} 13
keyload_ready 1
"""
    found = read_replicas(text)
    assert [found[0].role, found[1].role] == ["leader", "follower"]
    assert (found[1].term, found[1].leader, found[1].applied, found[1].commit) == (7, 3, 12, 13)


@pytest.mark.covers("TST-27", "CLU-10")
def test_failover_counts_what_came_in_time() -> None:
    trials = [failover.Trial(n % 4, n % 2 == 1, 2.0 if n < 95 else 3.9) for n in range(100)]
    rows = {row.what: row for row in failover.table(trials).rows}
    assert (rows["within 2 s"].values, rows["within 2 s"].met) == ((95,), True)
    assert (rows["over 4 s"].values, rows["over 4 s"].met) == ((0,), True)
    assert rows["leading node killed, longest"].values == (3.9,)
    trials[0] = failover.Trial(0, False, 4.1)
    made = failover.table(trials)
    assert [row.met for row in made.rows[:2]] == [False, False]
    assert len(made.raw["leading worker"]) == len(made.raw["leading node"]) == 50


@pytest.mark.covers("TST-27")
def test_the_times_of_refusals_are_held_against_the_quickest() -> None:
    made = credentials.table(
        {"POST /mcp": [{"a": 0.002, "b": 0.0021, "c": 0.0022}, {"a": 0.002, "b": 0.0021}]}
    )
    assert [(row.unit, [round(value, 6) for value in row.values]) for row in made.rows] == [
        ("%", [10.0, 5.0]),
        ("ms", [2.1, 2.0]),
    ]
    assert made.rows[0].met
    assert credentials.table({"x": [{"a": 1.0, "b": 1.11}]}).rows[0].met is False
    assert made.raw["POST /mcp, a"] == [2.0, 2.0]
    assert credentials.middle_half([9.0, 1.0, 2.0, 4.0, 0.0, 3.0, 5.0, 99.0]) == 3.5


@pytest.mark.covers("TST-27")
def test_background_work_is_held_against_the_load_alone() -> None:
    made = background.table({"alone": [0.01] * 200, "a": [0.01] * 195 + [0.061] * 5, "b": [0.05] * 200})
    assert [(row.values, row.met) for row in made.rows] == [
        ((10.0,), None),
        ((61.0,), False),
        ((50.0,), True),
    ]


@pytest.mark.covers("TST-27")
def test_a_steady_load_tells_latencies_and_gaps_of_a_window() -> None:
    load = SteadyLoad([], 10, 1)
    load.samples = [Sample(1.0, 0.5), Sample(2.0, 0.1), Sample(3.0, 2.5)]
    assert load.latencies(2.0, 3.5) == [0.1, 2.5]
    assert load.longest_gap(1.0, 6.0) == pytest.approx(3.4)
    assert load.longest_gap(1.0, 1.2) == pytest.approx(0.2)


@pytest.mark.covers("TST-15")
def test_memory_tells_own_and_mapped_pages() -> None:
    found = memory(os.getpid())
    assert found.own > 1 << 20
    assert found.mapped > 1 << 20


@pytest.mark.covers("TST-12", "CLU-14")
@pytest.mark.parametrize("kind", FaultKind)
def test_faults_are_drawn_from_one_number(kind: FaultKind) -> None:
    made = [draw(kind, Random(seed), 3, 2) for seed in range(50)]
    assert made == [draw(kind, Random(seed), 3, 2) for seed in range(50)]
    assert {fault.node for fault in made} == {0, 1, 2, 3}
    assert {(fault.step, fault.worker) for fault in made} == {(1, 0), (1, 1), (2, 0), (2, 1)}
    assert all(1.0 <= fault.seconds <= 10.0 for fault in made)
