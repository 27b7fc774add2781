"""Processes that make trials side by side: trials go in as lines of JSON, results come out as lines."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec


class Maker:
    """A process that makes trials, at most `seconds` long; its input, output and log are files beside each
    other."""

    def __init__(
        self, module: str, planned: Sequence[msgspec.Struct], files: Path, *, seconds: float
    ) -> None:
        self._output = files.with_suffix(".out")
        self._seconds = seconds
        wanted = files.with_suffix(".in")
        wanted.write_bytes(b"\n".join(msgspec.json.encode(trial) for trial in planned) + b"\n")
        with (
            wanted.open("rb") as source,
            self._output.open("wb") as target,
            files.with_suffix(".log").open("wb") as log,
        ):
            command = [sys.executable, "-m", module]
            self.process = subprocess.Popen(command, stdin=source, stdout=target, stderr=log)

    def lines(self) -> list[str]:
        """What it made, once it is done."""
        self.process.wait(self._seconds)
        return self._output.read_text(encoding="utf-8").splitlines()


@contextmanager
def ended(makers: Sequence[Maker]) -> Iterator[None]:
    """Leaving ends the makers that still work."""
    try:
        yield
    finally:
        for maker in makers:
            maker.process.kill()
            maker.process.wait()
