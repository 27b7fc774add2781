"""Runs a program so that nothing it starts outlives it (CLI-21, CLI-22, TST-23)."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

import psutil

INTERRUPTED = 130
FAILED = 1
_SET_CHILD_SUBREAPER = 36
_GRACE_SECONDS = 40.0
_KILL_SECONDS = 5.0


def adopt_orphans() -> None:
    """Make this process the parent of whatever a child leaves behind, so that it can be found and ended."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def run(command: Sequence[str], seconds: float, environment: Mapping[str, str]) -> int:
    """Run to the end and return the program's own exit status.

    1 when it did not end in time or left processes behind; 130 when this process was interrupted. Everything
    that was started has ended when it returns.
    """
    adopt_orphans()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    process = subprocess.Popen(command, env=dict(environment), stdin=subprocess.DEVNULL)
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        sys.stderr.write(f"apphost: not done after {seconds:.0f} s\n")
        status = FAILED
    except KeyboardInterrupt:
        status = INTERRUPTED
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    left = end_descendants()
    if left:
        sys.stderr.write(f"apphost: ended what was left behind: {', '.join(left)}\n")
        return status or FAILED
    return status


def end_descendants() -> list[str]:
    """End all descendants of this process and await them; a word for each that was still there."""
    found: list[str] = []
    deadline = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        living = [child for child in psutil.Process().children(recursive=True) if _is_alive(child)]
        if not living:
            break
        for child in living:
            found.append(f"{child.pid}")
            child.kill()
        psutil.wait_procs(living, _KILL_SECONDS)
    return found


def _is_alive(process: psutil.Process) -> bool:
    try:
        if process.status() != psutil.STATUS_ZOMBIE:
            return True
        process.wait(0)
    except psutil.Error:
        pass
    return False
