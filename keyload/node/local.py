"""Nodes of one machine as ordinary processes, as `keyload serve` would run on several (CLI-14..CLI-23).

Used by `keyload dev`, the app host and the test harness. Each node has its own directory, settings file and
log; all settings but addresses and keys are the same.
"""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from keyload.node.ports import HOST, busy_port
from keyload.node.profile import LocalProfile, NodeProfile

READY_SECONDS = 30.0
STOP_SECONDS = 32.0
MAX_LOG_BYTES = 64 << 20
_POLL_SECONDS = 0.05
_PROBE_SECONDS = 2.0


class LocalError(Exception):
    """The cluster cannot start or has failed; the text is a message for people."""


class LocalNode:
    """One node: where it lives and, while it runs, its front process."""

    def __init__(
        self, number: int, profile: NodeProfile, settings: Path, log: Path, environment: Mapping[str, str]
    ) -> None:
        self.number = number
        self.profile = profile
        self.settings = settings
        self.log = log
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._pump: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The node's public origin."""
        return self.profile.url

    @property
    def process_id(self) -> int | None:
        """Process id of the front, None when the node was never started or has ended."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def exit_status(self) -> int | None:
        """How the front ended, None while it runs and before it was started."""
        return self._process.poll() if self._process is not None else None

    def start(self, extra_environment: Mapping[str, str] | None = None) -> None:
        """Start the front, which starts its workers."""
        command = [sys.executable, "-m", "keyload.cli", "serve", "--settings", str(self.settings)]
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment | dict(extra_environment or {}),
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._pump = threading.Thread(target=_pump, args=(self._process.stdout, self.log), daemon=True)
        self._pump.start()

    def is_ready(self) -> bool:
        """Whether `/health/ready` answers 200 now."""
        connection = http.client.HTTPConnection(HOST, self.profile.http_port, timeout=_PROBE_SECONDS)
        try:
            connection.request("GET", "/health/ready")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the front; nothing when it has ended."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def wait(self, seconds: float) -> int | None:
        """Exit status of the front, None when it still runs after `seconds`."""
        if self._process is None:
            return None
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        if self._pump is not None:
            self._pump.join(_PROBE_SECONDS)
        return status

    def obituary(self) -> str:
        """How the node ended, for people; its last words only when it ended by itself."""
        status = self.exit_status
        if status is not None and status < 0:
            return f"{self.profile.id} was ended by signal {-status}; its log is {self.log}."
        return f"{self.profile.id} ended with status {status}; {self.log} ends with: {self._last_words()}"

    def _last_words(self) -> str:
        try:
            lines = self.log.read_bytes()[-4096:].decode(errors="replace").splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""


class LocalCluster:
    """All nodes of a profile. Nothing runs before `start`; `stop` is safe at any time."""

    def __init__(
        self,
        directory: Path,
        profile: LocalProfile,
        *,
        workers: int = 1,
        shards: int | None = None,
        logs: Path | None = None,
        settings: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.profile = profile
        self.workers = workers
        self._logs = logs if logs is not None else directory / "logs"
        shared = shared_settings(profile, workers, shards) | dict(settings or {})
        inherited = {
            name: value
            for name, value in (os.environ if environment is None else environment).items()
            if not name.startswith("KEYLOAD__")
        }
        self.nodes: list[LocalNode] = []
        for number, node in enumerate(profile.nodes, 1):
            path = directory / f"{node.id}.settings.json"
            log = self._logs / f"{node.id}.log"
            self._write_settings(path, shared, node)
            self.nodes.append(LocalNode(number, node, path, log, inherited))

    def _write_settings(self, path: Path, shared: dict[str, Any], node: NodeProfile) -> None:
        own: dict[str, Any] = {
            "nodeId": node.id,
            "publicEndpoint": node.url,
            "dataDirectory": str((self.directory / node.id).absolute()),
        }
        if "peers" in shared:
            own["peerSecretKey"] = node.secret_key
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(msgspec.json.format(msgspec.json.encode(own | shared)))

    def start(self) -> None:
        """Check all ports, then start every node; raises LocalError."""
        ports = [(node.http_port, node.peer_port) for node in self.profile.nodes]
        busy = busy_port(ports, self.workers)
        if busy is not None:
            raise LocalError(f"Port {busy} is in use, perhaps by nodes of another run; nothing was started.")
        self._logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        for node in self.nodes:
            node.start()

    def wait_ready(self, seconds: float = READY_SECONDS, nodes: Sequence[LocalNode] | None = None) -> None:
        """Return when every node is ready; raises LocalError when one ends or time runs out."""
        deadline = time.monotonic() + seconds
        waiting = list(self.nodes if nodes is None else nodes)
        while waiting:
            for node in waiting:
                if node.process_id is None:
                    raise LocalError(node.obituary())
            waiting = [node for node in waiting if not node.is_ready()]
            if waiting and time.monotonic() > deadline:
                names = ", ".join(node.profile.id for node in waiting)
                raise LocalError(f"Not ready after {seconds:.0f} s: {names}.")
            if waiting:
                time.sleep(_POLL_SECONDS)

    def ended(self) -> LocalNode | None:
        """A node that was started and runs no more, None when all run."""
        return next((node for node in self.nodes if node.exit_status is not None), None)

    def stop(self, seconds: float = STOP_SECONDS) -> bool:
        """Stop every node in order and wait; whether all that ran ended with status 0 by themselves."""
        running = [node for node in self.nodes if node.process_id is not None]
        for node in running:
            node.send(signal.SIGTERM)
        deadline = time.monotonic() + seconds
        orderly = True
        for node in running:
            status = node.wait(max(0.0, deadline - time.monotonic()))
            if status is None:
                node.send(signal.SIGKILL)
                node.wait(_PROBE_SECONDS)
            orderly = orderly and status == 0
        return orderly


def shared_settings(profile: LocalProfile, workers: int, shards: int | None) -> dict[str, Any]:
    """The settings that all nodes of a profile have in common, in the form of the settings file."""
    shared: dict[str, Any] = {
        "incarnation": profile.incarnation,
        "signingKey": profile.signing_key,
        "adminKey": profile.admin_key,
        "allowLoopbackHttp": True,
        "workers": workers,
        "shards": 3 * workers if shards is None else shards,
    }
    if len(profile.nodes) > 1:
        shared["peers"] = [
            {
                "id": node.id,
                "publicEndpoint": node.url,
                "peerAddress": f"{HOST}:{node.peer_port}",
                "publicKey": node.public_key,
            }
            for node in profile.nodes
        ]
    return shared


def _pump(source: IO[bytes], log: Path) -> None:
    """Keep a node's output, at most MAX_LOG_BYTES of it (CLI-23)."""
    with source, log.open("ab") as file:
        room = MAX_LOG_BYTES - file.tell()
        while line := source.readline(65_536):
            if room > 0:
                file.write(line[:room])
                file.flush()
                room -= len(line)
