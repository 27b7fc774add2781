"""What all tests of the front share."""

from __future__ import annotations

import pytest

from keyload.link import log


@pytest.fixture(autouse=True)
def every_log_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is written, also when the test before wrote the same."""
    monkeypatch.setattr(log, "PAUSE_SECONDS", 0.0)
