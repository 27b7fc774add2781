"""Patches on exact JSON: Set and Remove on members of objects, in order (DOC-11, DOC-12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from keyload.codec import json_text
from keyload.contract.documents import FieldPatch, PatchKind
from keyload.contract.errors import ErrorCode
from keyload.models.context import refuse
from keyload.models.documents.rows import RowPlan, check_value
from keyload.models.pointers import Steps, steps_of


def patch_paths(patches: Sequence[FieldPatch], rows: RowPlan | None) -> list[Steps]:
    """The path of every step; `Validation` for the root, a `*` step, or a deeper path in a typed row
    (REL-14)."""
    paths: list[Steps] = []
    for patch in patches:
        steps = steps_of(patch.path)
        if not steps or "*" in steps:
            refuse(ErrorCode.VALIDATION, "A patch path is neither the root nor holds a wildcard step.")
        if rows is not None and (len(steps) != 1 or steps[0] not in rows.types):
            refuse(ErrorCode.VALIDATION, "A patch path of a typed row names one column.")
        paths.append(steps)
    return paths


def apply_patches(
    tree: dict[str, Any], patches: Sequence[FieldPatch], paths: Sequence[Steps], rows: RowPlan | None
) -> None:
    """Apply all steps to `tree`, in place; the first that does not fit is refused."""
    for patch, steps in zip(patches, paths, strict=True):
        if patch.kind == PatchKind.SET:
            value = None if patch.value_json is None else json_text.check(patch.value_json)
            if rows is not None:
                check_value(rows, steps[0], value)
            _parent(tree, steps)[steps[-1]] = value
        else:
            _parent(tree, steps).pop(steps[-1], None)


def _parent(tree: dict[str, Any], steps: Steps) -> dict[str, Any]:
    node: Any = tree
    for step in steps[:-1]:
        if not isinstance(node, dict):
            break
        node = cast("dict[str, Any]", node).get(step)
        if node is None:
            break
    else:
        if isinstance(node, dict):
            return cast("dict[str, Any]", node)
        if isinstance(node, list):
            refuse(ErrorCode.UNSUPPORTED_CAPABILITY, "A patch cannot change an item inside an array.")
    refuse(ErrorCode.VALIDATION, "A parent of the patched field is missing or no object.")
