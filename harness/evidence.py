"""The report of one suite run: every case with its outcome, and under which conditions it ran (TST-27).

A run leaves `report.json` in a directory of its own; nothing is ever overwritten (TST-29). `compare` holds a
`scalar` report against a `unit` report (TST-7, TST-8).
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent
MAX_FAILURES = 32
MAX_FAILURE_LINES = 80
MAX_FAILURE_BYTES = 8192
_SOURCE_FOLDERS = ("keyload", "harness", "apphost", "tests")


class Case(msgspec.Struct, frozen=True):
    """One test: `outcome` is passed, failed or skipped; `digest` covers what it showed to `observe`."""

    id: str
    outcome: str
    seconds: float
    covers: tuple[str, ...] = ()
    digest: str | None = None


class Failure(msgspec.Struct, frozen=True):
    """Why a case failed, shortened (TST-24)."""

    id: str
    text: str


class Report(msgspec.Struct, kw_only=True):
    """What one run proves. A run with a filter is `partial` and proves no suite (TST-25)."""

    suite: str
    started: str
    seconds: float
    source: str
    revision: str | None
    command: list[str]
    partial: bool
    exit_status: int
    machine: dict[str, str]
    cases: list[Case]
    failures: list[Failure]

    def count(self, outcome: str) -> int:
        """How many cases had this outcome."""
        return sum(case.outcome == outcome for case in self.cases)


def shortened(text: str) -> str:
    """The end of a failure text, at most 80 lines and 8 KiB (TST-24)."""
    lines = text.splitlines()[-MAX_FAILURE_LINES:]
    return "\n".join(lines).encode()[-MAX_FAILURE_BYTES:].decode(errors="ignore")


def kept_failures(failures: list[Failure]) -> list[Failure]:
    """The first 32 and the latest one (TST-24)."""
    return failures if len(failures) <= MAX_FAILURES else [*failures[:MAX_FAILURES], failures[-1]]


def source_digest(root: Path = ROOT) -> str:
    """SHA-256 over all Python files, so that two reports of one source can be told from others."""
    digest = hashlib.sha256()
    for folder in _SOURCE_FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(root)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def revision(root: Path = ROOT) -> str | None:
    """The commit, with a plus sign when files differ from it; None outside a checkout."""
    try:
        head = _git(root, "rev-parse", "HEAD")
        return head + ("+" if _git(root, "status", "--porcelain") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=root, check=True, capture_output=True, text=True, timeout=30
    ).stdout.strip()


def machine() -> dict[str, str]:
    """What a number was measured on (TST-27)."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def run_directory(results: Path) -> Path:
    """A new directory for one run, named by its start in UTC."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    directory = results / stamp
    directory.mkdir(parents=True)
    return directory


def latest_complete(results: Path, source: str) -> Report | None:
    """The newest report of a whole suite that passed on this source, None when there is none."""
    for path in sorted(results.glob("*/report.json"), reverse=True):
        report = msgspec.json.decode(path.read_bytes(), type=Report)
        if not report.partial and report.exit_status == 0 and report.source == source:
            return report
    return None


def compare(unit: Report, scalar: Report) -> list[str]:
    """What differs between the two modes: ids, outcomes or observed bytes (TST-7, TST-8)."""
    left = {case.id: case for case in unit.cases}
    right = {case.id: case for case in scalar.cases}
    differences = [f"only in unit: {case}" for case in sorted(left.keys() - right.keys())]
    differences += [f"only in scalar: {case}" for case in sorted(right.keys() - left.keys())]
    for case in sorted(left.keys() & right.keys()):
        a, b = left[case], right[case]
        if a.outcome != b.outcome:
            differences.append(f"{case}: {a.outcome} in unit, {b.outcome} in scalar")
        elif a.digest != b.digest:
            differences.append(f"{case}: observable output differs")
    return differences
