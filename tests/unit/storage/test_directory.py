"""Who may open a node's directory, and whose it is."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import Guard, Identity, NodeDirectory
from keyload.storage.directory import FORMATS, kept_numbers
from tests.unit.storage.log_model import SEGMENT_BYTES, open_log
from tests.unit.storage.support import INCARNATION

IDENTITY = Identity(INCARNATION, "node-1", Guard(("node-1", "node-2", "node-3"), 2, 6))


def establish(root: Path, identity: Identity = IDENTITY) -> None:
    with NodeDirectory(root) as directory:
        directory.establish(identity, segment_bytes=SEGMENT_BYTES)


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }


@pytest.mark.covers("STO-1")
def test_a_second_opener_is_refused_at_once(tmp_path: Path) -> None:
    with NodeDirectory(tmp_path / "node"):
        with pytest.raises(KeyLoadError) as caught:
            NodeDirectory(tmp_path / "node")
        assert caught.value.code == ErrorCode.CONFLICT
        script = "import sys, pathlib, keyload.storage as s\ns.NodeDirectory(pathlib.Path(sys.argv[1]))"
        other = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "node")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert other.returncode == 1
        assert "Conflict: The data directory is in use" in other.stderr
    NodeDirectory(tmp_path / "node").close()


@pytest.mark.covers("STO-1")
def test_the_lock_ends_with_the_last_process_that_inherited_it(tmp_path: Path) -> None:
    directory = NodeDirectory(tmp_path / "node")
    worker = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        pass_fds=[directory.lock_descriptor],
    )
    directory.close()
    with pytest.raises(KeyLoadError, match="Conflict"):
        NodeDirectory(tmp_path / "node")
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    NodeDirectory(tmp_path / "node").close()


@pytest.mark.covers("STO-2", "CLU-6")
def test_a_new_directory_is_private_and_has_everything_but_votes(tmp_path: Path) -> None:
    establish(tmp_path / "node")
    root = tmp_path / "node"
    assert sorted(tree(root)) == [
        "identity.json",
        "owner.lock",
        "worker-0/wal/0001.log",
        "worker-1/wal/0001.log",
    ]
    for path in [root, *root.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    with open_log(root / "worker-0" / "wal") as log:
        assert log.shards == []
    before = tree(root)
    establish(root)
    assert tree(root) == before


@pytest.mark.covers("CLU-6")
@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"incarnation": INCARNATION[::-1]}, "incarnation"),
        ({"node_id": "node-2"}, "node_id"),
        ({"guard": Guard(("node-2", "node-1", "node-3"), 2, 6)}, "guard"),
        ({"guard": Guard(IDENTITY.guard.voters, 3, 6)}, "guard"),
        ({"guard": Guard(IDENTITY.guard.voters, 2, 7)}, "guard"),
        ({"guard": Guard((), 2, 6)}, "guard"),
    ],
)
def test_another_identity_is_refused_by_name(tmp_path: Path, changed: dict[str, object], name: str) -> None:
    establish(tmp_path / "node")
    before = tree(tmp_path / "node")
    with pytest.raises(KeyLoadError, match=name) as caught:
        establish(tmp_path / "node", msgspec.structs.replace(IDENTITY, **changed))
    assert caught.value.code == ErrorCode.CONFLICT
    assert tree(tmp_path / "node") == before


def lose_identity(root: Path) -> None:
    (root / "identity.json").unlink()


def lose_log(root: Path) -> None:
    (root / "worker-1" / "wal" / "0001.log").unlink()


def cut_identity(root: Path) -> None:
    os.truncate(root / "identity.json", 50)


def empty_identity(root: Path) -> None:
    os.truncate(root / "identity.json", 0)


def lengthen_identity(root: Path) -> None:
    with (root / "identity.json").open("ab") as file:
        file.write(b" " * 4096)


def add_a_member(root: Path) -> None:
    path = root / "identity.json"
    path.write_bytes(msgspec.json.encode(msgspec.json.decode(path.read_bytes()) | {"other": 1}))


def no_workers(root: Path) -> None:
    path = root / "identity.json"
    path.write_bytes(path.read_bytes().replace(b'"workers": 2', b'"workers": 0'))


@pytest.mark.covers("CLU-6")
@pytest.mark.parametrize(
    "damage",
    [lose_identity, lose_log, cut_identity, empty_identity, lengthen_identity, add_a_member, no_workers],
)
def test_a_missing_or_malformed_guard_or_one_without_its_data_stops_the_start(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    root = tmp_path / "node"
    establish(root)
    damage(root)
    before = tree(root)
    with pytest.raises(KeyLoadError, match="Corruption"):
        establish(root)
    assert tree(root) == before


@pytest.mark.covers("STO-3")
def test_an_unknown_format_version_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "node"
    establish(root, msgspec.structs.replace(IDENTITY, formats=FORMATS | {"log": 2}))
    before = tree(root)
    with pytest.raises(KeyLoadError) as caught:
        establish(root)
    assert caught.value.code == ErrorCode.FORMAT_UNSUPPORTED
    assert tree(root) == before


@pytest.mark.covers("CLU-6")
def test_a_first_start_that_was_cut_short_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    real = {name: getattr(os, name) for name in ("fsync", "posix_fallocate")}

    def stop_at(number: int, name: str) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            nonlocal calls
            calls += 1
            if calls == number:
                raise KeyboardInterrupt
            return real[name](*arguments)

        return call

    for number in range(1, 40):
        calls = 0
        root = tmp_path / f"node-{number}"
        with monkeypatch.context() as patch:
            for name in real:
                patch.setattr(os, name, stop_at(number, name))
            try:
                establish(root)
            except KeyboardInterrupt:
                stopped = True
            else:
                stopped = False
        establish(root)
        assert "identity.json" in tree(root)
        if not stopped:
            return
    pytest.fail("the first start never came to its end")


@pytest.mark.covers("CLU-6")
def test_a_first_start_that_was_cut_short_does_not_go_on_as_another_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", stop)
        with pytest.raises(KeyboardInterrupt):
            establish(tmp_path / "node")
    with pytest.raises(KeyLoadError, match="Conflict"):
        establish(tmp_path / "node", msgspec.structs.replace(IDENTITY, incarnation=INCARNATION[::-1]))
    establish(tmp_path / "node")


def test_an_identity_over_4096_bytes_is_refused(tmp_path: Path) -> None:
    voters = tuple(f"node-{n:0200}" for n in range(21))
    with pytest.raises(KeyLoadError, match="Validation"):
        establish(tmp_path / "node", msgspec.structs.replace(IDENTITY, guard=Guard(voters, 1, 1)))
    assert sorted(tree(tmp_path / "node")) == ["owner.lock"]


@pytest.mark.covers("STO-2")
@pytest.mark.parametrize(
    "name", ["owner.lock", "identity.json", "worker-0/wal/0001.log", "worker-0/wal", "backups"]
)
def test_links_inside_are_refused(tmp_path: Path, name: str) -> None:
    root = tmp_path / "node"
    establish(root)
    path = root / name
    if path.exists():
        path.rename(tmp_path / "elsewhere")
    else:
        (tmp_path / "elsewhere").mkdir()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyLoadError, match=r"Corruption: .* link"):
        NodeDirectory(root)
    path.unlink()
    NodeDirectory(root).close()


def test_the_digest_is_that_of_the_cluster_not_of_the_node() -> None:
    assert IDENTITY.digest() == msgspec.structs.replace(IDENTITY, node_id="node-2").digest()
    assert IDENTITY.digest() != msgspec.structs.replace(IDENTITY, incarnation=INCARNATION[::-1]).digest()
    for guard in (Guard((), 3, 6), Guard((), 2, 7)):
        assert IDENTITY.digest() != msgspec.structs.replace(IDENTITY, guard=guard).digest()
    exchanged = Guard(("node-1", "node-4", "node-3"), 2, 6, (1, 4, 3))
    assert IDENTITY.digest() == msgspec.structs.replace(IDENTITY, guard=exchanged).digest()
    assert len(IDENTITY.digest()) == 32


EXCHANGED = Guard(("node-1", "node-4", "node-3"), 2, 6, (1, 4, 3))


@pytest.mark.covers("CLU-6", "CLU-19")
def test_the_guard_record_follows_an_exchange_and_never_goes_back(tmp_path: Path) -> None:
    root = tmp_path / "node"
    establish(root)
    with NodeDirectory(root) as directory:
        assert not directory.follow(IDENTITY.guard.voters, (1, 2, 3))
        assert directory.follow(EXCHANGED.voters, EXCHANGED.numbers)
        before = tree(root)
        assert not directory.follow(EXCHANGED.voters, EXCHANGED.numbers)
        assert not directory.follow(IDENTITY.guard.voters, (1, 2, 3))
        assert tree(root) == before
    with pytest.raises(KeyLoadError, match=r"guard record .* node-4 \(number 4\).*peers") as caught:
        establish(root)
    assert caught.value.code is ErrorCode.CONFLICT
    establish(root, msgspec.structs.replace(IDENTITY, guard=EXCHANGED))
    assert stat.S_IMODE((root / "identity.json").stat().st_mode) == 0o600


@pytest.mark.covers("CLU-6", "CLU-17")
def test_a_damaged_guard_record_follows_nothing(tmp_path: Path) -> None:
    root = tmp_path / "node"
    establish(root)
    cut_identity(root)
    before = tree(root)
    with NodeDirectory(root) as directory, pytest.raises(KeyLoadError, match="Corruption"):
        directory.follow(EXCHANGED.voters, EXCHANGED.numbers)
    assert tree(root) == before


@pytest.mark.covers("CLU-19")
def test_numbers_are_kept_where_they_are_no_places() -> None:
    assert kept_numbers((1, 2, 3)) == ()
    assert kept_numbers((1, 4, 3)) == (1, 4, 3)
    assert kept_numbers(()) == ()
    assert EXCHANGED.voter_numbers == (1, 4, 3)
    assert IDENTITY.guard.voter_numbers == (1, 2, 3)
    assert b"numbers" not in msgspec.json.encode(IDENTITY.guard)
