"""Reports cannot look better than the run behind them (TST-7, TST-8, TST-21, TST-24, TST-25)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from harness.evidence import (
    ROOT,
    Case,
    Failure,
    Report,
    compare,
    kept_failures,
    latest_complete,
    run_directory,
    shortened,
)
from harness.measured import Row, Table, at_least, below, markdown, middle, nearest_rank


def report(cases: list[Case], suite: str = "unit", partial: bool = False, status: int = 0) -> Report:
    return Report(
        suite=suite,
        started="2026-01-01T00:00:00+00:00",
        seconds=1.0,
        source="s",
        revision=None,
        command=[],
        partial=partial,
        exit_status=status,
        machine={},
        cases=cases,
        failures=[],
    )


@pytest.mark.covers("TST-7", "TST-8")
def test_scalar_is_held_against_unit_case_by_case() -> None:
    unit = report([Case("a", "passed", 1, (), "1"), Case("b", "passed", 1), Case("c", "passed", 1)])
    same = report([Case("c", "passed", 9), Case("a", "passed", 2, (), "1"), Case("b", "passed", 1)], "scalar")
    assert compare(unit, same) == []
    other = report(
        [Case("a", "passed", 1, (), "2"), Case("b", "failed", 1), Case("d", "passed", 1)], "scalar"
    )
    assert compare(unit, other) == [
        "only in unit: c",
        "only in scalar: d",
        "a: observable output differs",
        "b: passed in unit, failed in scalar",
    ]


@pytest.mark.covers("TST-25", "TST-29")
def test_only_a_whole_passed_report_of_the_same_source_is_compared_with(tmp_path: Path) -> None:
    assert latest_complete(tmp_path, "s") is None
    good = report([Case("a", "passed", 1)])
    for made in (good, report([], partial=True), report([], status=1)):
        directory = run_directory(tmp_path)
        (directory / "report.json").write_bytes(msgspec.json.encode(made))
    assert latest_complete(tmp_path, "s") == good
    assert latest_complete(tmp_path, "other") is None
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.covers("TST-24")
def test_failures_are_kept_short_and_few() -> None:
    text = "\n".join(f"line {number} " + "x" * 200 for number in range(1000))
    assert len(shortened(text).encode()) <= 8192
    assert shortened(text).endswith("x")
    assert len(shortened("\n".join("y" for _ in range(1000))).splitlines()) == 80
    failures = [Failure(str(number), "") for number in range(100)]
    kept = kept_failures(failures)
    assert [failure.id for failure in kept] == [*map(str, range(32)), "99"]
    assert kept_failures(failures[:32]) == failures[:32]


CASES = """
import pytest

@pytest.mark.covers("TST-4")
def test_passes(observe):
    observe(b"bytes")
    observe({"a": 1})

def test_fails():
    assert False, "because"

def test_skips():
    pytest.skip("no reason")

@pytest.fixture
def broken():
    raise OSError("no such thing")

def test_errors(broken):
    pass
"""


def run_cases(tmp_path: Path, text: str, *options: str) -> tuple[int, Report]:
    """Run a file of cases in a process of its own, under the suite's own plugin."""
    folder = tmp_path / "tests"
    folder.mkdir(exist_ok=True)
    (folder / "conftest.py").write_text(
        (ROOT / "tests/conftest.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (folder / "test_cases.py").write_text(text, encoding="utf-8")
    path = tmp_path / "report.json"
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(folder),
        f"--report={path}",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    command += [f"--rootdir={tmp_path}", f"--config-file={ROOT / 'pyproject.toml'}", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    return done.returncode, msgspec.json.decode(path.read_bytes(), type=Report)


@pytest.mark.covers("TST-8", "TST-21", "TST-25")
@pytest.mark.parametrize("options", [["-n0"], ["-n1"]])
def test_a_report_tells_every_case_and_the_runners_status(tmp_path: Path, options: list[str]) -> None:
    status, made = run_cases(tmp_path, CASES, *options)
    assert status == made.exit_status == 1
    cases = {case.id.rpartition("::")[2]: case for case in made.cases}
    assert {name: case.outcome for name, case in cases.items()} == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_skips": "skipped",
        "test_errors": "failed",
    }
    assert cases["test_passes"].covers == ("TST-4",)
    assert cases["test_passes"].digest is not None
    assert made.count("passed") == 1
    assert any("because" in failure.text for failure in made.failures)
    assert made.partial is False


@pytest.mark.covers("TST-25")
def test_a_skipped_case_alone_fails_the_run(tmp_path: Path) -> None:
    status, made = run_cases(tmp_path, "import pytest\ndef test_it():\n    pytest.skip('x')\n", "-n0")
    assert status == made.exit_status == 1


@pytest.mark.covers("TST-25")
def test_a_filtered_run_is_marked(tmp_path: Path) -> None:
    status, made = run_cases(tmp_path, "def test_it():\n    pass\n", "-n0", "--partial")
    assert (status, made.partial) == (0, True)


@pytest.mark.covers("BEN-12", "TST-27")
def test_figures_and_their_tables() -> None:
    values = [float(value) for value in range(1, 101)]
    assert (nearest_rank(values, 0.5), nearest_rank(values, 0.99), nearest_rank(values, 1.0)) == (50, 99, 100)
    assert nearest_rank([7.0], 0.5) == 7
    assert middle([3.0, 1.0, 2.0]) == 2
    rows = [at_least("speed", [10.0, 30.0, 20.0], "x/s", 20), below("time", [5.0], "ms", 3)]
    assert [row.met for row in rows] == [True, False]
    text = markdown(Table(title="Speed", runs=3, rows=[*rows, Row(what="free", values=(1.0,), unit="MB")]))
    assert "| speed | 20.0 x/s | 10.0, 30.0, 20.0 | at least 20 | yes |" in text
    assert "| time | 5.00 ms | 5.00 | below 3 | **no** |" in text
    assert "cores" in text
    assert "Python" in text
