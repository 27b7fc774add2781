"""The code of the README does what the README says, on a real cluster (TST-28)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cluster import Cluster
from harness.evidence import ROOT

_BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXPECTED = (
    "nodeId",
    "hello",
    '"revision":1',
    '"commandId":"6f1f6a52',
    '"openapi":"3.1',
    '"nodeId"',
    '"position"',
    '"signingKeyFile"',
)


def blocks() -> list[tuple[str, str]]:
    """Language and text of every block of code, in order."""
    return _BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.covers("TST-28")
def test_the_blocks_of_the_readme_run_in_order(cluster: Cluster) -> None:
    assert len(blocks()) == len(EXPECTED)
    environment = os.environ | {
        "KEYLOAD_API_KEY": cluster.key,
        "PYTHONPATH": str(ROOT),
    }
    for (language, text), expected in zip(blocks(), EXPECTED, strict=True):
        for number, url in enumerate(cluster.urls, 1):
            text = text.replace(f"http://127.0.0.1:510{number}", url)
        text = text.replace("data/cluster", str(cluster.directory))
        text = text.replace(".venv/bin", str(Path(sys.executable).parent))
        command = [sys.executable, "-c", text] if language == "python" else ["bash", "-euc", text]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, cwd=ROOT)
        assert done.returncode == 0, done.stderr + done.stdout
        assert expected in done.stdout.replace(": ", ":"), (text, done.stdout)
