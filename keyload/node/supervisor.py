"""Starts the workers of a node, starts again those that die, and stops them in order (CLU-9, CLU-30).

A worker hears everything it needs as one message on its standard input. The pipe stays open: its end tells
the worker to stop in order, also when the front was killed. Every start has an endpoint of its own, so no
message of a former life arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from keyload.link.launch import EXIT_DAMAGED
from keyload.link.log import Category
from keyload.node.launching import worker_launch
from keyload.node.settings import NodeSettings
from keyload.node.sockets import SocketDirectory

FIRST_DELAY = 0.1
LAST_DELAY = 5.0
STEADY_SECONDS = 10.0
"""A worker that lived this long begins again with the shortest delay."""

STOP_SECONDS = 28.0
FAULT_SECONDS = 5.0
"""How long a worker that reported a fault may take to end by itself."""

WORKER_COMMAND = (sys.executable, "-m", "keyload.worker")
_SECRET_VARIABLES = ("KEYLOAD_ADMIN_KEY", "KEYLOAD_API_KEY")


class Hub(Protocol):
    """Where workers are reached: the front's WorkerHub."""

    def attach(self, worker: int, endpoint: str) -> None:
        """Listen on `endpoint` for a worker that is about to start."""
        ...

    def detach(self, worker: int) -> None:
        """The worker is gone."""
        ...


class Supervisor:
    """All workers of one node, as child processes of this one.

    `descriptors` are inherited by the workers: the lock of the node's directory, which ends with the last of
    them (STO-1).
    """

    def __init__(
        self,
        settings: NodeSettings,
        hub: Hub,
        notice: Callable[..., None],
        *,
        descriptors: Sequence[int] = (),
        command: Sequence[str] = WORKER_COMMAND,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._hub = hub
        self._notice = notice
        self._descriptors = tuple(descriptors)
        self._command = tuple(command)
        self._environment = worker_environment(os.environ if environment is None else environment)
        self._sockets: SocketDirectory | None = None
        self._processes: dict[int, Process] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    @property
    def process_ids(self) -> dict[int, int]:
        """Process id of each worker that runs now."""
        return {worker: process.pid for worker, process in self._processes.items()}

    def start(self) -> None:
        """Make the private directory of the sockets and begin to keep every worker alive."""
        self._sockets = SocketDirectory()
        for worker in range(self._settings.workers):
            self._keepers.append(asyncio.create_task(self._keep(worker), name=f"worker-{worker}"))

    async def watch(self) -> None:
        """Return when the node stops; raise what no worker's end explains."""
        await asyncio.gather(*self._keepers)

    def end_after_fault(self, worker: int) -> None:
        """A worker said that it stops: end it when it has not done so soon (STO-11)."""
        process = self._processes.get(worker)
        if process is not None:
            asyncio.get_running_loop().call_later(FAULT_SECONDS, self._kill, worker, process)

    async def stop(self, seconds: float = STOP_SECONDS) -> bool:
        """Tell all workers to end, kill those left after `seconds`; whether all ended by themselves."""
        self._stopping.set()
        for process in self._processes.values():
            _tell_to_end(process)
        orderly = True
        if self._keepers:
            _, late = await asyncio.wait(self._keepers, timeout=seconds)
            orderly = not late
            for worker, process in list(self._processes.items()):
                self._kill(worker, process)
            await asyncio.gather(*self._keepers, return_exceptions=True)  # `watch` raises what they raise
        if self._sockets is not None:
            self._sockets.remove()
        return orderly

    def _kill(self, worker: int, process: Process) -> None:
        if process.returncode is None:
            self._notice(Category.WORKER_KILLED, worker=worker)
            with contextlib.suppress(ProcessLookupError):
                process.kill()

    async def _keep(self, worker: int) -> None:
        """One worker, again and again, until the node stops; one with damaged files only once, because an
        operator has to look at them first (CLU-17).
        """
        loop = asyncio.get_running_loop()
        delay, start = FIRST_DELAY, 0
        while not self._stopping.is_set():
            start += 1
            began = loop.time()
            if await self._live(worker, start) == EXIT_DAMAGED:
                self._notice(Category.WORKER_DAMAGED, worker=worker)
                await self._stopping.wait()
            delay = FIRST_DELAY if loop.time() - began > STEADY_SECONDS else delay
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay)
            delay = min(delay * 2, LAST_DELAY)

    async def _live(self, worker: int, start: int) -> int | None:
        """One life of a worker, from its start to its end; its exit status, None when it could not start."""
        assert self._sockets is not None
        socket = self._sockets.path / f"{worker}-{start}"
        endpoint = f"ipc://{socket}"
        self._hub.attach(worker, endpoint)
        try:
            status = await self._run(worker, endpoint)
            self._notice(Category.WORKER_ENDED, worker=worker, status=status)
            return status
        except OSError:
            self._notice(Category.WORKER_NOT_STARTED, worker=worker)
            return None
        finally:
            self._processes.pop(worker, None)
            self._hub.detach(worker)
            socket.unlink(missing_ok=True)

    async def _run(self, worker: int, endpoint: str) -> int:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            env=self._environment,
            pass_fds=self._descriptors,
            start_new_session=True,
        )
        self._processes[worker] = process
        self._notice(Category.WORKER_STARTED, worker=worker, pid=process.pid)
        message = msgspec.msgpack.encode(worker_launch(self._settings, worker, endpoint))
        assert process.stdin is not None
        with contextlib.suppress(ConnectionError):  # a worker that ended at once; its status tells
            process.stdin.write(len(message).to_bytes(4, "big") + message)
            await process.stdin.drain()
        if self._stopping.is_set():
            _tell_to_end(process)
        return await process.wait()


def _tell_to_end(process: Process) -> None:
    """Close the pipe that keeps a worker alive (CLU-30)."""
    if process.stdin is not None:
        process.stdin.close()


def worker_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a worker: without settings and keys, which it gets by its pipe."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("KEYLOAD__") and name not in _SECRET_VARIABLES
    }
