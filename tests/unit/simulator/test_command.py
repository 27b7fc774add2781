"""`python -m harness simulate`: one seed again, or fresh ones on all cores."""

from __future__ import annotations

import pytest

from harness.__main__ import run
from harness.simulator.report import Report
from harness.simulator.search import search


@pytest.mark.covers("TST-12")
@pytest.mark.parametrize("form", ["nodes", "consensus"])
def test_one_seed_is_told_in_full(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", "--form", form, "--seed", "3", "--steps", "300"]
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert run(arguments) == 0
    assert capsys.readouterr().out == shown, "the digest of the events included"
    assert shown.startswith("Options(")
    assert shown.endswith("held\n")


def always_fails(seed: int, steps: int) -> Report:
    """A simulator in which nothing holds."""
    return Report("nodes", seed, steps, None, "Violation: as always", 0, 1, 1)


def ends_at_once(seed: int, steps: int) -> Report:
    """A simulator that takes its process with it."""
    raise SystemExit(3)


@pytest.mark.covers("TST-12", "TST-21")
def test_a_search_tells_each_failing_seed(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--minutes", "0.01", "--processes", "1", "--first", "11", "--steps", "50"]) == 0
    assert "seeds, 0 failed" in capfd.readouterr().out
    assert search(always_fails, 5, 70, 600.0, 1) >= 100
    shown = capfd.readouterr().out
    assert "FAILED python -m harness simulate --seed 5 --steps 70: Violation: as always\n" in shown


@pytest.mark.covers("TST-21")
def test_a_search_whose_process_ends_early_has_failed(capfd: pytest.CaptureFixture[str]) -> None:
    assert search(ends_at_once, 5, 70, 600.0, 1) == 1
    assert "ended before their time" in capfd.readouterr().out
