"""`keyload cluster replace` against a server that plays a script (CLU-19, CLI-1..CLI-4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keyload.cli.main import main
from keyload.contract.errors import ErrorCode
from tests.unit.client.servers import ScriptedServer, problem, reply

ENTRY = {"id": "node4", "publicEndpoint": "x", "peerAddress": "y", "publicKey": "z"}
PAIR = {"node": "node2", "with": "node4"}


def progress(done: int, pair: Any = PAIR) -> dict[str, Any]:
    return {"replacing": pair, "shards": 4, "shardsDone": done, "voters": ["node1", "node4"]}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyload.cli.main._raise_on_signals", lambda: None)
    monkeypatch.setattr("keyload.cli.cluster._PAUSE_SECONDS", 0.0)
    monkeypatch.setenv("KEYLOAD_API_KEY", "root.secret")


@pytest.fixture
def entry(tmp_path: Path) -> str:
    path = tmp_path / "entry.json"
    path.write_text(json.dumps(ENTRY), encoding="utf-8")
    return str(path)


@pytest.mark.covers("CLU-19")
def test_progress_is_printed_until_it_is_done(entry: str, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [progress(0), progress(0), progress(3), progress(4, None)]
    script = [reply(200, json.dumps(step).encode()) for step in steps]
    script.insert(2, problem(ErrorCode.OWNERSHIP_LOST))
    with ScriptedServer(*script) as server:
        words = ["cluster", "replace", "node2", "--with", entry, "--url", server.address]
        assert main(words) == 0
        lines = [request.line.split(" ")[:2] for request in server.requests]
        assert [method for method, _ in lines] == ["POST", "GET", "GET", "GET", "GET"]
        assert {path for _, path in lines} == {"/admin/cluster/replace"}
        assert json.loads(server.requests[0].body) == {"node": "node2", "with": ENTRY}
        assert server.requests[0].headers["authorization"] == "Bearer root.secret"
    written = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert written == [steps[0], steps[2], steps[3]]


@pytest.mark.covers("CLU-19")
def test_an_exchange_that_others_withdrew_has_failed(entry: str, capsys: pytest.CaptureFixture[str]) -> None:
    end = progress(4, None) | {"voters": ["node1", "node2"]}
    script = (reply(200, json.dumps(step).encode()) for step in (progress(0), end))
    with ScriptedServer(*script) as server:
        assert main(["cluster", "replace", "node2", "--with", entry, "--url", server.address]) == 1
    assert "withdrawn" in json.loads(capsys.readouterr().err)["detail"]


@pytest.mark.covers("CLU-19")
def test_an_exchange_is_withdrawn(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [progress(0), progress(4, None)]
    with ScriptedServer(*(reply(200, json.dumps(step).encode()) for step in steps)) as server:
        assert main(["cluster", "keep", "--url", server.address]) == 0
        assert [request.line.split(" ")[0] for request in server.requests] == ["DELETE", "GET"]
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == steps


@pytest.mark.covers("CLU-19", "CLI-4")
def test_a_refusal_is_told_at_once(entry: str, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedServer(problem(ErrorCode.CONFLICT)) as server:
        assert main(["cluster", "replace", "node2", "--with", entry, "--url", server.address]) == 1
        assert len(server.requests) == 1
    assert json.loads(capsys.readouterr().err)["errorCode"] == "Conflict"


@pytest.mark.covers("CLU-19", "CLI-4")
@pytest.mark.parametrize("answer", [problem(ErrorCode.UNKNOWN_WRITE_OUTCOME), reply(200, b"{", length=9)])
def test_what_stays_uncertain_is_given_up_after_a_while(
    entry: str, answer: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keyload.cli.cluster.PATIENCE_SECONDS", 0.0)
    with ScriptedServer(answer, answer) as server:
        assert main(["cluster", "replace", "node2", "--with", entry, "--url", server.address]) == 1
    assert json.loads(capsys.readouterr().err)["errorCode"] in ("UnknownWriteOutcome", "OwnershipLost")


@pytest.mark.covers("CLI-1", "CLI-2", "CLI-3")
def test_files_keys_and_words_that_are_none(
    tmp_path: Path, entry: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in (("a", b"[]"), ("b", b"{"), ("c", b"x" * 65_537), ("missing", None)):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        assert main(["cluster", "replace", "node2", "--with", str(path)]) == 1
        assert str(path) in json.loads(capsys.readouterr().err)["detail"]
    for words in (["replace", "node2"], ["replace", "--with", entry], ["replace", "a", "b", "--with", entry]):
        assert main(["cluster", *words]) == 2
    assert main(["cluster", "replace", "node2", "--with", entry, "--url", "node"]) == 2
    capsys.readouterr()
    monkeypatch.setenv("KEYLOAD_API_KEY", "line\n")
    assert main(["cluster", "replace", "node2", "--with", entry]) == 1
    assert json.loads(capsys.readouterr().err)["errorCode"] == "Unauthenticated"
