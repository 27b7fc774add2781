"""Imports point downwards only, as the table in docs/architecture.md says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from harness.evidence import ROOT

_ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)


def allowed_imports() -> dict[str, set[str]]:
    """Room to what it may import: rooms, or modules of a room as `room.module`."""
    table: dict[str, set[str]] = {}
    for room, text in _ROW.findall((ROOT / "docs/architecture.md").read_text(encoding="utf-8")):
        if text in ("-", "nothing of KeyLoad"):
            table[room] = {room}
        elif text == "all above":
            table[room] = {*table, room}
        else:
            table[room] = {word.strip("` ") for word in text.split(",")} | {room}
    return table


def imported_modules(path: Path) -> set[str]:
    """Full names of the KeyLoad modules that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def breaches(room: str, allowed: set[str]) -> list[str]:
    """Imports of a room that the table does not allow."""
    found: list[str] = []
    for path in sorted((ROOT / "keyload" / room).rglob("*.py")):
        for name in sorted(imported_modules(path)):
            parts = name.split(".")
            if parts[0] in ("harness", "apphost", "tests"):
                found.append(f"{path.relative_to(ROOT)}: {name}")
            if parts[0] != "keyload" or len(parts) < 2:
                continue
            if parts[1] not in allowed and ".".join(parts[1:3]) not in allowed:
                found.append(f"{path.relative_to(ROOT)}: {name}")
    return found


def test_every_room_stands_in_the_table() -> None:
    rooms = {path.parent.name for path in (ROOT / "keyload").glob("*/__init__.py")}
    assert rooms == set(allowed_imports())


@pytest.mark.parametrize("room", sorted(allowed_imports()))
def test_room_imports_only_what_the_table_allows(room: str) -> None:
    assert breaches(room, allowed_imports()[room]) == []


@pytest.mark.covers("GTW-1")
def test_gateway_needs_nothing_of_keyload() -> None:
    assert breaches("gateway", {"gateway"}) == []


def test_pure_rooms_use_no_input_or_output() -> None:
    forbidden = {
        "asyncio",
        "socket",
        "threading",
        "subprocess",
        "os",
        "zmq",
        "lmdb",
        "time",
        "random",
        "pathlib",
    }
    for room in ("contract", "codec", "consensus", "models"):
        for path in sorted((ROOT / "keyload" / room).rglob("*.py")):
            names = imported_modules(path) - {"random.Random"}  # the class; the caller brings the instance
            found = {name.split(".")[0] for name in names} & forbidden
            if room == "codec" and path.name == "kernels.py":
                found -= {"os"}
            assert not found, path
