"""Protected fields: which policy meets which path, what is withheld on output, what a write needs
(SEC-26..SEC-31)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from keyload.codec.places import pointer_of
from keyload.contract.catalog import SensitiveFieldPolicy
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.models.pointers import Steps, item_number, steps_of, value_at
from keyload.models.security.rights import Rights

REPLACE_SENSITIVE = "document.replaceSensitive"
_WILD = "*"


class FieldPolicy(msgspec.Struct, frozen=True):
    """One policy with its path taken apart."""

    steps: Steps
    read: str
    use: str
    write: str


def compile_policies(policies: Sequence[SensitiveFieldPolicy]) -> tuple[FieldPolicy, ...]:
    """The policies of a resource in the form the functions below take."""
    return tuple(
        FieldPolicy(
            steps=steps_of(policy.path),
            read=policy.raw_read_grant,
            use=policy.raw_use_grant,
            write=policy.write_grant,
        )
        for policy in policies
    )


def overlap(one: Steps, other: Steps) -> bool:
    """Whether either path is a prefix of the other, a `*` step meeting any (SEC-28)."""
    return all(a == b or _WILD in (a, b) for a, b in zip(one, other, strict=False))


def require_use(policies: Sequence[FieldPolicy], rights: Rights, path: Steps) -> None:
    """`PermissionDenied` unless the caller may use every protected path that overlaps `path`."""
    for policy in policies:
        if overlap(policy.steps, path) and not rights.holds(policy.use):
            raise KeyLoadError(ErrorCode.PERMISSION_DENIED, "A protected field may not be used here.")


def require_write(policies: Sequence[FieldPolicy], rights: Rights, path: Steps) -> None:
    """`PermissionDenied` unless the caller may write every protected path that overlaps `path` (SEC-30)."""
    for policy in policies:
        if overlap(policy.steps, path) and not rights.holds(policy.write):
            raise KeyLoadError(ErrorCode.PERMISSION_DENIED, "A protected field may not be written.")


def require_write_of_tree(policies: Sequence[FieldPolicy], rights: Rights, tree: Any) -> None:
    """`PermissionDenied` unless the caller may write every protected value that `tree` holds.

    Equal values count as written: telling them apart would let a caller probe what it cannot read.
    """
    for policy in policies:
        if not rights.holds(policy.write) and _present(tree, policy.steps):
            raise KeyLoadError(ErrorCode.PERMISSION_DENIED, "A protected field may not be written.")


def holds_unreadable(policies: Sequence[FieldPolicy], rights: Rights, tree: Any) -> bool:
    """Whether `tree` holds a protected value the caller may not read (DOC-16)."""
    return any(not rights.holds(policy.read) and _present(tree, policy.steps) for policy in policies)


def redact(policies: Sequence[FieldPolicy], rights: Rights, tree: Any) -> list[str]:
    """Take what the caller may not read out of `tree`, in place; the pointers of what was taken (DOC-19).

    A member is left out, an array item becomes null. Inside something withheld nothing more is listed.
    """
    found = {
        path
        for policy in policies
        if not rights.holds(policy.read)
        for path in _paths(tree, policy.steps, ())
    }
    outermost = [
        path for path in sorted(found) if not any(path[:length] in found for length in range(len(path)))
    ]
    for path in outermost:
        _withhold(tree, path)
    return [pointer_of(path) for path in outermost]


def withheld(policies: Sequence[FieldPolicy], rights: Rights) -> bool:
    """Whether any policy hides something from the caller, so that a text has to be looked into."""
    return any(not rights.holds(policy.read) for policy in policies)


def _children(tree: Any, step: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict):
        members = cast("dict[str, Any]", tree)
        if step == _WILD:
            yield from list(members.items())
        elif step in members:
            yield step, members[step]
    elif isinstance(tree, list):
        items = cast("list[Any]", tree)
        if step == _WILD:
            yield from ((str(number), item) for number, item in enumerate(items))
        else:
            number = item_number(step)
            if number is not None and number < len(items):
                yield step, items[number]


def _paths(tree: Any, steps: Steps, walked: Steps) -> Iterator[Steps]:
    if not steps:
        yield walked
        return
    for step, child in _children(tree, steps[0]):
        yield from _paths(child, steps[1:], (*walked, step))


def _present(tree: Any, steps: Steps) -> bool:
    return next(_paths(tree, steps, ()), None) is not None


def _withhold(tree: Any, path: Steps) -> None:
    parent = value_at(tree, path[:-1])
    if isinstance(parent, dict):
        del parent[path[-1]]
    else:
        parent[int(path[-1])] = None
