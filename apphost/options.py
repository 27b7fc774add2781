"""The options of the app host, read and refused before anything starts (CLI-17, CLI-18)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

SUITES = ("unit", "scalar", "recovery", "rf3")
MEASUREMENTS = (
    "ram",
    "bench",
    "failover",
    "background",
    "catchup",
    "credentials",
    "leftovers",
    "hostile",
    "stages",
)
MAX_TEXT = 4096
FEWEST_TRIALS, MOST_TRIALS = 100, 100_000


class OptionError(Exception):
    """The options do not fit together; the text says why (exit 2)."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the app host shall do. Without suite and measurement it runs the ordinary cluster."""

    suite: str | None = None
    measure: str | None = None
    ephemeral: bool = False
    results_directory: Path | None = None
    filter: str | None = None
    report_junit: Path | None = None
    coverage: bool = False
    write_document: bool = False
    trials: int | None = None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise OptionError(message)


def parser() -> argparse.ArgumentParser:
    """All options with their help."""
    made = _Parser(
        prog="apphost",
        description="Starts three nodes on this machine, or runs one suite or measurement.",
        allow_abbrev=False,
    )
    made.add_argument("--suite", metavar="NAME", help=f"run one suite: {', '.join(SUITES)}")
    made.add_argument("--measure", metavar="NAME", help=f"measure and print: {', '.join(MEASUREMENTS)}")
    made.add_argument("--ephemeral", action="store_true", help="free ports and a directory that is removed")
    made.add_argument("--results-directory", metavar="DIR", help="default test-results/<suite>")
    made.add_argument("--filter", metavar="TEXT", help="only matching cases (pytest -k); proves no suite")
    made.add_argument("--report-junit", metavar="FILE", help="write a JUnit report there too")
    made.add_argument("--coverage", action="store_true", help="measure which lines the suite runs")
    made.add_argument(
        "--trials", metavar="N", type=int, help="kills of the recovery suite; default 100 or so"
    )
    made.add_argument("--write-document", action="store_true", help="put measured tables into docs/")
    return made


def read(arguments: Sequence[str]) -> Options:
    """Options in order, each text checked; raises OptionError."""
    for argument in arguments:
        if len(argument) > MAX_TEXT or "\0" in argument:
            raise OptionError(f"an option is longer than {MAX_TEXT} characters or holds NUL")
    given = parser().parse_args(list(arguments))
    for name in ("suite", "measure", "results_directory", "filter", "report_junit"):
        if getattr(given, name) == "":
            raise OptionError(f"--{name.replace('_', '-')} is empty")
    options = Options(
        suite=given.suite,
        measure=given.measure,
        ephemeral=given.ephemeral,
        results_directory=Path(given.results_directory) if given.results_directory else None,
        filter=given.filter,
        report_junit=Path(given.report_junit) if given.report_junit else None,
        coverage=given.coverage,
        write_document=given.write_document,
        trials=given.trials,
    )
    _check(options)
    return options


def _check(options: Options) -> None:
    if options.suite is not None and options.suite not in SUITES:
        raise OptionError(f"there is no suite of that name; there are {', '.join(SUITES)}")
    if options.measure is not None and options.measure not in MEASUREMENTS:
        raise OptionError(f"there is no measurement of that name; there are {', '.join(MEASUREMENTS)}")
    if options.suite and options.measure:
        raise OptionError("--suite and --measure exclude each other")
    if not options.suite and (options.filter or options.report_junit or options.coverage):
        raise OptionError("--filter, --report-junit and --coverage need --suite")
    if options.trials is not None:
        if options.suite != "recovery":
            raise OptionError("--trials is for --suite=recovery")
        if not FEWEST_TRIALS <= options.trials <= MOST_TRIALS:
            raise OptionError(f"--trials must be from {FEWEST_TRIALS} to {MOST_TRIALS}")
    if options.ephemeral and (options.suite or options.measure):
        raise OptionError("--ephemeral is for the ordinary cluster")
    if options.write_document and not options.measure:
        raise OptionError("--write-document needs --measure")
    if options.results_directory is not None and not (options.suite or options.measure):
        raise OptionError("--results-directory needs --suite or --measure")
