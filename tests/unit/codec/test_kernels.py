"""Which kernel forms are active, and that both checksums agree (TST-6, TST-9)."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyload.codec import checksums
from tests.unit.codec.support import bounded

ROOT = Path(__file__).parents[3]
NAMES = {"canonical json", "checksum", "json", "key encoding", "messagepack"}
PROGRAM = """
from keyload.codec import checksums, decoding, kernels, packing, tuples
import msgpack
form = kernels.active()
assert msgpack.Packer.__module__ == ("msgpack.fallback" if kernels.SCALAR else "msgpack._cmsgpack")
raise SystemExit(";".join(f"{name}={form[name]}" for name in form))
"""


def _forms(scalar: str) -> dict[str, str]:
    """What a fresh process says of its kernels."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "KEYLOAD_SCALAR": scalar},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return dict(part.split("=") for part in run.stderr.strip().split(";"))


@pytest.mark.covers("TST-6", "TST-9")
def test_scalar_mode_selects_every_reference() -> None:
    assert _forms("1") == dict.fromkeys(NAMES, "reference")


@pytest.mark.covers("TST-9")
def test_no_kernel_falls_back_silently() -> None:
    forms = _forms("0")
    assert set(forms) == NAMES
    assert "reference" not in forms.values()


@pytest.mark.covers("TST-8")
@bounded
@given(st.binary(max_size=200), st.integers(0, 2**32 - 1))
def test_both_checksums_agree(data: bytes, start: int) -> None:
    assert checksums.reference_crc32(data, start) == zlib.crc32(data, start) == checksums.crc32(data, start)
    assert checksums.reference_crc32(memoryview(data)) == checksums.crc32(bytearray(data))
