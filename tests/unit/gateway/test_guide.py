"""The guide of the library: its program runs and prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


PARTS = re.findall(
    r"^```(?:python)?\n(.*?)^```$",
    (ROOT / "docs/gateway.md").read_text(encoding="utf-8"),
    re.DOTALL | re.MULTILINE,
)


@pytest.mark.covers("GTW-1", "GTW-4", "GTW-28", "GTW-36", "GTW-40")
@pytest.mark.parametrize(
    ("program", "printed"), list(zip(PARTS[::2], PARTS[1::2], strict=True)), ids=["functions", "servers"]
)
def test_a_program_of_the_guide_prints_what_it_says(program: str, printed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == printed


def test_the_guide_has_programs() -> None:
    assert len(PARTS) == 4
