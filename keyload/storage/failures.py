"""What a failed file operation means to callers."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager

from keyload.contract.errors import ErrorCode, KeyLoadError


@contextmanager
def as_contract(detail: str) -> Generator[None]:
    """An OSError inside becomes ResourceExhausted when the disk is full, else RecoveryRequired with
    `detail`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            full = "The store has no room left for this step."
            raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, full) from error
        raise KeyLoadError(ErrorCode.RECOVERY_REQUIRED, detail) from error
