"""Runs one suite with pytest and judges its report (CLI-17, CLI-22, TST-1, TST-7, TST-21, TST-25)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from apphost import children
from apphost.options import Options
from harness.evidence import ROOT, Report, compare, latest_complete, run_directory

FAILED = 1
NO_TESTS = 5
RESULTS = Path("test-results")
LIMIT_SECONDS = {"unit": 900.0, "scalar": 900.0, "recovery": 1200.0, "rf3": 1800.0}
SECONDS_PER_TRIAL = 4.0
_FOLDERS = {"unit": "unit", "scalar": "unit", "recovery": "recovery", "rf3": "rf3"}
_PARALLEL = ("unit", "scalar")


def run(suite: str, options: Options) -> int:
    """Run a suite; 0 only when every case of it ran and passed."""
    results = options.results_directory or RESULTS / suite
    directory = run_directory(results.absolute())
    passes = ("not alone", "alone") if suite in _PARALLEL else (None,)
    reports: list[Report] = []
    status = 0
    for number, marks in enumerate(passes):
        path = directory / ("report.json" if number == 0 else "alone.json")
        outcome = children.run(
            _command(suite, marks, path, options),
            LIMIT_SECONDS[suite] + SECONDS_PER_TRIAL * (options.trials or 0),
            _environment(suite, directory, options),
        )
        if not path.exists():
            sys.stderr.write(f"apphost: {suite}: the runner left no report\n")
            return outcome or FAILED
        reports.append(msgspec.json.decode(path.read_bytes(), type=Report))
        nothing = outcome == NO_TESTS and (number > 0 or options.filter is not None)
        status = status or (0 if nothing else outcome)
    report = _joined(reports, status)
    (directory / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    (directory / "alone.json").unlink(missing_ok=True)
    if options.coverage:
        _cover(directory)
    if suite == "scalar" and status == 0:
        status = _compared(report, results)
    _conclude(report, status)
    return status


def _command(suite: str, marks: str | None, path: Path, options: Options) -> list[str]:
    parallel = suite in _PARALLEL and marks != "alone" and not options.coverage
    workers = 2 * (os.cpu_count() or 1) if parallel else 0
    runner = ["-m", "coverage", "run", "--parallel-mode", "--source=keyload"] if options.coverage else []
    junit = options.report_junit or path.with_suffix(".xml")
    command = [
        sys.executable,
        *runner,
        "-m",
        "pytest",
        str(ROOT / "tests" / _FOLDERS[suite]),
        f"--rootdir={ROOT}",
        f"--numprocesses={workers}",
        "--quiet",
        f"--report={path}",
        f"--suite-name={suite}",
        f"--junitxml={junit}",
    ]
    if marks is not None:
        command += ["-m", marks]
    if options.filter is not None:
        command += ["--partial", "-k", options.filter]
    return command


def _environment(suite: str, directory: Path, options: Options) -> dict[str, str]:
    """The runner's environment: the kernels' mode, and where nodes put their logs (CLI-23, TST-6)."""
    kept = ("KEYLOAD_SEED", "KEYLOAD_TRIALS", "KEYLOAD_HISTORY_SECONDS")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("KEYLOAD") or name in kept
    }
    environment["KEYLOAD_RESULTS"] = str(directory)
    environment["COVERAGE_FILE"] = str(directory / ".coverage")
    if options.trials is not None:
        environment["KEYLOAD_TRIALS"] = str(options.trials)
    if suite == "scalar":
        environment["KEYLOAD_SCALAR"] = "1"
    return environment


def _cover(directory: Path) -> None:
    """Which lines of the product the runner itself ran; nodes are processes of their own."""
    environment = os.environ | {"COVERAGE_FILE": str(directory / ".coverage")}
    coverage = [sys.executable, "-m", "coverage"]
    subprocess.run([*coverage, "combine", "--quiet", str(directory)], env=environment, check=False)
    with (directory / "coverage.txt").open("wb") as file:
        subprocess.run([*coverage, "report", "--show-missing"], env=environment, stdout=file, check=False)


def _joined(reports: list[Report], status: int) -> Report:
    """The report of all passes of one suite."""
    first = reports[0]
    for later in reports[1:]:
        first.cases += later.cases
        first.failures += later.failures
        first.seconds = round(first.seconds + later.seconds, 3)
    first.exit_status = status
    return first


def _compared(scalar: Report, results: Path) -> int:
    """Hold a scalar run against the unit run of the same source (TST-7, TST-8)."""
    if scalar.partial:
        sys.stderr.write("apphost: scalar: a filtered run is not compared with unit\n")
        return 0
    unit = latest_complete(results.parent / "unit", scalar.source)
    if unit is None:
        sys.stderr.write("apphost: scalar: there is no unit report of this source to compare with\n")
        return FAILED
    differences = compare(unit, scalar)
    for difference in differences[:100]:
        sys.stderr.write(f"apphost: scalar: {difference}\n")
    return FAILED if differences else 0


def _conclude(report: Report, status: int) -> None:
    failed = report.count("failed") + report.count("skipped")
    word = "partial" if report.partial else "ok" if status == 0 else "FAILED"
    counts = f"{report.count('passed')} passed, {failed} failed"
    sys.stdout.write(f"{report.suite}: {counts} in {report.seconds:.1f} s: {word}\n")
    sys.stdout.flush()
