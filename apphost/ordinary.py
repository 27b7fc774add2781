"""The ordinary cluster: three nodes on ports 5101..5103, data in data/cluster (CLI-14..CLI-16, CLI-21)."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

from keyload.cli.dev import run_until_interrupted
from keyload.node.local import LocalCluster, LocalError
from keyload.node.ports import free_ports, ordinary_ports
from keyload.node.profile import ProfileError, create, load_or_create

DIRECTORY = Path("data/cluster")
NODES = 3
FAILED = 1


class _Interrupted(BaseException):
    """The wish to stop."""


def run(ephemeral: bool) -> int:
    """Run until interrupted; 0 when that was what ended it, 1 when a node did or nothing could start."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise _Interrupted

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, interrupt)
        if ephemeral:
            _ephemeral()
        else:
            profile = load_or_create(DIRECTORY, ordinary_ports(NODES), os.environ.get("KEYLOAD_ADMIN_KEY"))
            run_until_interrupted(LocalCluster(DIRECTORY, profile))
    except _Interrupted:
        return 0
    except (LocalError, ProfileError) as error:
        sys.stderr.write(f"apphost: {error}\n")
    return FAILED


def _ephemeral() -> None:
    """Free ports and a fresh directory that is removed when all nodes have ended (CLI-15, TST-23)."""
    directory = Path(tempfile.mkdtemp(prefix="keyload-cluster-"))
    try:
        profile = create(free_ports(NODES, 1), os.environ.get("KEYLOAD_ADMIN_KEY"))
        run_until_interrupted(LocalCluster(directory, profile))
    finally:
        shutil.rmtree(directory)
