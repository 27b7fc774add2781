"""The durability profiles may be advertised only while the trials that earn them are run (STO-27)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from apphost import suites
from apphost.options import SUITES
from harness import trials
from harness.evidence import ROOT
from keyload.node import launching
from keyload.worker.steps import CHECKPOINT_STEPS, SNAPSHOT_STEPS, STEPS, WRITE_STEPS
from tests.recovery import test_kills, test_power

TRIALS = (
    (test_power, "test_a_node_whose_power_was_lost_keeps_what_it_acknowledged"),
    (test_power, "test_most_images_lost_something_that_was_written"),
    (test_power, "test_three_nodes_that_lost_their_power_at_once_keep_what_they_acknowledged"),
    (test_power, "test_without_one_half_of_a_checkpoint_images_fail"),
    (test_kills, "test_a_node_killed_at_this_step_keeps_what_it_acknowledged"),
    (test_kills, "test_at_least_a_hundred_trials_were_made_and_most_hit_a_writing_node"),
)
LEFT_OUT = {"skip", "skipif", "xfail", "importorskip", "skipUnless", "SkipTest"}


@pytest.mark.covers("STO-27", "CMD-32")
def test_the_profiles_say_that_power_may_be_lost() -> None:
    assert launching.DURABILITY_ALONE == "LocalDurable"
    assert launching.DURABILITY_CLUSTER == "QuorumDurable"


@pytest.mark.covers("STO-18", "STO-24", "STO-27")
def test_the_trials_are_as_many_as_the_specification_asks_for() -> None:
    assert test_power.LEAST_IMAGES >= 200
    assert test_power.LEAST_LOSSES >= 50
    assert test_power.RUNS * test_power.LIVES * test_power.IMAGES_PER_LIFE >= test_power.LEAST_IMAGES
    assert test_power.CHAINS * test_power.LOSSES_PER_CHAIN >= test_power.LEAST_LOSSES
    assert test_kills.ORDINARY_TRIALS >= 100
    assert {*STEPS} == {*WRITE_STEPS, *CHECKPOINT_STEPS, *SNAPSHOT_STEPS}
    assert {*trials.NODE_STEPS} >= {*WRITE_STEPS, *CHECKPOINT_STEPS}


@pytest.mark.covers("STO-27")
def test_the_recovery_suite_runs_all_of_them() -> None:
    assert "recovery" in SUITES
    folder = ROOT / "tests" / suites._FOLDERS["recovery"]
    assert folder == Path(test_power.__file__).parent == Path(test_kills.__file__).parent
    for module, name in TRIALS:
        assert callable(getattr(module, name)), name
    ignored = [path for path in (ROOT / "tests").rglob("conftest.py") if "collect_ignore" in path.read_text()]
    assert ignored == []


@pytest.mark.covers("STO-27")
def test_none_of_them_is_skipped() -> None:
    for path in sorted((ROOT / "tests" / "recovery").rglob("*.py")):
        words = {
            node.attr if isinstance(node, ast.Attribute) else node.id
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Attribute | ast.Name)
        }
        assert not words & LEFT_OUT, path
