"""The supervisor with real child processes that behave well or badly."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from keyload.link.launch import EXIT_DAMAGED, WorkerLaunch
from keyload.link.log import Category
from keyload.node.configuration import settings_of
from keyload.node.sockets import SocketDirectory
from keyload.node.supervisor import Supervisor, worker_environment
from tests.unit.node.test_configuration import ADMIN_KEY, alone

READS = """
import sys, time
size = int.from_bytes(sys.stdin.buffer.read(4), "big")
message = sys.stdin.buffer.read(size)
open(sys.argv[1], "ab").write(size.to_bytes(4, "big") + message)
"""
OBEYS = READS + "sys.stdin.buffer.read()\n"
DIES = READS + "sys.exit(3)\n"
IGNORES = READS + "sys.stdin.buffer.read()\nwhile True: time.sleep(1)\n"
DAMAGED = f"""
if message.find(b"\\xa6worker\\x00") >= 0:
    sys.exit({EXIT_DAMAGED})
sys.stdin.buffer.read()
"""
PATIENCE = 20.0


class RecordingHub:
    """What the supervisor told the front, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, str]] = []

    def attach(self, worker: int, endpoint: str) -> None:
        self.told.append(("attach", worker, endpoint))

    def detach(self, worker: int) -> None:
        self.told.append(("detach", worker, ""))


class Bench:
    """A supervisor with its hub, its notices and what its workers were told."""

    def __init__(
        self,
        directory: Path,
        program: str,
        workers: int = 1,
        hub: RecordingHub | None = None,
        **options: Any,
    ) -> None:
        self.hub = hub or RecordingHub()
        self.notices: list[tuple[str, dict[str, int]]] = []
        self._heard = directory / "heard"
        settings = settings_of(alone(workers=workers, dataDirectory=str(directory)))
        command = (sys.executable, "-S", "-c", program, str(self._heard))
        self.supervisor = Supervisor(settings, self.hub, self._note, command=command, **options)

    def _note(self, category: str, **members: int) -> None:
        self.notices.append((category, members))

    def count(self, category: str) -> int:
        return sum(noted == category for noted, _ in self.notices)

    def launches(self) -> list[WorkerLaunch]:
        content = self._heard.read_bytes() if self._heard.exists() else b""
        found: list[WorkerLaunch] = []
        while content:
            size = int.from_bytes(content[:4], "big")
            found.append(msgspec.msgpack.decode(content[4 : 4 + size], type=WorkerLaunch))
            content = content[4 + size :]
        return found


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


def run(bench: Bench, test: Callable[[], Awaitable[None]], seconds: float = PATIENCE) -> bool:
    async def main() -> bool:
        bench.supervisor.start()
        try:
            await test()
        finally:
            orderly = await bench.supervisor.stop(seconds)
        return orderly

    return asyncio.run(main())


@pytest.mark.covers("CLU-20", "CLU-30", "CLI-12")
def test_each_worker_hears_its_launch_and_ends_with_the_pipe(tmp_path: Path) -> None:
    bench = Bench(tmp_path, OBEYS, workers=2)
    seen: list[Path] = []

    async def test() -> None:
        await until(lambda: len(bench.launches()) == 2)
        for launch in bench.launches():
            socket = Path(launch.endpoint.removeprefix("ipc://"))
            seen.append(socket.parent)
            assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
            assert len(os.fsencode(socket)) <= 107

    assert run(bench, test) is True
    launches = sorted(bench.launches(), key=lambda launch: launch.worker)
    assert [launch.worker for launch in launches] == [0, 1]
    assert [launch.shards for launch in launches] == [6, 6]
    assert launches[0].bootstrap is not None
    assert ADMIN_KEY.partition(".")[2] not in str(launches[0])
    assert not any(directory.exists() for directory in seen)
    assert sorted(told[:2] for told in bench.hub.told) == [
        ("attach", 0),
        ("attach", 1),
        ("detach", 0),
        ("detach", 1),
    ]


@pytest.mark.covers("CLU-9")
def test_a_worker_that_dies_starts_again_at_a_new_endpoint_with_growing_delay(tmp_path: Path) -> None:
    bench = Bench(tmp_path, DIES)
    instants: list[float] = []

    async def test() -> None:
        for count in range(1, 5):
            await until(lambda count=count: bench.count(Category.WORKER_STARTED) >= count)
            instants.append(asyncio.get_running_loop().time())

    assert run(bench, test) is True
    endpoints = [endpoint for what, _, endpoint in bench.hub.told if what == "attach"]
    assert len(set(endpoints)) == len(endpoints) >= 4
    pauses = [after - before for before, after in pairwise(instants)]
    assert pauses[0] >= 0.09
    assert pauses[2] >= 0.39
    ends = [members["status"] for category, members in bench.notices if category == Category.WORKER_ENDED]
    assert ends[:3] == [3, 3, 3]


@pytest.mark.covers("CLU-9")
def test_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    bench = Bench(tmp_path, OBEYS)

    async def test() -> None:
        await until(lambda: len(bench.launches()) == 1)
        former = bench.supervisor.process_ids[0]
        psutil.Process(former).kill()
        await until(lambda: len(bench.launches()) == 2)
        assert bench.supervisor.process_ids[0] != former

    assert run(bench, test) is True


@pytest.mark.covers("CLU-30")
def test_a_worker_that_does_not_stop_is_killed_when_the_time_is_over(tmp_path: Path) -> None:
    bench = Bench(tmp_path, IGNORES)

    async def test() -> None:
        await until(lambda: len(bench.launches()) == 1)

    assert run(bench, test, seconds=0.3) is False
    assert bench.count(Category.WORKER_KILLED) == 1
    assert bench.supervisor.process_ids == {}


class BrokenHub(RecordingHub):
    """A front that cannot listen for worker 1."""

    def attach(self, worker: int, endpoint: str) -> None:
        super().attach(worker, endpoint)
        if worker == 1:
            raise ValueError("no endpoint")


@pytest.mark.covers("CLU-30")
def test_after_a_defect_the_other_workers_are_stopped_and_the_sockets_removed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, OBEYS, workers=2, hub=BrokenHub())

    async def test() -> None:
        with pytest.raises(ValueError, match="no endpoint"):
            await bench.supervisor.watch()
        await until(lambda: len(bench.launches()) == 1)

    assert run(bench, test) is True
    endpoints = [endpoint for what, _, endpoint in bench.hub.told if what == "attach"]
    assert not any(Path(endpoint.removeprefix("ipc://")).parent.exists() for endpoint in endpoints)
    assert bench.supervisor.process_ids == {}


@pytest.mark.covers("CLI-11", "SEC-2")
def test_workers_inherit_no_settings_and_no_keys() -> None:
    given = {
        "PATH": "/bin",
        "KEYLOAD_SCALAR": "1",
        "KEYLOAD_FAULT_POINT": "Applied:1",
        "KEYLOAD_ADMIN_KEY": "x",
        "KEYLOAD_API_KEY": "x",
        "KEYLOAD__SIGNING_KEY": "x",
    }
    assert worker_environment(given).keys() == {"PATH", "KEYLOAD_SCALAR", "KEYLOAD_FAULT_POINT"}


@pytest.mark.covers("CLU-20")
def test_a_long_directory_for_temporary_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with pytest.raises(OSError, match="TMPDIR"):
        SocketDirectory()
    assert list(deep.iterdir()) == []


@pytest.mark.covers("CLU-20", "STO-2")
def test_directories_of_killed_fronts_are_removed_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    program = "import os, signal\nfrom keyload.node.sockets import SocketDirectory\n"
    program += "print(SocketDirectory().path, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    killed = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        check=False,
    )
    leftover = Path(killed.stdout.decode().strip())
    (leftover / "0-1").touch()
    living = SocketDirectory()
    assert not leftover.exists()
    strange = [tmp_path / f"keyload-{name}" for name in ("empty", "open", "file", "link", "other")]
    for directory in (strange[0], strange[1], tmp_path / "target"):
        directory.mkdir(mode=0o700)
    (strange[1] / "lock").touch()
    strange[1].chmod(0o755)
    strange[2].touch()
    (tmp_path / "target" / "lock").touch()
    strange[3].symlink_to(tmp_path / "target")
    strange[4].symlink_to("nowhere")
    later = SocketDirectory()
    assert living.path.exists()
    assert all(os.path.lexists(path) for path in strange)
    assert (tmp_path / "target" / "lock").exists()
    for directory in (living, later):
        directory.remove()
        assert not directory.path.exists()


@pytest.mark.covers("CLU-17", "CLU-9")
def test_a_worker_with_damaged_files_is_not_started_again_and_the_others_go_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, READS + DAMAGED, workers=2)

    async def test() -> None:
        await until(lambda: bench.count(Category.WORKER_DAMAGED) == 1)
        await until(lambda: len(bench.launches()) == 2)
        other = bench.supervisor.process_ids[1]
        psutil.Process(other).kill()
        await until(lambda: len(bench.launches()) == 3)
        assert [launch.worker for launch in bench.launches()].count(0) == 1
        assert 0 not in bench.supervisor.process_ids

    assert run(bench, test) is True
    assert [told[:2] for told in bench.hub.told].count(("attach", 0)) == 1
    assert ("detach", 0) in [told[:2] for told in bench.hub.told]
