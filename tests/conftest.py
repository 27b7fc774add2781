"""What every suite shares: requirement ids on tests, observed output, and the report of the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.pytest_report import COVERS, OBSERVED, Observation, SuiteReport, covered_ids


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("keyload")
    group.addoption("--report", metavar="FILE", help="write the JSON report of this run")
    group.addoption("--suite-name", default="unit", metavar="NAME", help="suite the report is for")
    group.addoption("--partial", action="store_true", help="mark the report as not a whole suite")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--report")
    if path and not hasattr(config, "workerinput"):
        plugin = SuiteReport(Path(path), config.getoption("--suite-name"), config.getoption("--partial"))
        config.pluginmanager.register(plugin, "suite-report")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.user_properties.append((COVERS, covered_ids(item)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    observation = getattr(item, "funcargs", {}).get("observe")
    if call.when == "call" and observation is not None and observation.used:
        item.user_properties.append((OBSERVED, observation.digest))


@pytest.fixture
def observe() -> Observation:
    """Call it with what the case shows to the outside; both modes must show the same (TST-8)."""
    return Observation()
