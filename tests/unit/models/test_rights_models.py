"""Grants, overlaps and redaction compared with slow models that enumerate what they speak of."""

from __future__ import annotations

import json
from copy import deepcopy
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from keyload.codec.places import pointer_of
from keyload.contract import capabilities
from keyload.contract.documents import FieldPatch, PatchKind
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.security import PrincipalRecord, ScopeGrant
from keyload.models.documents.patches import apply_patches, patch_paths
from keyload.models.pointers import Steps
from keyload.models.security import fields
from keyload.models.security.fields import FieldPolicy, overlap
from keyload.models.security.rights import Rights
from tests.unit.shards import principal

# -- grants: a grant is the set of the (database, resource, capability) it opens

NAMES = ("a", "b", "*")
PLACES = ("a", "b", "z", "*")  # `z` stands for every name that no grant spells, `*` for one that is called so
FLAGS = ("DocumentsRead", "DocumentsWrite", "Query")
Opened = set[tuple[str, str, str]]

grants = st.builds(
    ScopeGrant,
    database=st.sampled_from(NAMES),
    resource=st.sampled_from(NAMES),
    capabilities=st.sets(st.sampled_from(FLAGS)).map(lambda names: ", ".join(sorted(names)) or "None"),
)
needs = st.sets(st.sampled_from(FLAGS), min_size=1)


def opened(grant: ScopeGrant) -> Opened:
    return {
        place
        for place in product(PLACES, PLACES, FLAGS)
        if grant.database in ("*", place[0])
        and grant.resource in ("*", place[1])
        and place[2] in grant.capabilities.split(", ")
    }


def who(given_grants: list[ScopeGrant], **more: Any) -> PrincipalRecord:
    return principal(grants=tuple(given_grants), **more)


def mask_of(names: set[str]) -> int:
    return capabilities.mask(", ".join(sorted(names)))


@pytest.mark.covers("SEC-17", "SEC-18", "SEC-21", "CON-92", "CON-93", "CON-94")
@given(st.lists(grants, max_size=4), needs, st.sampled_from(["acme", "Acme", "*"]), st.booleans())
def test_one_grant_alone_opens_what_it_opens(
    held: list[ScopeGrant], needed: set[str], tenant: str, administrator: bool
) -> None:
    rights = Rights(who(held, cluster_administrator=administrator))
    for database, resource in product(PLACES, PLACES):
        wanted = {(database, resource, name) for name in needed}
        expected = tenant == "acme" and any(wanted <= opened(grant) for grant in held)
        for _ in range(2):  # decided anew, and remembered
            assert rights.allows(tenant, database, resource, mask_of(needed)) is (expected or administrator)
        assert rights.granted(tenant, database, resource, mask_of(needed)) is expected


@pytest.mark.covers("SEC-11", "CON-100")
@given(st.lists(grants, max_size=4), grants)
@example([ScopeGrant(database="*", resource="a", capabilities="Query")],
         ScopeGrant(database="*", resource="*", capabilities="Query"))  # fmt: skip
def test_what_may_be_given_on_lies_inside_one_own_grant(held: list[ScopeGrant], wanted: ScopeGrant) -> None:
    mask = capabilities.mask(wanted.capabilities)
    covered = Rights(who(held)).covers(wanted.database, wanted.resource, mask)
    if mask:
        assert covered is any(opened(wanted) <= opened(grant) for grant in held)


@pytest.mark.covers("SEC-23", "CON-95")
@given(*[st.sampled_from([None, "x", "y", ""])] * 3, st.sets(st.sampled_from(["x", "y"])), st.booleans())
def test_rows(
    owner: str | None, project: str | None, own: str | None, projects: set[str], bound: bool
) -> None:
    rights = Rights(who([], owner_id=own, projects=tuple(projects), restrict_rows=bound))
    same_owner = owner is not None and own is not None and owner == own
    assert rights.sees_row(owner, project) is (not bound or same_owner or project in projects)


# -- paths: a pattern is the set of the plain paths it meets

STEPS = ("a", "b", "0", "1")
ANY = "*"
patterns = st.lists(st.sampled_from((*STEPS, ANY)), min_size=1, max_size=3).map(tuple)
plain_paths = st.lists(st.sampled_from(STEPS), min_size=1, max_size=3).map(tuple)


def met(pattern: Steps) -> list[Steps]:
    """Every path a pattern stands for, with one step `z` for all that nobody spells."""
    return list(product(*((*STEPS, "z") if step == ANY else (step,) for step in pattern)))


def meets(pattern: Steps, path: Steps) -> bool:
    return len(path) == len(pattern) and all(a in (ANY, b) for a, b in zip(pattern, path, strict=True))


@pytest.mark.covers("SEC-26", "SEC-28", "SEC-30", "CON-97")
@given(patterns, patterns)
@example(("a", ANY), (ANY, "b", "0"))
def test_overlap_is_that_of_some_plain_paths(one: Steps, other: Steps) -> None:
    expected = any(a[: len(b)] == b or b[: len(a)] == a for a, b in product(met(one), met(other)))
    assert overlap(one, other) is expected
    assert overlap(other, one) is expected
    assert overlap(one, ())


# -- trees: what is at which path

leaves = st.none() | st.booleans() | st.integers(0, 9) | st.text("xy", max_size=2)
trees = st.recursive(
    leaves,
    lambda children: (
        st.dictionaries(st.sampled_from(STEPS), children, max_size=3) | st.lists(children, max_size=3)
    ),
    max_leaves=12,
)
documents = st.dictionaries(st.sampled_from(STEPS), trees, max_size=4)
GRANTS = ("r", "u", "w")
policies = st.lists(
    st.builds(
        FieldPolicy,
        steps=patterns,
        read=st.sampled_from(GRANTS),
        use=st.sampled_from(GRANTS),
        write=st.sampled_from(GRANTS),
    ),
    max_size=3,
)
holders = st.sets(st.sampled_from((*GRANTS, "*"))).map(
    lambda names: Rights(who([], field_grants=tuple(names)))
)


def nodes(tree: Any, walked: Steps = ()) -> dict[Steps, Any]:
    """Every value inside a tree by its path, the tree itself too."""
    found = {walked: tree}
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, child in children:
        found |= nodes(child, (*walked, str(name)))
    return found


def kept(tree: Any, hidden: set[Steps], walked: Steps = ()) -> Any:
    """A copy without what is hidden: members are gone, items are null."""
    if isinstance(tree, dict):
        return {
            name: kept(child, hidden, (*walked, name))
            for name, child in tree.items()
            if (*walked, name) not in hidden
        }
    if isinstance(tree, list):
        paths = [(*walked, str(number)) for number in range(len(tree))]
        return [
            None if path in hidden else kept(child, hidden, path)
            for path, child in zip(paths, tree, strict=True)
        ]
    return tree


def holds(rights: Rights, grant: str) -> bool:
    return grant in rights.record.field_grants or "*" in rights.record.field_grants


@pytest.mark.covers("SEC-26", "SEC-27", "CON-96", "DOC-16", "DOC-19")
@given(documents, policies, holders)
def test_redaction_leaves_exactly_what_may_be_read(
    tree: Any, protected: list[FieldPolicy], rights: Rights
) -> None:
    unread = [policy.steps for policy in protected if not holds(rights, policy.read)]
    hidden = {path for path in nodes(tree) if any(meets(steps, path) for steps in unread)}
    outermost = {path for path in hidden if not any(path[:n] in hidden for n in range(len(path)))}
    shown = deepcopy(tree)
    listed = fields.redact(protected, rights, shown)
    assert shown == kept(tree, hidden)
    assert sorted(listed) == sorted(pointer_of(path) for path in outermost)
    assert fields.holds_unreadable(protected, rights, tree) is bool(hidden)
    assert fields.withheld(protected, rights) is bool(unread)


@pytest.mark.covers("SEC-30", "CON-98", "DOC-17")
@given(documents, policies, holders)
def test_a_tree_needs_the_write_grant_of_everything_it_holds(
    tree: Any, protected: list[FieldPolicy], rights: Rights
) -> None:
    unwritten = [policy.steps for policy in protected if not holds(rights, policy.write)]
    touched = any(meets(steps, path) for steps in unwritten for path in nodes(tree))
    assert allowed(fields.require_write_of_tree, protected, rights, tree) is not touched


@pytest.mark.covers("SEC-28", "SEC-29", "SEC-30", "CON-97", "CON-98")
@given(policies, holders, plain_paths)
def test_use_and_write_need_their_own_grant(
    protected: list[FieldPolicy], rights: Rights, path: Steps
) -> None:
    near = [policy for policy in protected if overlap(policy.steps, path)]
    assert allowed(fields.require_use, protected, rights, path) is all(holds(rights, p.use) for p in near)
    assert allowed(fields.require_write, protected, rights, path) is all(holds(rights, p.write) for p in near)


@pytest.mark.covers("SEC-30", "DOC-17")
@given(documents, policies, plain_paths, st.sampled_from(PatchKind), trees)
def test_no_patch_without_the_write_grant_changes_anything_protected(
    tree: Any, protected: list[FieldPolicy], path: Steps, kind: PatchKind, value: Any
) -> None:
    """Whatever way a path leads into the document, nothing at a protected path comes, goes or changes."""
    patches = [FieldPatch(path=pointer_of(path), kind=kind, value_json=json.dumps(value))]
    (steps,) = patch_paths(patches, None)
    assume(allowed(fields.require_write, protected, Rights(who([])), steps))
    changed = deepcopy(tree)
    try:
        apply_patches(changed, patches, [steps], None)
    except KeyLoadError:
        return
    for policy in protected:
        before, after = (
            {path: value for path, value in nodes(document).items() if meets(policy.steps, path)}
            for document in (tree, changed)
        )
        assert before == after


def allowed(check: Any, *arguments: Any) -> bool:
    code: ErrorCode | None = None
    try:
        check(*arguments)
    except KeyLoadError as error:
        code = error.code
    assert code in (None, ErrorCode.PERMISSION_DENIED)
    return code is None
