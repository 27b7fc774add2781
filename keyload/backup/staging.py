"""Results that are there as a whole or not at all: made beside their place, synced, then renamed.

A failure or an interruption removes what was begun (BKP-13, CLI-7). What a killed process left behind has a
name of its own beside the target and is removed by the next try.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from keyload.backup.streams import Sink, new_file
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import files


def refuse_taken(target: Path) -> None:
    """Conflict unless the target is absent or an empty directory, and no link (CLI-5, BKP-12)."""
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        if not target.parent.is_dir():
            detail = f"{target.parent}: there is no such directory."
            raise KeyLoadError(ErrorCode.NOT_FOUND, detail) from None
        return
    if not stat.S_ISDIR(mode):
        raise KeyLoadError(ErrorCode.CONFLICT, f"{target}: is no directory.")
    if any(target.iterdir()):
        raise KeyLoadError(ErrorCode.CONFLICT, f"{target}: the directory is not empty.")
    if target.is_mount():
        detail = f"{target}: is a mount point; name a directory inside it."
        raise KeyLoadError(ErrorCode.VALIDATION, detail)


@contextmanager
def directory_for(target: Path, *, resumes: bool = False) -> Generator[Path, None, None]:
    """A directory to fill; it becomes `target`, durable with all of its content, when the block ends well.

    `resumes` keeps what an earlier process that was killed had made. Conflict when the target is taken or
    another process is making it.
    """
    target = target.absolute()
    refuse_taken(target)
    stage = _stage(target)
    lock = -1
    try:
        with _undisturbed():
            lock = _locked(stage)
        if not resumes:
            _empty(stage)
        yield stage
        sync_tree(stage)
        _rename(stage, target)
    except BaseException:
        if lock >= 0:
            shutil.rmtree(stage, ignore_errors=True)
        raise
    finally:
        if lock >= 0:
            os.close(lock)


@contextmanager
def file_for(target: Path) -> Generator[Sink, None, None]:
    """A file to write; it gets the name `target`, durable, when the block ends well. Conflict when it is
    taken or another process is making it.
    """
    target = target.absolute()
    _refuse_present(target)
    refuse_taken(target)
    stage = _stage(target)
    lock = -1
    try:
        with _undisturbed():
            lock = _locked(stage)
        _empty(stage)
        draft = stage / target.name
        with new_file(draft) as sink:
            yield sink
        _refuse_present(target)
        draft.rename(target)
        files.sync_directory(target.parent)
    finally:
        if lock >= 0:
            shutil.rmtree(stage, ignore_errors=True)
            os.close(lock)


@contextmanager
def _undisturbed() -> Generator[None, None, None]:
    """Let signals wait, so that none comes between making something and knowing that it is to be removed."""
    former = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _refuse_present(target: Path) -> None:
    if os.path.lexists(target):
        raise KeyLoadError(ErrorCode.CONFLICT, f"{target}: the file is there already.")


def sync_tree(directory: Path) -> None:
    """Make a directory durable with everything below it."""
    for folder, _, names in os.walk(directory, topdown=False):
        for name in names:
            descriptor = os.open(Path(folder, name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        files.sync_directory(Path(folder))


def _stage(target: Path) -> Path:
    if not target.name:
        raise KeyLoadError(ErrorCode.CONFLICT, f"{target}: the directory is not empty.")
    return target.with_name(f".{target.name}.partial")


def _locked(stage: Path) -> int:
    """Make the stage, or take over one that nobody holds any more; the descriptor holds it."""
    while True:
        with suppress(FileExistsError):
            stage.mkdir(mode=files.DIRECTORY_MODE)
        try:
            lock = os.open(stage, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if stage.lstat().st_ino == os.fstat(lock).st_ino:
                return lock
        except BlockingIOError as error:
            os.close(lock)
            raise KeyLoadError(ErrorCode.CONFLICT, f"{stage}: another process works there.") from error
        except FileNotFoundError:
            pass
        os.close(lock)


def _empty(stage: Path) -> None:
    for child in stage.iterdir():
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        else:
            child.unlink()


def _rename(stage: Path, target: Path) -> None:
    try:
        stage.rename(target)
    except OSError as error:
        if target.exists():
            raise KeyLoadError(ErrorCode.CONFLICT, f"{target}: was taken meanwhile.") from error
        raise
    files.sync_directory(target.parent)
