"""`keyload dev`: a cluster of one or three nodes for a developer (CLI-14, CLI-20, CLI-21)."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from keyload.cli.announcement import announce
from keyload.cli.commands import UsageError, Words
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.node.local import LocalCluster, LocalError
from keyload.node.ports import ordinary_ports
from keyload.node.profile import ProfileError, load_or_create

_POLL_SECONDS = 0.2


def run(words: Words) -> int:
    """Start the nodes, say how to reach them, stay until interrupted, stop them all."""
    nodes = words.options.get("--nodes", "3")
    if nodes not in ("1", "3"):
        raise UsageError("dev: --nodes is 1 or 3.")
    directory = Path("data") / f"dev{nodes}"
    try:
        profile = load_or_create(directory, ordinary_ports(int(nodes)), os.environ.get("KEYLOAD_ADMIN_KEY"))
        run_until_interrupted(LocalCluster(directory, profile))
    except (LocalError, ProfileError) as error:
        raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, str(error)) from error
    return 0


def run_until_interrupted(cluster: LocalCluster) -> None:
    """Start, announce, and watch; leaves by the interruption or, when a node ends, by LocalError.

    All nodes have ended when it leaves, however it leaves.
    """
    try:
        print(f"starting {len(cluster.profile.nodes)} node(s); this takes some seconds", flush=True)
        cluster.start()
        cluster.wait_ready()
        announce(cluster.profile)
        while (node := cluster.ended()) is None:
            time.sleep(_POLL_SECONDS)
        raise LocalError(f"{node.obituary()} The other nodes are stopped too.")
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(
                number, signal.SIG_IGN
            )  # a second wish must not leave nodes behind (CLI-12, CLI-21)
        if not cluster.stop():
            sys.stderr.write("A node did not stop in order; its log tells more.\n")
