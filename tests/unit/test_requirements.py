"""The table of requirements is current and names no id that does not exist."""

from __future__ import annotations

import pytest

from harness.evidence import ROOT
from harness.requirements import PAGE, covered, page, requirement_ids


@pytest.mark.covers("TST-4")
def test_table_of_requirements_is_current() -> None:
    assert (ROOT / PAGE).read_text(encoding="utf-8") == page(), "run python -m harness.requirements"


@pytest.mark.covers("TST-4")
def test_tests_name_only_requirements_that_exist() -> None:
    known = requirement_ids()
    unknown = {identifier: tests for identifier, tests in covered().items() if identifier not in known}
    assert not unknown


@pytest.mark.covers("TST-4")
def test_every_document_of_the_specification_is_read() -> None:
    known = set(requirement_ids())
    assert {"CMD-1", "CLU-33", "STO-27", "TST-31", "CON-1", "GTW-1", "BEN-23"} <= known
