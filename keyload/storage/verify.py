"""Whether a state file holds what it should (STO-16), found out in a process of its own: the engine trusts
its pages, and a damaged one can end the process that opens it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage.layout import Position

EXIT_REFUSED = 3
"""Exit status of a check that found something, with the problem on standard output."""

_FIRST_SECONDS = 60
_BYTES_PER_SECOND = 1 << 20
_PATIENCE = 10


class Facts(msgspec.Struct, frozen=True):
    """What a state file holds. `records`, `record_bytes` and `digest` (as `Store.digest`) only when every
    record was checked, else zero and empty."""

    applied: Position
    membership: bytes | None
    records: int = 0
    record_bytes: int = 0
    digest: str = ""


class Problem(msgspec.Struct, frozen=True):
    """Why a state file was refused."""

    code: ErrorCode
    detail: str


def verify_image(path: Path, *, every_record: bool) -> Facts:
    """Open a state file that nobody writes in a child process, and check its head or all of its records.

    Nothing is changed. Corruption for damage of any kind, also when the child was ended by it or used more
    processor time than a whole file can need; FormatUnsupported for a foreign file or version;
    RecoveryRequired when others killed the child, or kept it from working for ten times as long.
    """
    return verify_images([path], every_record=every_record)[0]


def verify_images(paths: Sequence[Path], *, every_record: bool) -> list[Facts]:
    """The same for several files, one after the other in one child process."""
    size = sum(path.stat().st_size for path in paths if path.exists())
    seconds = _FIRST_SECONDS + size // _BYTES_PER_SECOND
    command = [
        *(sys.executable, "-m", "keyload.storage.inspector"),
        *(str(int(every_record)), str(seconds), *map(str, paths)),
    ]
    try:
        child = subprocess.run(  # noqa: S603 - our own program
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE * seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _unfinished() from error
    except OSError as error:
        detail = "The check of a state file could not be started."
        raise KeyLoadError(ErrorCode.RECOVERY_REQUIRED, detail) from error
    try:
        if child.returncode == -signal.SIGKILL:  # by the system, for want of memory, or by a person
            raise _unfinished()
        if child.returncode == 0:
            found = msgspec.json.decode(child.stdout, type=list[Facts])
            if len(found) == len(paths):
                return found
        elif child.returncode == EXIT_REFUSED:
            problem = msgspec.json.decode(child.stdout, type=Problem)
            raise KeyLoadError(problem.code, problem.detail)
    except msgspec.MsgspecError as error:
        raise _damaged() from error
    raise _damaged()


def _unfinished() -> KeyLoadError:
    return KeyLoadError(ErrorCode.RECOVERY_REQUIRED, "The check of a state file was ended before its time.")


def _damaged() -> KeyLoadError:
    return KeyLoadError(ErrorCode.CORRUPTION, "A state file is damaged.")
