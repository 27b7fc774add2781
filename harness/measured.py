"""Measured tables with everything needed to read them again: command, machine, versions, runs (TST-27)."""

from __future__ import annotations

import importlib.metadata
import math
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from harness.evidence import machine, revision

_PACKAGES = ("hypercorn", "lmdb", "mcp", "msgspec", "pyzmq", "quart", "uvloop")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure. `wanted` is the target as text; `met` None when there is none."""

    what: str
    values: tuple[float, ...]
    unit: str
    wanted: str = ""
    met: bool | None = None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one kind, from `runs` runs; the value shown is the middle one. `raw` is kept beside it."""

    title: str
    runs: int
    rows: list[Row]
    raw: dict[str, list[float]] = {}


def at_least(what: str, values: Sequence[float], unit: str, target: float) -> Row:
    """A figure whose middle value shall reach the target."""
    return Row(
        what=what,
        values=tuple(values),
        unit=unit,
        wanted=f"at least {target:,.0f}",
        met=middle(values) >= target,
    )


def below(what: str, values: Sequence[float], unit: str, target: float) -> Row:
    """A figure whose middle value shall stay below the target."""
    return Row(
        what=what, values=tuple(values), unit=unit, wanted=f"below {target:,.0f}", met=middle(values) < target
    )


def middle(values: Sequence[float]) -> float:
    """The middle value, the lower one of two."""
    return sorted(values)[(len(values) - 1) // 2]


def nearest_rank(values: Sequence[float], share: float) -> float:
    """The value at a share of all, by nearest rank (BEN-12)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def markdown(table: Table) -> str:
    """The table as a section of docs/performance.md."""
    facts = machine()
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    lines = [
        f"## {table.title}",
        "",
        f"`{shlex.join(['apphost', *sys.argv[1:]])}`, {datetime.now(UTC):%Y-%m-%d}, "
        f"revision {revision() or 'unknown'}, {table.runs} run{'s' if table.runs > 1 else ''}; "
        f"{facts['processor']}, {facts['cores']} cores, {facts['system']}, "
        f"Python {facts['python']}; {versions}.",
        "",
        "| figure | value | all runs | wanted | met |",
        "|---|---|---|---|---|",
    ]
    for row in table.rows:
        runs = ", ".join(_number(value) for value in row.values)
        met = {True: "yes", False: "**no**", None: ""}[row.met]
        lines.append(
            f"| {row.what} | {_number(middle(row.values))} {row.unit} | {runs} | {row.wanted} | {met} |"
        )
    return "\n".join(lines) + "\n"


def write_section(document: Path, name: str, text: str, title: str = "# Performance\n\n") -> None:
    """Put a table between its marks in the document, at the end when the marks are not there yet."""
    begin, end = f"<!-- measured: {name} -->\n", f"<!-- end: {name} -->\n"
    present = document.read_text(encoding="utf-8") if document.exists() else title
    head, found, rest = present.partition(begin)
    tail = rest.partition(end)[2] if found else ""
    separator = "" if found or head.endswith("\n\n") else "\n"
    document.write_text(f"{head}{separator}{begin}{text}{end}{tail}", encoding="utf-8")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
