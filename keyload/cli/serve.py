"""`keyload serve`: one node, from its settings to its ordered end (CLI-8..CLI-13, CLU-28, CLU-30)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import msgspec
import uvloop

from keyload.backup.shelf import Shelf
from keyload.cli.commands import Words
from keyload.contract.admin import HttpAdmissionLimits
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.tables import Voters
from keyload.front.admission import McpLimits
from keyload.front.app import FrontSettings, build, serve
from keyload.front.hosts import Hosts
from keyload.front.server import listen
from keyload.front.workers import WorkerHub
from keyload.link import log
from keyload.link.addresses import Address, is_loopback, read_address, read_origin
from keyload.link.launch import CommandLimits
from keyload.node.configuration import SettingsError, load
from keyload.node.launching import identity
from keyload.node.settings import NodeSettings
from keyload.node.supervisor import STOP_SECONDS, Supervisor
from keyload.storage.directory import NodeDirectory

WRONG_SETTINGS = 2
NOT_ORDERLY = 1
_LEAST_STOP_SECONDS = 5.0
_FOLLOW_SECONDS = 1.0


def run(words: Words) -> int:
    """Run one node until a signal; 0 after a clean stop, 2 for wrong settings."""
    try:
        settings = load(Path(words.options["--settings"]), os.environ)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_SETTINGS
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_node(settings))


async def _node(settings: NodeSettings) -> int:
    stop = _Stop()
    stop.listen()
    data = Path(settings.data_directory)
    data.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with NodeDirectory(data) as directory:
        directory.establish(identity(settings), segment_bytes=settings.storage.segment_bytes)
        listener = _listener(_listening_address(settings))
        return await _serve(settings, directory, listener, stop)


async def _serve(
    settings: NodeSettings, directory: NodeDirectory, listener: socket.socket, stop: _Stop
) -> int:
    hub = WorkerHub(
        settings.workers,
        call_ms=settings.timings.call_ms,
        on_fault=lambda worker, category: supervisor.end_after_fault(worker),
    )
    supervisor = Supervisor(settings, hub, log.event, descriptors=(directory.lock_descriptor,))
    front = build(hub, front_settings(settings), Shelf(directory.root, identity(settings)))
    supervisor.start()
    watching = asyncio.create_task(supervisor.watch())
    watching.add_done_callback(lambda task: stop.set())
    following = asyncio.create_task(_follow_voters(hub, directory))
    try:
        await serve(front, listener, stop.wait)
    finally:
        following.cancel()
        orderly = await supervisor.stop(max(_LEAST_STOP_SECONDS, STOP_SECONDS - stop.age()))
        hub.close()
    await watching
    return 0 if orderly else NOT_ORDERLY


async def _follow_voters(hub: WorkerHub, directory: NodeDirectory) -> None:
    """Take each exchange of a voter that the system shard tells of into the guard record (CLU-19)."""
    followed: Voters | None = None
    while True:
        await asyncio.sleep(_FOLLOW_SECONDS)
        voters = hub.catalog.voters
        if voters is None or voters == followed:
            continue
        try:
            if await asyncio.to_thread(directory.follow, voters.ids, voters.numbers):
                log.event(log.Category.VOTERS_CHANGED, numbers=str(voters.numbers))
            followed = voters
        except (OSError, KeyLoadError) as error:
            log.failure(log.Category.STORE_REFUSED, error)


class _Stop:
    """The wish to stop, from a signal or from inside; a second one changes nothing (CLI-12)."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._since: float | None = None

    def listen(self) -> None:
        """Take SIGTERM and SIGINT as the wish."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.set)

    def set(self) -> None:
        """Begin to stop."""
        if self._since is None:
            self._since = asyncio.get_running_loop().time()
        self._event.set()

    async def wait(self) -> None:
        """Return when the node shall stop."""
        await self._event.wait()

    def age(self) -> float:
        """Seconds since the wish."""
        return 0.0 if self._since is None else asyncio.get_running_loop().time() - self._since


def front_settings(settings: NodeSettings) -> FrontSettings:
    """What the front needs of a node's settings."""
    admission = msgspec.structs.asdict(settings.admission.http)
    return FrontSettings(
        shards=settings.data_shards,
        http=HttpAdmissionLimits(
            **admission,
            max_body_bytes=settings.http.max_body_bytes,
            max_control_body_bytes=settings.http.max_control_body_bytes,
        ),
        mcp=McpLimits(**msgspec.structs.asdict(settings.mcp)),
        commands=CommandLimits(**msgspec.structs.asdict(settings.admission.command)),
        scrape_token=settings.scrape_token,
        hosts=Hosts(settings.public_endpoint, on_loopback=is_loopback(_listening_address(settings).host)),
    )


def _listening_address(settings: NodeSettings) -> Address:
    if settings.listen is not None:
        return read_address(settings.listen)
    return read_origin(settings.public_endpoint).address


def _listener(address: Address) -> socket.socket:
    try:
        return listen(address.host, address.port)
    except OSError as error:
        detail = f"The node cannot listen on {address}: {error.strerror}."
        raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, detail) from error
