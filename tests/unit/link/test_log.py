"""The log says closed things only, and the same thing at most once a second."""

from __future__ import annotations

import json

import pytest

from keyload.link import log
from keyload.link.log import Category


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


@pytest.mark.covers("SEC-40", "CLI-13")
def test_a_failure_is_its_class_and_place_never_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise ValueError("marker-value")
    except ValueError as error:
        log.failure(Category.DEFECT, error)
    (line,) = lines(capsys)
    assert line["category"] == "defect"
    assert line["kind"] == "ValueError"
    assert "marker-value" not in json.dumps(line)
    assert str(line["place"]).startswith("test_log.py:")


def test_a_storm_of_one_fault_is_one_line_and_other_lines_pass(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(100):
        log.event(Category.PEER_GUARD_DIFFERS)
        log.event(Category.WORKER_ENDED, worker=7, status=9)
    log.event(Category.WORKER_ENDED, worker=8, status=9)
    found = [(line["category"], line.get("worker")) for line in lines(capsys)]
    assert found == [("peer-guard-differs", None), ("worker-ended", 7), ("worker-ended", 8)]
