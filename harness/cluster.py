"""The cluster under test: real nodes as processes, with the means to hurt them (TST-3, TST-10).

Every process is addressed by id and start time, so that a fault never hits a stranger. All waiting is for a
state and bounded.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, Self

import psutil
import zmq

from harness.proxy import PeerProxy, Route
from keyload.client import Client, KeyLoadError
from keyload.contract.errors import ErrorCode
from keyload.node.local import LocalCluster, LocalNode
from keyload.node.ports import HOST, free_ports
from keyload.node.profile import LocalProfile, NodeProfile, create

READY_SECONDS = 45.0
POLL_SECONDS = 0.02
FRONT_GONE_SECONDS = 2.0
"""A front that dies takes its workers down within this time (CLU-9)."""


class HarnessError(AssertionError):
    """A state that had to come did not come."""


def wait_until(what: str, condition: Callable[[], bool], seconds: float) -> float:
    """Wait for a state and return the seconds it took; HarnessError with `what` when it does not come."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > seconds:
            raise HarnessError(f"not within {seconds:.1f} s: {what}")
        time.sleep(POLL_SECONDS)
    return time.monotonic() - started


class Cluster:
    """One or three nodes in a directory; leaving the context stops and removes all of it.

    `profile` is that of data which is in the directory already. With `proxied` every node reaches its peers
    through `network` only, which can be cut (CLU-14).
    """

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 3,
        workers: int = 2,
        shards: int | None = 6,
        settings: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        profile: LocalProfile | None = None,
        proxied: bool = False,
    ) -> None:
        self.directory = directory
        self.workers = workers
        results = os.environ.get("KEYLOAD_RESULTS")
        self.logs = Path(results, "nodes", directory.name) if results else directory / "logs"
        pairs = list(permutations(range(1, nodes + 1), 2)) if proxied else []
        ports = free_ports(nodes + len(pairs), workers)
        self._ways = {pair: port for pair, (_, port) in zip(pairs, ports[nodes:], strict=True)}
        self._network: PeerProxy | None = None
        self._local = LocalCluster(
            directory,
            profile or create(ports[:nodes]),
            workers=workers,
            shards=shards,
            logs=self.logs,
            settings=settings,
            environment=dict(os.environ) | dict(environment or {}),
        )
        if proxied:
            for node in self.nodes:
                self._lead_through_network(node)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what it is

    @property
    def key(self) -> str:
        """Key of the cluster administrator."""
        return self._local.profile.admin_key

    @property
    def nodes(self) -> list[LocalNode]:
        """All nodes; the first has number 1."""
        return self._local.nodes

    @property
    def urls(self) -> list[str]:
        """Public origins of all nodes, in order."""
        return [node.url for node in self.nodes]

    def node(self, number: int) -> LocalNode:
        """A node by its 1-based number."""
        return self.nodes[number - 1]

    def urls_from(self, number: int) -> list[str]:
        """All origins, beginning with that of one node."""
        return self.urls[number - 1 :] + self.urls[: number - 1]

    @property
    def network(self) -> PeerProxy:
        """What is between the nodes of a proxied cluster that was started."""
        assert self._network is not None
        return self._network

    # -- life

    def _lead_through_network(self, node: LocalNode) -> None:
        """Put the addresses of the proxy into a node's settings; its own address stays."""
        tree = json.loads(node.settings.read_bytes())
        for number, peer in enumerate(tree["peers"], 1):
            if number != node.number:
                peer["peerAddress"] = f"{HOST}:{self._ways[node.number, number]}"
        node.settings.write_text(json.dumps(tree, indent=2), encoding="utf-8")

    def _routes(self) -> list[Route]:
        return [
            Route(*pair, port + worker, self.node(pair[1]).profile.peer_port + worker)
            for pair, port in self._ways.items()
            for worker in range(self.workers)
        ]

    def start(self) -> None:
        """Start all nodes and wait until they serve."""
        try:
            if self._ways:
                self._network = PeerProxy(self._routes())
            self._local.start()
            self.wait_ready()
        except BaseException:
            self.close()
            raise

    def wait_ready(self, numbers: Sequence[int] | None = None, seconds: float = READY_SECONDS) -> None:
        """Wait until the nodes are ready and know the administrator's key."""
        nodes = self.nodes if numbers is None else [self.node(number) for number in numbers]
        self._local.wait_ready(seconds, nodes)
        for node in nodes:
            wait_until(f"{node.profile.id} knows the key", lambda node=node: self._serves(node), seconds)

    def _serves(self, node: LocalNode) -> bool:
        with Client(node.url, self.key, retries=0, timeout=5) as client:
            try:
                client.admin_status()
            except KeyLoadError:
                return False
        return True

    def close(self) -> None:
        """Continue what is paused and heal what is cut, stop every node, remove the directory."""
        if self._network is not None:
            self._network.heal()
        for node in self.nodes:
            self.resume(node.number)
        orderly = self._local.stop()
        if self._network is not None:
            self._network.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        if not orderly:
            sys.stderr.write("a node of the cluster under test did not stop in order\n")

    def restart(self, number: int, environment: Mapping[str, str] | None = None) -> None:
        """Start a node that has ended."""
        self.node(number).start(environment)

    def stop_node(self, number: int) -> int | None:
        """Stop one node in order; its exit status."""
        node = self.node(number)
        node.send(signal.SIGTERM)
        return node.wait(35)

    def erase(self, number: int) -> None:
        """Remove the data of a node that does not run."""
        assert self.node(number).process_id is None
        shutil.rmtree(self.directory / self.node(number).profile.id)

    # -- exchange of voters

    def newcomer(self, leaving: int) -> LocalNode:
        """A new node, not started, whose settings have it in the place of a voter (CLU-19); otherwise they
        are those of the node made last."""
        number = len(self.nodes) + 1
        [(http_port, peer_port)] = free_ports(1, self.workers)
        public, secret = zmq.curve_keypair()
        profile = NodeProfile(f"node{number}", public.decode(), secret.decode(), http_port, peer_port)
        settings = self.settings(len(self.nodes))
        entry = {
            "id": profile.id,
            "publicEndpoint": profile.url,
            "peerAddress": f"{HOST}:{peer_port}",
            "publicKey": profile.public_key,
            "number": number,
        }
        name = self.node(leaving).profile.id
        settings["peers"] = [entry if peer["id"] == name else peer for peer in settings["peers"]]
        for place, peer in enumerate(settings["peers"], 1):
            peer.setdefault("number", place)
        settings |= {
            "nodeId": profile.id,
            "publicEndpoint": profile.url,
            "dataDirectory": str(self.directory / profile.id),
            "peerSecretKey": profile.secret_key,
        }
        path = self.directory / f"{profile.id}.settings.json"
        node = LocalNode(number, profile, path, self.logs / f"{profile.id}.log", dict(os.environ))
        self.nodes.append(node)
        self.write_settings(number, settings)
        return node

    def settings(self, number: int) -> dict[str, Any]:
        """The settings file of a node."""
        return json.loads(self.node(number).settings.read_bytes())

    def write_settings(self, number: int, settings: Mapping[str, Any]) -> None:
        """Write the settings file of a node, for its next start."""
        path = self.node(number).settings
        path.touch(mode=0o600)
        path.write_text(json.dumps(settings), encoding="utf-8")

    # -- processes

    def front(self, number: int) -> psutil.Process | None:
        """The front process of a node, None when it does not run."""
        pid = self.node(number).process_id
        return None if pid is None else psutil.Process(pid)

    def worker(self, number: int, worker: int) -> psutil.Process:
        """The process that runs a worker now, as the node's log says, checked to be a child of the front."""
        front = self.front(number)
        if front is None:
            raise HarnessError(f"node {number} does not run")
        started = [
            line["pid"]
            for line in self.log_lines(number)
            if line.get("category") == "worker-started" and line.get("worker") == worker
        ]
        for child in front.children():
            if started and child.pid == started[-1]:
                return child
        raise HarnessError(f"worker {worker} of node {number} does not run")

    def processes(self, number: int) -> dict[str, psutil.Process]:
        """All processes of a node by role: front, worker-0, worker-1, ..."""
        front = self.front(number)
        if front is None:
            return {}
        return {"front": front} | {
            f"worker-{worker}": self.worker(number, worker) for worker in range(self.workers)
        }

    def log_lines(self, number: int) -> list[dict[str, Any]]:
        """What a node has logged; lines that are no JSON are left out."""
        found: list[dict[str, Any]] = []
        for line in self.node(number).log.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    # -- faults

    def kill_node(self, number: int) -> float:
        """SIGKILL to the front; seconds until the last of its workers had ended too (CLU-9)."""
        front = self.front(number)
        assert front is not None
        workers = front.children()
        started = time.monotonic()
        front.kill()
        while any(_runs(worker) for worker in workers):
            if time.monotonic() - started > 3 * FRONT_GONE_SECONDS:
                break
            time.sleep(POLL_SECONDS)
        took = time.monotonic() - started
        for process in filter(_runs, workers):
            process.kill()
        self.node(number).wait(5)
        return took

    def crash(self, *numbers: int) -> None:
        """SIGKILL to all processes of these nodes at once."""
        processes = [process for number in numbers for process in self.processes(number).values()]
        for process in processes:
            process.kill()
        for number in numbers:
            self.node(number).wait(5)
        psutil.wait_procs(processes, 5)

    def kill_worker(self, number: int, worker: int) -> None:
        """SIGKILL to one worker process; its front starts it again."""
        process = self.worker(number, worker)
        process.kill()
        psutil.wait_procs([process], 5)

    def pause(self, number: int) -> None:
        """SIGSTOP to all processes of a node."""
        for process in self.processes(number).values():
            process.suspend()

    def resume(self, number: int) -> None:
        """SIGCONT to all processes of a node."""
        front = self.front(number)
        if front is None:
            return
        for process in (front, *front.children(recursive=True)):
            process.resume()

    # -- what it does

    def system_leader(self, asked: Sequence[int] | None = None) -> int:
        """Number of the node that leads the system shard, as a node that serves tells."""
        names = {node.profile.id: node.number for node in self.nodes}
        for number in asked or range(1, len(self.nodes) + 1):
            with Client(self.node(number).url, self.key, retries=0, timeout=3) as client:
                try:
                    leader = client.admin_status().leader
                except KeyLoadError as error:
                    if error.code is ErrorCode.UNAUTHENTICATED:
                        raise
                    continue
                if leader is not None:
                    return names[leader]
        raise HarnessError("no node knows a leader")

    def resident_bytes(self) -> dict[str, int]:
        """Resident set of every server process, as `node1 front` -> bytes (TST-15)."""
        return {
            f"{node.profile.id} {role}": process.memory_info().rss
            for node in self.nodes
            for role, process in self.processes(node.number).items()
        }


def _runs(process: psutil.Process) -> bool:
    """Whether a process still runs; one that has ended may stay in the table until its adopter notices."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
