"""Which test covers which requirement: generates docs/requirements.md (TST-4).

Run `python -m harness.requirements` to write the page; a unit test keeps it current. Requirement ids are
those of docs/spec/*.md and the rules of docs/contract/README.md; tests name them in `pytest.mark.covers`.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from harness.evidence import ROOT

PAGE = Path("docs/requirements.md")
_REQUIREMENT = re.compile(r"^- \*\*([A-Z]{2,4}-\d+)\*\*", re.MULTILINE)
_HEAD = """# Requirements and their tests

Made by `python -m harness.requirements` from the specification and the tests; do not edit. A test that names
an id is no proof that every word of it is covered; an id that no test names is open.

"""


def requirement_ids(root: Path = ROOT) -> dict[str, str]:
    """Every requirement id with the document it stands in, in document order."""
    documents = [*sorted((root / "docs/spec").glob("*.md")), root / "docs/contract/README.md"]
    found: dict[str, str] = {}
    for document in documents:
        for identifier in _REQUIREMENT.findall(document.read_text(encoding="utf-8")):
            found[identifier] = document.relative_to(root / "docs").as_posix()
    return found


def covered(root: Path = ROOT) -> dict[str, list[str]]:
    """Requirement id to the tests that name it, as `path::test`."""
    tests: dict[str, list[str]] = defaultdict(list)
    for path in sorted((root / "tests").rglob("test_*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        whole = _module_marks(module)
        for name, marks in _tests(module, whole):
            for identifier in marks:
                tests[identifier].append(f"{path.relative_to(root).as_posix()}::{name}")
    return dict(tests)


def _module_marks(module: ast.Module) -> set[str]:
    for node in module.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
        ):
            return _covers([node.value])
    return set()


def _tests(scope: ast.Module | ast.ClassDef, inherited: set[str]) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for node in scope.body:
        if isinstance(node, ast.ClassDef):
            marks = inherited | _covers(node.decorator_list)
            found += [(f"{node.name}::{name}", ids) for name, ids in _tests(node, marks)]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            found.append((node.name, sorted(inherited | _covers(node.decorator_list))))
    return found


def _covers(expressions: list[ast.expr]) -> set[str]:
    found: set[str] = set()
    for node in (part for expression in expressions for part in ast.walk(expression)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "covers":
            for argument in node.args:
                if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
                    raise ValueError(f"line {node.lineno}: ids in covers() must be plain texts")
                found.add(argument.value)
    return found


def page(root: Path = ROOT) -> str:
    """The whole text of docs/requirements.md."""
    ids, tests = requirement_ids(root), covered(root)
    documents: dict[str, list[str]] = defaultdict(list)
    for identifier, document in ids.items():
        documents[document].append(identifier)
    done = sum(identifier in tests for identifier in ids)
    parts = [_HEAD, f"{done} of {len(ids)} requirements are named by a test.\n"]
    for document, members in documents.items():
        parts.append(f"\n## [{document}]({document})\n\n")
        named = [identifier for identifier in members if identifier in tests]
        if named:
            parts.append("| id | tests |\n|---|---|\n")
            parts += [f"| {identifier} | {_cell(tests[identifier])} |\n" for identifier in named]
        missing = [identifier for identifier in members if identifier not in tests]
        if missing:
            parts.append(("\n" if named else "") + f"Open: {', '.join(missing)}.\n")
    return "".join(parts)


def _cell(tests: list[str]) -> str:
    shown = ", ".join(f"`{test.removeprefix('tests/')}`" for test in tests[:3])
    return shown if len(tests) <= 3 else f"{shown} and {len(tests) - 3} more"


def main() -> None:
    """Write the page."""
    (ROOT / PAGE).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
