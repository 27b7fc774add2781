"""The conformance suite of MCP against a node, in both eras of the protocol (MCP-1, MCP-2)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from harness.bearer import bearer_door
from harness.cluster import Cluster
from harness.conformance.running import REVISIONS, Baseline, Check, run

SERVED = {
    "2025-06-18": {"server-initialize", "ping", "tools-list", "resources-list", "prompts-list"},
    "2025-11-25": {"server-initialize", "ping", "tools-list", "resources-list", "prompts-list"}
    | {"dns-rebinding-protection"},
    "2026-07-28": {"tools-list", "resources-list", "prompts-list", "caching", "http-header-validation"}
    | {"server-stateless", "sep-2164-resource-not-found", "dns-rebinding-protection"},
}
"""Scenarios that must have run: they test what a server without tools of the suite's own can show."""


@pytest.mark.covers("MCP-1", "MCP-2", "MCP-3", "TST-13")
def test_a_node_conforms_to_both_eras_of_the_protocol(cluster: Cluster, tmp_path: Path) -> None:
    baseline = Baseline()
    kept = Path(os.environ.get("KEYLOAD_RESULTS", tmp_path), "conformance")

    async def main() -> list[str]:
        findings: list[str] = []
        async with bearer_door(cluster.urls[0], cluster.key) as door:
            for revision in REVISIONS:
                name = f"{revision.version}-{revision.package}"
                checks = await run(revision, f"{door}/mcp", kept / name)
                findings += [f"{name}: {check}" for check in baseline.unexplained(checks)]
                missing = SERVED[revision.version] - passed_in(checks)
                findings += [f"{name}: nothing of {scenario} has passed" for scenario in sorted(missing)]
        return findings

    assert asyncio.run(main()) == []
    assert baseline.unused == set()


def passed_in(checks: list[Check]) -> set[str]:
    """The scenarios of which a check has passed."""
    return {check.name.partition("/")[0] for check in checks if check.status == "SUCCESS"}
