"""Patches on exact JSON: Set and Remove on members of objects, in order (DOC-11, DOC-12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from keyload.codec import json_text
from keyload.codec.faults import one_of
from keyload.contract.documents import FieldPatch, PatchKind
from keyload.contract.errors import ErrorCode
from keyload.models.context import refuse
from keyload.models.documents.rows import RowPlan, check_value
from keyload.models.pointers import Steps, steps_of


def patch_paths(patches: Sequence[FieldPatch], rows: RowPlan | None) -> list[Steps]:
    """The path of every step; `Validation` for the root, a `*` step, or a deeper path in a typed row
    (REL-14)."""
    paths: list[Steps] = []
    for place, patch in enumerate(patches):
        steps = steps_of(patch.path)
        where = f"/patches/{place}/path"
        if not steps or "*" in steps:
            detail = "A patch path is neither the root nor holds a wildcard step."
            refuse(ErrorCode.VALIDATION, detail, where, "a pointer to one member, such as /name")
        if rows is not None and (len(steps) != 1 or steps[0] not in rows.types):
            expected = "one column: " + one_of((f"/{name}" for name in rows.types), patch.path)
            refuse(ErrorCode.VALIDATION, "A patch path of a typed row names one column.", where, expected)
        paths.append(steps)
    return paths


def apply_patches(
    tree: dict[str, Any], patches: Sequence[FieldPatch], paths: Sequence[Steps], rows: RowPlan | None
) -> None:
    """Apply all steps to `tree`, in place; the first that does not fit is refused."""
    for place, (patch, steps) in enumerate(zip(patches, paths, strict=True)):
        where = f"/patches/{place}"
        if patch.kind == PatchKind.SET:
            value = None if patch.value_json is None else json_text.check(patch.value_json)
            if rows is not None:
                check_value(rows, steps[0], value, f"{where}/valueJson")
            _parent(tree, steps, where)[steps[-1]] = value
        else:
            _parent(tree, steps, where).pop(steps[-1], None)


def _parent(tree: dict[str, Any], steps: Steps, where: str) -> dict[str, Any]:
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
            detail = "A patch cannot change an item inside an array."
            refuse(ErrorCode.UNSUPPORTED_CAPABILITY, detail, f"{where}/path", "a member of an object")
    detail = "A parent of the patched field is missing or no object."
    refuse(ErrorCode.VALIDATION, detail, f"{where}/path", "a member of an object that is there")
