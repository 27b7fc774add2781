"""Runs the suite for a revision of the protocol and holds every check against the baseline.

The baseline names each check that does not pass, with the reason. One that fails and is not named, and one
that is named and does not fail, are findings, so nothing hides behind a scenario that fails for another
reason.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tomllib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from harness.cluster import HarnessError
from harness.conformance.installing import FOLDER, installed, node

RUN_SECONDS = 180.0
_PASSED = frozenset(("SUCCESS", "INFO"))
_RESULTS = "checks.json"
_FOLDER_PREFIX = "server-"
_STAMP_CHARS = len("-2026-01-01T00-00-00-000Z")


class Revision(msgspec.Struct, frozen=True):
    """A revision of the protocol and the package (a name of package.json) whose scenarios are run for it."""

    version: str
    package: str


REVISIONS = (
    Revision("2025-06-18", "conformance-handshake"),
    Revision("2025-11-25", "conformance-handshake"),
    Revision("2025-11-25", "conformance-stateless"),
    Revision("2026-07-28", "conformance-stateless"),
)
"""The newest handshake revisions by both packages, and the one without a handshake."""


class Check(msgspec.Struct, frozen=True, order=True):
    """One check as the suite reports it; `name` is scenario and id."""

    name: str
    status: str
    message: str

    @property
    def passed(self) -> bool:
        """Whether it says nothing against the server."""
        return self.status in _PASSED


class _Reported(msgspec.Struct, rename="camel"):
    id: str
    status: str
    error_message: str | None = None


async def run(revision: Revision, url: str, results: Path) -> list[Check]:
    """The checks of all scenarios of a revision against the endpoint `url`; `results` is made anew.

    HarnessError when the suite is not there, is not done in time, or did not run to its end.
    """
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    program = installed() / revision.package / "dist" / "index.js"
    options = ("--suite", "all", "--spec-version", revision.version, "--output-dir", str(results))
    said = results / "output.txt"
    with said.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            node(), program, "server", "--url", url, *options,
            stdin=asyncio.subprocess.DEVNULL, stdout=file, stderr=file, cwd=results, env=_environment(),
        )  # fmt: skip
        try:
            async with asyncio.timeout(RUN_SECONDS):
                await process.wait()
        except TimeoutError:
            raise HarnessError(f"the conformance suite was not done within {RUN_SECONDS:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if "=== SUMMARY ===" not in said.read_text(encoding="utf-8"):
        raise HarnessError(f"the conformance suite did not run to its end; see {said}")
    return sorted(_checks(results))


def _environment() -> dict[str, str]:
    """The door is on this machine: no proxy of the surroundings stands before it."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


def _checks(results: Path) -> Iterable[Check]:
    for path in results.glob(f"{_FOLDER_PREFIX}*/{_RESULTS}"):
        scenario = path.parent.name.removeprefix(_FOLDER_PREFIX)[:-_STAMP_CHARS]
        for check in msgspec.json.decode(path.read_bytes(), type=list[_Reported]):
            yield Check(f"{scenario}/{check.id}", check.status, check.error_message or "")


class Baseline:
    """What does not pass, and why not."""

    def __init__(self, path: Path = FOLDER / "baseline.toml") -> None:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
        self._reasons: dict[str, str] = {}
        self._used: set[str] = set()
        for group in tree["group"]:
            for name in group["checks"]:
                if not group["reason"] or name in self._reasons:
                    raise HarnessError(f"the baseline needs one reason for {name}")
                self._reasons[name] = group["reason"]

    def unexplained(self, checks: Iterable[Check]) -> list[Check]:
        """The checks that do not pass without a reason."""
        failed = [check for check in checks if not check.passed]
        self._used.update(check.name for check in failed)
        return [check for check in failed if check.name not in self._reasons]

    @property
    def unused(self) -> set[str]:
        """What has a reason but passed, or did not run, in everything that was looked at."""
        return self._reasons.keys() - self._used
