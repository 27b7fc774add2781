"""The guide of the library: its program runs and prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.covers("GTW-1", "GTW-40")
def test_the_program_of_the_guide_prints_what_it_says() -> None:
    text = (ROOT / "docs/gateway.md").read_text(encoding="utf-8")
    program, printed = re.findall(r"^```(?:python)?\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == printed
