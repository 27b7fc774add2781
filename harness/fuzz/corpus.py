"""The inputs kept in the repository: one file for each target, one input a line in base64.

An input stays when it reaches a line of the product that no smaller one reaches, or when it was a finding.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from harness.evidence import ROOT

FOLDER = Path(__file__).parent / "corpus"
MAX_INPUT_BYTES = 8192
MAX_INPUTS = 200
_FINDING = "! "
_PRODUCT = str(ROOT / "keyload")

Arc = tuple[CodeType, int, int]
"""Two lines of one function that ran one after the other."""


class Corpus:
    """What is kept for one target."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
        self.findings = [_input(line.removeprefix(_FINDING)) for line in lines if line.startswith(_FINDING)]
        self.others = [_input(line) for line in lines if not line.startswith(_FINDING)]

    @property
    def inputs(self) -> list[bytes]:
        """Everything that is kept."""
        return [*self.findings, *self.others]

    def add_finding(self, data: bytes) -> None:
        """Keep an input that broke the invariant, for good."""
        if data not in self.findings:
            self.findings.append(data)

    def choose(self, check: Callable[[bytes], None], found: Iterable[bytes]) -> None:
        """Keep of the present inputs and those found the ones that reach something new, the smallest
        first."""
        reached: set[Arc] = set()
        chosen: list[bytes] = []
        candidates = {data for data in (*self.others, *found) if len(data) <= MAX_INPUT_BYTES}
        for data in sorted(candidates, key=lambda data: (len(data), data)):
            arcs = arcs_of(check, data)
            if not arcs <= reached and len(chosen) < MAX_INPUTS:
                reached |= arcs
                chosen.append(data)
        self.others = chosen

    def write(self) -> None:
        """Put it on disk."""
        lines = [_FINDING + _text(data) for data in self.findings] + [_text(data) for data in self.others]
        self._path.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


def corpus_of(name: str) -> Corpus:
    """What the repository keeps for a target."""
    return Corpus(FOLDER / f"{name}.txt")


def arcs_of(check: Callable[[bytes], None], data: bytes) -> set[Arc]:
    """What an input reaches in the product."""
    arcs: set[Arc] = set()

    def begin(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(_PRODUCT):
            return None
        last = 0

        def step(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal last
            if event == "line":
                arcs.add((code, last, frame.f_lineno))
                last = frame.f_lineno
            return step

        return step

    before = sys.gettrace()
    sys.settrace(begin)
    try:
        check(data)
    finally:
        sys.settrace(before)
    return arcs


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _input(line: str) -> bytes:
    return base64.b64decode(line, validate=True)
