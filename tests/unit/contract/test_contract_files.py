"""The written contract is consistent in itself and the same as the shared one beside the checkout."""

from __future__ import annotations

import filecmp
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_contract_check_prints_ok() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "contract" / "check.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.stdout.strip(), run.returncode) == ("ok", 0)


@pytest.mark.parametrize("folder", ["spec", "contract"])
def test_the_shared_folder_is_the_same_where_there_is_one(folder: str) -> None:
    shared, own = ROOT.parent / "shared" / folder, ROOT / "docs" / folder
    names = {path.name for path in own.iterdir() if path.is_file()}
    assert names
    if shared.is_dir():
        assert {path.name for path in shared.iterdir() if path.is_file()} == names
        assert filecmp.cmpfiles(own, shared, sorted(names), shallow=False) == (sorted(names), [], [])
