"""Style that a machine can check (STYLE: style is a test)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.evidence import ROOT

MAX_FILE_LINES = 600
_TABLES = {"keyload/contract/limits.py"}  # one table, a row for each limit of the contract
MAX_FUNCTION_LINES = 60
_FOLDERS = ("keyload", "apphost", "harness", "tests")
_PURE = ("keyload/models", "keyload/consensus", "keyload/worker/executor")
_PURE_CALLS = {"print", "open", "input"}
_PURE_MODULES = {"time", "random", "datetime", "os", "uuid", "secrets"}
_UNFINISHED = ("TO" + "DO", "FIX" + "ME", "X" * 3, "NotImplemented" + "Error")


def _files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
    return (node.end_lineno or node.lineno) - body[0].lineno + 1


def _public(
    scope: ast.Module | ast.ClassDef,
) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for node in scope.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name[0] != "_":
            yield node
            if isinstance(node, ast.ClassDef) and scope is not node:
                yield from _public(node)


def _explains_itself(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Overrides, properties of three lines and members of a documented protocol need no text of their own."""
    if isinstance(node, ast.ClassDef):
        return False
    if len(node.body) == 1 and ast.unparse(node.body[0]) == "...":
        return True
    names = {ast.unparse(decorator) for decorator in node.decorator_list}
    short = _length(node) <= 3 and bool(
        names & {"property", "override"} or any(".setter" in n for n in names)
    )
    return short or "overload" in names or "typing.overload" in names


def test_files_are_short() -> None:
    long = {
        _name(path): lines
        for path in _files(*_FOLDERS)
        if _name(path) not in _TABLES and (lines := len(path.read_text().splitlines())) > MAX_FILE_LINES
    }
    assert not long


def test_functions_fit_on_a_screen() -> None:
    long = [
        f"{_name(path)}:{node.lineno} {node.name}: {_length(node)} lines"
        for path in _files(*_FOLDERS)
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _length(node) > MAX_FUNCTION_LINES
    ]
    assert not long


def test_public_things_of_the_product_say_what_they_mean() -> None:
    silent = [
        f"{_name(path)}:{node.lineno} {node.name}"
        for path in _files("keyload")
        for node in _public(_tree(path))
        if not ast.get_docstring(node) and not _explains_itself(node)
    ]
    assert not silent


def test_modules_of_the_product_say_what_they_are_for() -> None:
    silent = [
        _name(path)
        for path in _files("keyload", "apphost", "harness")
        if path.read_text(encoding="utf-8").strip() and not ast.get_docstring(_tree(path))
    ]
    assert not silent


def test_nothing_is_left_unfinished() -> None:
    found = [
        f"{_name(path)}: {word}"
        for path in _files(*_FOLDERS)
        for word in _UNFINISHED
        if word in path.read_text(encoding="utf-8")
    ]
    assert not found


@pytest.mark.covers("TST-25")
def test_no_test_is_skipped_or_expected_to_fail() -> None:
    marks = {"skip", "skipif", "xfail", "importorskip"}
    found = [
        f"{_name(path)}:{node.lineno}"
        for path in _files("tests")
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Attribute) and node.attr in marks
    ]
    assert not found


def test_pure_code_has_no_clock_no_chance_and_no_files() -> None:
    found: list[str] = []
    for path in _files("keyload"):
        if not _name(path).startswith(_PURE):
            continue
        for node in ast.walk(_tree(path)):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Name) and called.id in _PURE_CALLS:
                found.append(f"{_name(path)}:{node.lineno} {called.id}()")
            if isinstance(called, ast.Attribute) and ast.unparse(called.value) in _PURE_MODULES:
                found.append(f"{_name(path)}:{node.lineno} {ast.unparse(called)}()")
    assert not found


def test_the_specification_in_the_repository_is_the_one_beside_it() -> None:
    beside = ROOT.parent / "shared"
    for folder in ("spec", "contract"):
        for path in sorted((beside / folder).glob("*.*")):
            assert (ROOT / "docs" / folder / path.name).read_bytes() == path.read_bytes(), path.name
