"""The door that adds a key, and the judgement over a run of the conformance suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.bearer import with_key
from harness.cluster import HarnessError
from harness.conformance import installing
from harness.conformance.running import Baseline, Check


def test_a_head_gets_the_key_and_the_address_of_the_node() -> None:
    head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:9\r\nauthorization: Bearer other\r\nConnection: x\r\n\r\n"
    expected = [b"POST /mcp HTTP/1.1", b"Host: 127.0.0.1:5101", b"Authorization: Bearer k.s"]
    seen = with_key(head, "k.s", b"127.0.0.1:9", b"127.0.0.1:5101")
    assert seen == b"\r\n".join([*expected, b"Connection: close"]) + b"\r\n\r\n"
    foreign = with_key(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "k.s", b"127.0.0.1:9", b"x")
    assert b"Host: evil.example\r\n" in foreign


def test_what_fails_without_a_reason_and_a_reason_without_a_failure_are_findings(tmp_path: Path) -> None:
    path = tmp_path / "baseline.toml"
    path.write_text('[[group]]\nreason = "because"\nchecks = ["a/1", "a/2"]\n')
    baseline = Baseline(path)
    skipped = Check("b/1", "SKIPPED", "")
    checks = [Check("a/1", "FAILURE", "no"), Check("a/2", "SUCCESS", ""), skipped, Check("b/2", "INFO", "")]
    assert baseline.unexplained(checks) == [skipped]
    assert baseline.unused == {"a/2"}


@pytest.mark.parametrize("groups", ['reason = ""\nchecks = ["a"]', 'reason = "b"\nchecks = ["a", "a"]'])
def test_every_named_check_has_one_reason(tmp_path: Path, groups: str) -> None:
    path = tmp_path / "baseline.toml"
    path.write_text(f"[[group]]\n{groups}\n")
    with pytest.raises(HarnessError, match="one reason for a"):
        Baseline(path)


def test_the_baseline_of_the_repository_has_reasons() -> None:
    assert len(Baseline().unused) > 40


def test_without_node_the_failure_says_what_to_install() -> None:
    assert installing.node().exists()
    with pytest.raises(HarnessError, match="install the development packages"):
        installing._of_node("bin", "nothing-of-this-name")


def test_what_npm_says_is_shown_when_it_fails(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text("no JSON")
    with pytest.raises(HarnessError, match=r"(?s)npm could not install.*npm (error|ERR)"):
        installing._npm("ci", "--offline", folder=tmp_path)
