"""`python -m harness fuzz [TARGET] --minutes M`: looks for inputs that break what a target states.

It needs the extra `fuzz`. What was found is kept in `harness/fuzz/corpus`: a finding fails the unit suite
until it is mended.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from harness.fuzz.corpus import MAX_INPUT_BYTES, Corpus, corpus_of
from harness.fuzz.targets import TARGETS

INPUT_SECONDS = 10
MEMORY_MIB = 2048
_GRACE_SECONDS = 120.0
_RUNS = re.compile(rb"stat::number_of_executed_units: +(\d+)")
_ARTIFACT = "finding-"


class Outcome(msgspec.Struct, frozen=True):
    """How a run of one target went."""

    executions: int
    found: list[bytes]
    findings: list[bytes]
    output: bytes


def add_command(commands: Any) -> None:
    """Add `fuzz` to the subcommands of a parser."""
    parser: argparse.ArgumentParser = commands.add_parser("fuzz", help="inputs led by coverage")
    parser.add_argument("target", nargs="?", choices=sorted(TARGETS), help="one target (default: all)")
    parser.add_argument("--minutes", type=float, default=10.0, help="time for each target")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Exit code 0 when nothing was found, 2 when the fuzzer is not installed."""
    if find_spec("atheris") is None:
        sys.stderr.write("fuzz needs atheris: pip install -c constraints.txt -e '.[dev,fuzz]'\n")
        return 2
    names = sorted(TARGETS) if options.target is None else [options.target]
    return max(_fuzz(name, options.minutes) for name in names)


def _fuzz(name: str, minutes: float) -> int:
    corpus = corpus_of(name)
    before = len(corpus.others)
    outcome = explore(name, corpus, minutes * 60)
    for data in outcome.findings:
        corpus.add_finding(data)
    if not outcome.findings:
        corpus.choose(TARGETS[name].check, [*TARGETS[name].seeds(), *outcome.found])
    corpus.write()
    kept = f"{len(corpus.others)} inputs kept (before: {before})"
    print(f"{name}: {outcome.executions} executions, {len(outcome.findings)} findings, {kept}", flush=True)
    if outcome.findings:
        sys.stderr.write(outcome.output.decode(errors="replace")[-4000:])
    return int(bool(outcome.findings))


def explore(name: str, corpus: Corpus, seconds: float) -> Outcome:
    """Run one target in a process of its own, at the longest until its first finding."""
    with tempfile.TemporaryDirectory(prefix="keyload-fuzz-", dir=_memory()) as folder:
        inputs, artifacts, temporary = (Path(folder, name) for name in ("inputs", "artifacts", "temporary"))
        for path in (inputs, artifacts, temporary):
            path.mkdir()
        for number, data in enumerate([*TARGETS[name].seeds(), *corpus.inputs]):
            (inputs / f"seed-{number}").write_bytes(data)
        command = [
            *(sys.executable, "-m", "harness.fuzz.engine", name, str(artifacts), str(inputs)),
            f"-max_total_time={max(1, round(seconds))}",
            f"-max_len={MAX_INPUT_BYTES}",
            f"-timeout={INPUT_SECONDS}",
            f"-rss_limit_mb={MEMORY_MIB}",
            f"-artifact_prefix={artifacts}/{_ARTIFACT}",
            "-print_final_stats=1",
        ]
        done = subprocess.run(
            command,
            env={**os.environ, "TMPDIR": str(temporary)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds + _GRACE_SECONDS,
            check=False,
        )
        findings = [path.read_bytes() for path in sorted(artifacts.iterdir())]
        if done.returncode and not findings:
            raise RuntimeError(f"the fuzzer failed:\n{done.stdout.decode(errors='replace')[-4000:]}")
        runs = _RUNS.search(done.stdout)
        found = [path.read_bytes() for path in sorted(inputs.iterdir())]
        return Outcome(int(runs[1]) if runs else 0, found, findings, done.stdout)


def _memory() -> Path | None:
    """Where files are in memory; None for the ordinary place of temporary files."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else None
