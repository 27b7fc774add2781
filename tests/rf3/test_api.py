"""Generated requests against a real node, held to the OpenAPI document it serves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.api import run_cases
from harness.cluster import Cluster
from harness.seeds import VARIABLE
from keyload.contract.operations import OPERATIONS

CASES = 500


@pytest.mark.covers(
    "HTTP-1", "HTTP-5", "HTTP-8", "HTTP-16", "HTTP-17", "HTTP-18", "SEC-1", "CON-48", "CON-49"
)
def test_every_answer_is_as_the_document_says(tmp_path: Path, seed: int) -> None:
    """A node of its own: what is generated must not meet what other tests of the suite have made."""
    sys.stdout.write(f"{VARIABLE}={seed}\n")
    with Cluster(tmp_path, nodes=1) as node:
        findings = run_cases(node.urls[0], node.key, CASES, seed)
    text = "\n".join(findings.lines())
    sys.stdout.write(text)
    assert not findings.failures, text
    assert findings.cases >= CASES * 3 // 4
    assert findings.operations.keys() == OPERATIONS.keys()
