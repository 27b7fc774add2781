"""Words, help and exit statuses of the command line (CLI-1..CLI-7)."""

from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from keyload.cli.announcement import lines, vs_code
from keyload.cli.commands import COMMANDS, UsageError, help_text, read
from keyload.cli.main import main
from keyload.node.ports import HOST, ordinary_ports
from keyload.node.profile import create
from tests.unit.node.test_configuration import SIGNING_KEY, alone


def keyload(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KEYLOAD_API")}
    return subprocess.run(
        [sys.executable, "-m", "keyload.cli", *words],
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.covers("CLI-2")
@pytest.mark.parametrize("words", [[], ["help"], ["--help"], ["-h"], ["key", "create", "--help"]])
def test_help_is_a_success(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    written = capsys.readouterr()
    assert written.out == help_text()
    assert written.err == ""
    assert all(command.usage in written.out for command in COMMANDS)


@pytest.mark.covers("CLI-2")
@pytest.mark.parametrize(
    "words",
    [
        ["unknown"],
        ["key"],
        ["key", "make"],
        ["key", "create"],
        ["key", "create", "a", "b"],
        ["key", "create", ""],
        ["status"],
        ["status", "a", "b", "c"],
        ["status", "--settings", "x"],
        ["serve"],
        ["serve", "x"],
        ["serve", "--settings"],
        ["serve", "--settings", "a", "--settings", "b"],
        ["dev", "--nodes", "2"],
        ["dev", "--nodes="],
        ["status", "a" * 4097],
        ["status", "no url"],
    ],
)
def test_wrong_words_print_help_on_standard_error(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keyload.cli.main._raise_on_signals", lambda: None)
    assert main(words) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith(help_text())
    assert written.err.removeprefix(help_text()).strip()


@pytest.mark.covers("CLI-2")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["stats"], "Did you mean 'status'?"),
        (["key", "revok"], "Did you mean 'key revoke'?"),
        (["clutser", "replace"], "Did you mean 'cluster replace'?"),
        (["zzz"], "There is no command 'zzz'."),
        (["key", "revoke"], "Usage: keyload key revoke <key id>"),
    ],
)
def test_a_slip_is_named_with_what_was_meant(words: list[str], says: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(words)
    assert says in str(raised.value)


@pytest.mark.covers("CLI-2")
def test_options_are_read_in_both_forms() -> None:
    for words in (["key", "create", "p", "--url", "u"], ["key", "create", "--url=u", "p"]):
        command, rest = read(words)
        assert command.words == ("key", "create")
        assert (rest.operands, rest.options) == (("p",), {"--url": "u"})
    with pytest.raises(UsageError):
        read(["key", "create", "p", "--url"])


@pytest.mark.covers("CLI-1", "CLI-3", "CLI-4")
def test_no_key_and_no_node_are_told_apart() -> None:
    with socket.socket() as unused:
        unused.bind((HOST, 0))
        url = f"http://{HOST}:{unused.getsockname()[1]}"
        no_key = keyload("status", url)
        no_node = keyload("status", url, KEYLOAD_API_KEY="root.nothing")
        no_profile = keyload("status", url, "missing.json")
    for done in (no_key, no_node, no_profile):
        assert (done.returncode, done.stdout) == (1, "")
    problems = [json.loads(done.stderr) for done in (no_key, no_node, no_profile)]
    assert "KEYLOAD_API_KEY" in problems[0]["detail"]
    assert problems[1]["detail"].endswith("cannot be reached.")
    assert "missing.json" in problems[2]["detail"]
    assert "nothing" not in no_node.stderr


@pytest.mark.covers("CLI-1")
def test_a_problem_is_readable_on_a_terminal_and_still_one_object() -> None:
    reader, writer = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "keyload.cli", "status", "http://127.0.0.1:5101", "missing.json"],
        env={name: value for name, value in os.environ.items() if not name.startswith("KEYLOAD_API")},
        stderr=writer,
        timeout=60,
        check=False,
    )
    os.close(writer)
    shown = os.read(reader, 65_536).decode().replace("\r\n", "\n")
    os.close(reader)
    assert done.returncode == 1
    problem = json.loads(shown)
    assert shown == json.dumps(problem, indent=2, ensure_ascii=False) + "\n"
    assert problem["retry"] == "never"


@pytest.mark.covers("CLI-1", "CLI-4")
@pytest.mark.parametrize("key", ["", "line\n"])
def test_a_key_that_cannot_be_sent_is_not_called_a_lost_majority(key: str) -> None:
    done = keyload("status", "http://127.0.0.1:5101", KEYLOAD_API_KEY=key)
    assert done.returncode == 1
    assert json.loads(done.stderr)["errorCode"] == "Unauthenticated"


@pytest.mark.covers("CLI-10", "CLU-5")
def test_serve_refuses_wrong_settings_before_a_file_is_opened(tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    data = tmp_path / "data"
    settings.write_text(json.dumps(alone(dataDirectory=str(data), workers=0)), encoding="utf-8")
    done = keyload("serve", "--settings", str(settings))
    assert done.returncode == 2
    assert done.stderr.startswith("Setting workers: ")
    assert len(done.stderr.splitlines()) == 1
    assert SIGNING_KEY not in done.stderr
    assert not data.exists()


def test_an_announcement_tells_addresses_key_and_clients() -> None:
    profile = create(ordinary_ports(3))
    told = dict(lines(profile))
    assert told["node2"] == "http://127.0.0.1:5102"
    assert told["administrator key"] == profile.admin_key
    assert profile.admin_key in told["Claude Code"]
    server = json.loads(vs_code(profile))["servers"]["keyload"]
    assert server["url"] == "http://127.0.0.1:5101/mcp"
    assert server["headers"]["Authorization"] == f"Bearer {profile.admin_key}"
