"""The pytest side of a report: collects every case, refuses skipped ones, writes it (TST-21, TST-25)."""

from __future__ import annotations

import hashlib
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.evidence import (
    Case,
    Failure,
    Report,
    kept_failures,
    machine,
    revision,
    shortened,
    source_digest,
)

COVERS = "covers"
OBSERVED = "observed"


class Observation:
    """Digest of what one case shows to the outside, in the order shown (TST-8)."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.used = False

    def __call__(self, value: Any) -> None:
        """Take a value into the digest: bytes as they are, anything else by its MessagePack form."""
        content = value if isinstance(value, bytes) else msgspec.msgpack.encode(value)
        self._digest.update(len(content).to_bytes(8, "big") + content)
        self.used = True

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


def covered_ids(item: pytest.Item) -> list[str]:
    """Requirement ids named by the test and by what encloses it."""
    return sorted({text for mark in item.iter_markers("covers") for text in mark.args})


class SuiteReport:
    """Plugin of the process that decides: with xdist the controller, else the only one."""

    def __init__(self, path: Path, suite: str, partial: bool) -> None:
        self._path = path
        self._suite = suite
        self._partial = partial
        self._started = datetime.now(UTC)
        self._clock = time.monotonic()
        self._cases: dict[str, Case] = {}
        self._failures: list[Failure] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._note(report.nodeid, "failed", 0.0, {}, report.longreprtext)
        elif report.skipped:
            self._note(report.nodeid, "skipped", 0.0, {}, str(report.longrepr))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        skipped = report.skipped or hasattr(report, "wasxfail")
        outcome = "skipped" if skipped else report.outcome
        properties: dict[str, Any] = dict(report.user_properties)
        self._note(report.nodeid, outcome, report.duration, properties, report.longreprtext)

    def _note(self, case: str, outcome: str, seconds: float, properties: dict[str, Any], text: str) -> None:
        if outcome != "passed":
            self._failures.append(Failure(case, shortened(text) if outcome == "failed" else "skipped"))
        elif case in self._cases:
            return
        covers = tuple(properties.get(COVERS, ()))
        self._cases[case] = Case(case, outcome, round(seconds, 4), covers, properties.get(OBSERVED))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if any(case.outcome == "skipped" for case in self._cases.values()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        report = Report(
            suite=self._suite,
            started=self._started.isoformat(),
            seconds=round(time.monotonic() - self._clock, 3),
            source=source_digest(),
            revision=revision(),
            command=sys.argv,
            partial=self._partial,
            exit_status=int(session.exitstatus),
            machine=machine(),
            cases=list(self._cases.values()),
            failures=kept_failures(self._failures),
        )
        self._path.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
