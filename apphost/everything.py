"""`make test`: the four suites, then format, lint and types; stops at the first that fails (TST-31)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec

from apphost.options import SUITES
from apphost.suites import FAILED, RESULTS
from harness.evidence import ROOT, Report

_CHECKS = (
    ("format", ("ruff", "format", "--check", ".")),
    ("lint", ("ruff", "check", ".")),
    ("types", ("pyright", "--pythonpath", sys.executable)),
)


def main() -> int:
    """Run everything; 0 only when all of it passed."""
    lines: list[str] = []
    passed = failed = status = 0
    for suite in SUITES:
        started = time.monotonic()
        former = _reports(suite)
        status = _run("apphost", f"--suite={suite}")
        report = next((_read(path) for path in sorted(_reports(suite) - former)), None)
        passed += report.count("passed") if report else 0
        failed += report.count("failed") + report.count("skipped") if report else 0
        lines.append(_line(suite, status, time.monotonic() - started))
        if status:
            break
    for name, command in () if status else _CHECKS:
        started = time.monotonic()
        status = _run(*command)
        lines.append(_line(name, status, time.monotonic() - started))
        if status:
            break
    if status and not failed:
        failed = 1  # what failed was no case, but it failed
    sys.stdout.write("\n" + "\n".join(lines) + f"\n{passed} passed, {failed} failed\n")
    return FAILED if status else 0


def _run(module: str, *arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, check=False).returncode


def _reports(suite: str) -> set[Path]:
    return set((ROOT / RESULTS / suite).glob("*/report.json"))


def _read(path: Path) -> Report:
    return msgspec.json.decode(path.read_bytes(), type=Report)


def _line(name: str, status: int, seconds: float) -> str:
    return f"{name:<9} {'ok' if status == 0 else 'FAILED':<7} {seconds:7.1f} s"


if __name__ == "__main__":
    sys.exit(main())
