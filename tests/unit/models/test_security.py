"""Principals, keys, bootstrap and what rights mean (security.md)."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from keyload.contract import capabilities
from keyload.contract.catalog import ConfigureResourceRequest
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.security import (
    ApiKeyRecord,
    ConfigureApiKeyRequest,
    ConfigurePrincipalRequest,
    PrincipalRecord,
    ScopeGrant,
)
from keyload.link.launch import Bootstrap
from keyload.link.messages import INTERNAL, Command
from keyload.models.catalog.rows import FreshCatalog
from keyload.models.pointers import steps_of
from keyload.models.security.fields import compile_policies, overlap, require_use
from keyload.models.security.rights import Rights, rights_of
from keyload.worker.internal import BOOTSTRAP
from tests.unit.shards import ROOT, SECOND, START, Shard, code_of, collection, principal

from .conftest import OpenShard
from .test_catalog import CONFIGURE, configure, fed
from .test_documents import policy

PRINCIPALS = "keyload_principals_configure"
KEYS = "keyload_credentials_configure"
VERIFIER = hashlib.sha256(b"key.secret").hexdigest()


def bootstrap(shard: Shard, key_id: str = "root") -> bool:
    payload = msgspec.msgpack.encode(Bootstrap(key_id=key_id, verifier=VERIFIER))
    command = Command(
        call=0,
        shard=0,
        operation=BOOTSTRAP,
        principal=INTERNAL,
        catalog_version=0,
        command_id=bytes(16),
        fingerprint=bytes(32),
        partition=None,
        payload=payload,
    )
    answer = shard.run(command)[0]
    assert answer is not None
    outside = msgspec.structs.replace(command, principal="nobody")
    assert code_of(shard.run(outside)[0]) == ErrorCode.UNAUTHENTICATED
    return msgspec.json.decode(answer.payload)


@pytest.fixture
def system(open_shard: OpenShard) -> Shard:
    shard = open_shard(shard=0)
    assert bootstrap(shard)
    return shard


def save(shard: Shard, record: PrincipalRecord, by: str = "root") -> PrincipalRecord:
    return shard.call(PRINCIPALS, ConfigurePrincipalRequest(principal=record), by=by)


def save_key(shard: Shard, by: str = "root", **members: Any) -> bool:
    values: dict[str, Any] = {"id": "key", "principal_id": "ann", "verifier": VERIFIER} | members
    return shard.call(KEYS, ConfigureApiKeyRequest(api_key=ApiKeyRecord(**values)), by=by)


def refused(act: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(KeyLoadError) as caught:
        act(*arguments, **options)
    return str(caught.value.code)


@pytest.mark.covers("SEC-6")
def test_bootstrap_works_on_an_empty_store_only(open_shard: OpenShard) -> None:
    shard = open_shard(shard=0)
    assert bootstrap(shard)
    assert not bootstrap(shard, "other")
    assert fed(shard).principal("root") == ROOT
    assert fed(shard).key("root") == ApiKeyRecord(id="root", principal_id="root", verifier=VERIFIER)
    assert fed(shard).key("other") is None
    save(shard, replace(ROOT, revoked=True))
    assert not bootstrap(shard)
    assert shard.last is not None
    assert shard.last.writes == {}


@pytest.mark.covers("SEC-13", "CON-101")
def test_policy_epochs_rise_with_every_change(system: Shard) -> None:
    ann = principal()
    assert save(system, replace(ann, policy_epoch=5)).policy_epoch == 5
    assert save(system, replace(ann, policy_epoch=9)).policy_epoch == 5
    assert save(system, ann).policy_epoch == 5
    assert save(system, replace(ann, revoked=True)).policy_epoch == 6
    assert save(system, replace(ann, revoked=False, policy_epoch=20)).policy_epoch == 20
    assert save(system, replace(ann, owner_id="o", policy_epoch=20)).policy_epoch == 21
    stored = fed(system).principal("ann")
    assert stored == replace(ann, owner_id="o", policy_epoch=21)
    save(system, replace(ann, policy_epoch=2**63 - 1))
    assert refused(save, system, replace(ann, owner_id="p")) == ErrorCode.RESOURCE_EXHAUSTED


@pytest.mark.covers("SEC-14")
def test_a_principal_keeps_its_tenant(system: Shard) -> None:
    save(system, principal())
    assert refused(save, system, principal(tenant_id="other")) == ErrorCode.CONFLICT


def manager(**more: Any) -> PrincipalRecord:
    grants = (
        ScopeGrant(database="*", resource="*", capabilities="SecurityManage"),
        ScopeGrant(database="shop", resource="*", capabilities="DocumentsRead, Query"),
        ScopeGrant(database="shop", resource="orders", capabilities="DocumentsWrite"),
    )
    return principal("manager", grants=grants, field_grants=("pii.read",), **more)


def given(capability: str, database: str = "shop", resource: str = "*", **more: Any) -> PrincipalRecord:
    return principal("new", capability, database=database, resource=resource, **more)


@pytest.mark.covers("SEC-10", "SEC-11", "CON-100")
def test_managers_give_no_more_than_they_hold(system: Shard) -> None:
    for record in (manager(), principal("narrow", "SecurityManage", database="shop"), principal("foe")):
        save(system, record)
    assert save(system, given("DocumentsRead"), by="manager").id == "new"
    assert save(system, given("Query, DocumentsRead", resource="x"), by="manager").policy_epoch == 2
    assert save(system, given("None", "*", field_grants=("pii.read",)), by="manager").policy_epoch == 3
    assert save(system, given("DocumentsWrite", resource="orders"), by="manager").policy_epoch == 4
    for wrong in (
        given("DocumentsRead", "*"),
        given("DocumentsWrite"),
        given("DocumentsRead, DocumentsWrite", resource="orders"),
        given("All"),
        given("None", field_grants=("pii.write",)),
        given("None", field_grants=("*",)),
        given("None", cluster_administrator=True),
        given("None", tenant_id="other"),
    ):
        assert refused(save, system, wrong, by="manager") == ErrorCode.PERMISSION_DENIED
    assert refused(save, system, given("None"), by="narrow") == ErrorCode.PERMISSION_DENIED
    assert refused(save, system, given("None"), by="new") == ErrorCode.PERMISSION_DENIED
    assert refused(save, system, principal("root", "None"), by="manager") == ErrorCode.PERMISSION_DENIED


@pytest.mark.covers("SEC-11", "CON-100")
def test_managers_make_keys_for_nobody_who_holds_more(system: Shard) -> None:
    save(system, manager())
    save(system, principal("rich", "SecurityManage, EventsRead"))
    save(system, principal("seer", "None", field_grants=("*",)))
    save(system, principal("equal", "DocumentsRead", database="shop"))
    assert save_key(system, by="manager", id="own", principal_id="manager")
    assert save_key(system, by="manager", id="equal", principal_id="equal")
    for name in ("rich", "seer"):
        assert refused(save_key, system, by="manager", id=name, principal_id=name) == "PermissionDenied"
        assert save_key(system, id=name, principal_id=name)
        assert save_key(system, by="manager", id=name, principal_id=name, revoked=True)


@pytest.mark.covers("SEC-11", "SEC-23")
def test_who_sees_some_rows_lets_nobody_see_others(system: Shard) -> None:
    rows: dict[str, Any] = {"restrict_rows": True, "owner_id": "o1", "projects": ("p1", "p2")}
    save(system, manager(**rows))
    for right in ({}, {"owner_id": "o1"}, {"projects": ("p2",)}, {"owner_id": "o1", "projects": ("p1",)}):
        assert save(system, given("None", restrict_rows=True, **right), by="manager").id == "new"
    for wrong in ({"restrict_rows": False}, {"owner_id": "o2"}, {"projects": ("p1", "p3")}):
        more = {"restrict_rows": True} | wrong
        assert refused(save, system, given("None", **more), by="manager") == "PermissionDenied"
    assert refused(save, system, manager(), by="manager") == "PermissionDenied"
    save(system, given("None"))
    assert refused(save_key, system, by="manager", id="k", principal_id="new") == "PermissionDenied"


@pytest.mark.covers("SEC-10", "SEC-11", "SEC-14", "SEC-15")
def test_keys(system: Shard) -> None:
    save(system, principal("ann", "DocumentsRead", database="shop"))
    save(system, manager())
    save(system, principal("far", tenant_id="other"))
    assert save_key(system)
    assert save_key(system, by="manager", id="key2")
    epoch = fed(system).principal("ann")
    assert save_key(system, revoked=True, expires_at="2026-01-01T00:00:00+00:00")
    assert fed(system).key("key") == ApiKeyRecord(
        id="key",
        principal_id="ann",
        verifier=VERIFIER,
        revoked=True,
        expires_at="2026-01-01T00:00:00+00:00",
    )
    assert fed(system).principal("ann") == epoch
    assert refused(save_key, system, principal_id="none") == ErrorCode.NOT_FOUND
    assert refused(save_key, system, by="manager", principal_id="none") == ErrorCode.NOT_FOUND
    assert refused(save_key, system, by="ann") == ErrorCode.PERMISSION_DENIED
    for name in ("root", "far"):
        assert refused(save_key, system, by="manager", principal_id=name) == ErrorCode.PERMISSION_DENIED
    assert refused(save_key, system, by="manager", id="root") == ErrorCode.PERMISSION_DENIED
    assert save_key(system, principal_id="far")
    assert refused(save_key, system, by="manager", principal_id="ann") == ErrorCode.PERMISSION_DENIED


@pytest.mark.covers("SEC-3", "CON-102")
def test_a_revocation_holds_for_the_next_command_of_the_batch(system: Shard) -> None:
    save(system, principal("maker", "SchemaManage"))
    revoke = system.command(
        PRINCIPALS,
        ConfigurePrincipalRequest(principal=principal("maker", "SchemaManage", revoked=True)),
        by="root",
    )
    act = system.command(
        CONFIGURE,
        ConfigureResourceRequest(tenant_id="acme", database_id="shop", definition=collection()),
        by="maker",
    )
    assert [code_of(answer) for answer in system.run(revoke, act)] == ["ok", ErrorCode.UNAUTHENTICATED]
    assert configure(system, collection()).name == "orders"


@pytest.mark.covers("SEC-17", "SEC-18", "SEC-21", "CON-92", "CON-93", "CON-94")
def test_one_single_grant_holds_everything() -> None:
    read, write = capabilities.mask("DocumentsRead"), capabilities.mask("DocumentsWrite")
    grants = (
        ScopeGrant(database="shop", resource="*", capabilities="DocumentsRead"),
        ScopeGrant(database="*", resource="orders", capabilities="DocumentsWrite"),
    )
    rights = Rights(principal(grants=grants))
    assert rights.allows("acme", "shop", "orders", read)
    assert rights.allows("acme", "any", "orders", write)
    assert not rights.allows("acme", "shop", "orders", read | write)
    assert not rights.allows("acme", "any", "orders", read)
    assert not rights.allows("acme", "shop", "ordersx", write)
    assert not rights.allows("Acme", "shop", "orders", read)
    assert not Rights(principal(grants=())).allows("acme", "shop", "orders", read)
    assert Rights(ROOT).allows("acme", "shop", "orders", read | write)
    assert not Rights(ROOT).granted("acme", "shop", "orders", read)
    for number in range(1500):
        assert rights.allows("acme", "shop", f"n{number}", read)
    assert rights.allows("acme", "shop", "orders", read)


@pytest.mark.covers("SEC-23", "CON-95")
def test_row_visibility() -> None:
    free, bound = Rights(principal()), Rights(principal(owner_id="o", projects=("p",), restrict_rows=True))
    empty = Rights(principal(restrict_rows=True))
    for owner, project, seen in (
        (None, None, False),
        ("o", None, True),
        ("x", None, False),
        (None, "p", True),
        ("x", "p", True),
        ("o", "q", True),
        ("x", "q", False),
    ):
        assert free.sees_row(owner, project)
        assert bound.sees_row(owner, project) is seen
        assert not empty.sees_row(owner, project)
    assert Rights(replace(ROOT, restrict_rows=True)).sees_row("x", "q")


@pytest.mark.covers("SEC-4")
def test_expiry_is_exact() -> None:
    rights = Rights(principal(expires_at="2024-10-04T00:00:01+00:00"))
    assert rights.valid_at(START + SECOND - 1)
    assert not rights.valid_at(START + SECOND)
    assert not Rights(principal(revoked=True)).valid_at(START)


def test_rights_are_parsed_once_per_record() -> None:
    records = [principal(f"p{number}") for number in range(2000)]
    assert rights_of(records[0]) is rights_of(records[0])
    assert [rights_of(record).record for record in records] == records


@pytest.mark.covers("SEC-26", "SEC-28", "SEC-29", "CON-97")
@pytest.mark.parametrize(
    ("protected", "path", "meets"),
    [
        ("/a", "/a", True),
        ("/a", "/a/b", True),
        ("/a/b", "/a", True),
        ("/a/*/c", "/a/0", True),
        ("/a/*/c", "/a/0/c/d", True),
        ("/a/*/c", "/a/0/d", False),
        ("/a/0", "/a/*", True),
        ("/a", "/ab", False),
        ("/a~1b", "/a/b", False),
        ("/a", "", True),
    ],
)
def test_overlap(protected: str, path: str, meets: bool) -> None:
    assert overlap(steps_of(protected), steps_of(path)) is meets
    policies = compile_policies([policy(protected)])
    require_use(policies, Rights(principal(field_grants=("pii.use",))), steps_of(path))
    require_use(policies, Rights(ROOT), steps_of(path))
    reader = Rights(principal(field_grants=("pii.read", "pii.write")))
    if meets:
        with pytest.raises(KeyLoadError) as caught:
            require_use(policies, reader, steps_of(path))
        assert caught.value.code == ErrorCode.PERMISSION_DENIED
    else:
        require_use(policies, reader, steps_of(path))


def test_fresh_rows(system: Shard) -> None:
    configure(system, collection())
    with system.store.reader() as reader:
        catalog = FreshCatalog(reader)
        assert [row.name for row in catalog.resources("acme", "shop")] == ["orders"]
        assert not catalog.dispatch_paused
        assert catalog.key("none") is None
