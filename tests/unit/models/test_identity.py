"""Key and principal are judged once more in the cut that a call executes in (SEC-4, SEC-41)."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from keyload.codec.credentials import Credential
from keyload.codec.decoding import decode_request
from keyload.codec.instants import instant_text
from keyload.contract.catalog import AdminResourcesRequest
from keyload.contract.documents import GetDocumentRequest
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.operations import OPERATIONS
from keyload.contract.security import ApiKeyRecord, ConfigureApiKeyRequest, ConfigurePrincipalRequest
from keyload.contract.shared import EntityRef
from keyload.contract.tables import KEYS
from keyload.link.catalog import Catalog
from keyload.link.messages import INTERNAL, CatalogDelta, Read
from keyload.worker.internal import SYSTEM_COMMANDS
from tests.unit.shards import (
    PARTITION,
    ROOT,
    SECOND,
    START,
    Shard,
    code_of,
    collection,
    partition_ref,
    principal,
)

from .conftest import OpenShard
from .test_documents import put
from .test_security import bootstrap

VERIFIER = hashlib.sha256(b"key.secret").hexdigest()
CREDENTIAL = Credential("key", VERIFIER)
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("revoked", {"revoked": True}),
    ("expired", {"expires_at": instant_text(START)}),
    ("of another principal", {"principal_id": "bob"}),
    ("of another secret", {"verifier": "0" * 64}),
]


def feed_key(shard: Shard, **members: Any) -> None:
    row = ApiKeyRecord(**({"id": "key", "principal_id": "ann", "verifier": VERIFIER} | members))
    delta = CatalogDelta(shard.catalog.version + 1, False, [(KEYS, (row.id,), msgspec.msgpack.encode(row))])
    shard.catalog.apply(delta)


@pytest.fixture
def shard(open_shard: OpenShard) -> Shard:
    made = open_shard(resources=[collection()], principals=[principal(), principal("bob")])
    feed_key(made)
    return made


def write(shard: Shard, credential: Credential = CREDENTIAL) -> str:
    command = replace(shard.commit_command([put("1", "{}")]), credential=credential)
    return code_of(shard.run(command)[0])


def read(shard: Shard, credential: Credential = CREDENTIAL) -> str:
    reference = EntityRef(partition=partition_ref(), collection="orders", id="1")
    asked = Read(
        call=1,
        shard=1,
        operation="keyload_documents_get",
        principal="ann",
        catalog_version=shard.catalog.version,
        partition=PARTITION,
        payload=msgspec.msgpack.encode(GetDocumentRequest(reference=reference)),
        credential=credential,
    )
    with shard.store.reader() as reader:
        return code_of(shard.answerer.answer(asked, reader, shard.catalog, now=shard.now))


@pytest.mark.covers("SEC-3", "SEC-41", "CMD-21")
@pytest.mark.parametrize(("why", "members"), WRONG)
def test_rights_given_after_a_key_ended_are_not_for_its_calls(
    shard: Shard, why: str, members: dict[str, Any]
) -> None:
    """The front found the key good in an older version; this one has ended it, and gives more rights."""
    shard.feed(principals=[principal(capabilities="None")])
    assert (write(shard), read(shard)) == (ErrorCode.PERMISSION_DENIED, ErrorCode.PERMISSION_DENIED)
    feed_key(shard, **members)
    shard.feed(principals=[principal()])
    before = shard.content()
    assert (write(shard), read(shard)) == (ErrorCode.UNAUTHENTICATED, ErrorCode.UNAUTHENTICATED)
    assert write(shard, Credential("none", VERIFIER)) == ErrorCode.UNAUTHENTICATED
    assert shard.content() == before
    feed_key(shard)
    assert (write(shard), read(shard)) == ("ok", "ok")


@pytest.mark.covers("SEC-4")
def test_a_key_ends_at_the_logged_instant_of_a_command_and_at_the_clock_of_a_read(shard: Shard) -> None:
    feed_key(shard, expires_at=instant_text(START + SECOND))
    shard.now = START + SECOND - 1
    assert (write(shard), read(shard)) == ("ok", "ok")
    shard.now = START + SECOND
    assert (write(shard), read(shard)) == (ErrorCode.UNAUTHENTICATED, ErrorCode.UNAUTHENTICATED)
    feed_key(shard)
    shard.now = START + 2 * SECOND
    assert write(shard) == "ok"
    feed_key(shard, expires_at=instant_text(START + 2 * SECOND))
    shard.now -= 1
    assert write(shard) == ErrorCode.UNAUTHENTICATED  # its instant is never before that of the command before
    assert read(shard) == "ok"


@pytest.mark.covers("SEC-3", "CON-102")
def test_a_key_that_one_command_revokes_is_refused_for_the_next_of_the_batch(open_shard: OpenShard) -> None:
    system = open_shard(shard=0, principals=[ROOT])
    assert bootstrap(system)
    root = Credential("root", VERIFIER)
    record = ApiKeyRecord(id="root", principal_id="root", verifier=VERIFIER, revoked=True)
    revoke = system.command(
        "keyload_credentials_configure", ConfigureApiKeyRequest(api_key=record), by="root"
    )
    create = system.command(
        "keyload_principals_configure", ConfigurePrincipalRequest(principal=principal("new")), by="root"
    )
    commands = (replace(revoke, credential=root), replace(create, credential=root))
    assert [code_of(answer) for answer in system.run(*commands)] == ["ok", ErrorCode.UNAUTHENTICATED]
    assert code_of(system.run(create)[0]) == "ok"


@pytest.mark.covers("SEC-41")
def test_a_read_in_another_process_takes_the_key_along(shard: Shard) -> None:
    excerpt = Catalog()
    excerpt.apply(shard.catalog.excerpt("ann", PARTITION, CREDENTIAL))
    assert excerpt.key("key") == shard.catalog.key("key")
    excerpt.apply(shard.catalog.excerpt("ann", PARTITION, Credential("none", VERIFIER)))
    assert excerpt.key("key") is None


@pytest.mark.covers("SEC-9")
def test_the_internal_identity_can_do_nothing_else_and_nobody_else_its_work(open_shard: OpenShard) -> None:
    system = open_shard(shard=0)
    assert bootstrap(system)
    data = open_shard(resources=[collection()], principals=[ROOT])
    for operation in OPERATIONS:
        for shard in (system, data):
            command = replace(shard.commit_command([put("1", "{}")], by=INTERNAL), operation=operation)
            assert code_of(shard.run(command)[0]) == ErrorCode.NOT_FOUND, operation
    for operation in (*SYSTEM_COMMANDS, "internal.placement.close", "internal.placement.settle"):
        command = replace(system.commit_command([], by="root"), operation=operation, partition=None)
        assert code_of(system.run(command)[0]) == ErrorCode.NOT_FOUND, operation
        assert operation not in OPERATIONS
    listing = AdminResourcesRequest(tenant_id="acme", database_id="shop")
    for act in (
        lambda: system.read("keyload_admin_resources_list", listing, by=INTERNAL),
        lambda: data.get("1", by=INTERNAL),
    ):
        with pytest.raises(KeyLoadError) as caught:
            act()
        assert caught.value.code is ErrorCode.UNAUTHENTICATED


@pytest.mark.covers("SEC-9", "SEC-15", "CMD-4")
@pytest.mark.parametrize(
    ("operation", "tree"),
    [
        (
            "keyload_principals_configure",
            {"principal": {"id": INTERNAL, "tenantId": "t", "grants": [], "fieldGrants": []}},
        ),
        (
            "keyload_credentials_configure",
            {"apiKey": {"id": "k", "principalId": INTERNAL, "verifier": VERIFIER}},
        ),
        *(
            (
                "keyload_credentials_configure",
                {"apiKey": {"id": key_id, "principalId": "ann", "verifier": VERIFIER}},
            )
            for key_id in ("", "a" * 65, "a.b", "a b", "ä", "a/b", "a\n")
        ),
        *(
            (
                "keyload_credentials_configure",
                {"apiKey": {"id": "k", "principalId": "ann", "verifier": verifier}},
            )
            for verifier in ("", "0" * 63, "0" * 65, "A" * 64, "g" * 64)
        ),
    ],
)
def test_no_principal_is_called_as_the_internal_one_and_keys_have_their_form(
    operation: str, tree: dict[str, Any]
) -> None:
    with pytest.raises(KeyLoadError) as caught:
        decode_request(OPERATIONS[operation], tree)
    assert caught.value.code is ErrorCode.VALIDATION


@pytest.mark.covers("SEC-15")
@pytest.mark.parametrize("key_id", ["a", "a" * 64, "-", "_", "Az09-_"])
def test_key_ids_at_their_limits(key_id: str) -> None:
    tree = {"apiKey": {"id": key_id, "principalId": "ann", "verifier": VERIFIER}}
    assert decode_request(OPERATIONS["keyload_credentials_configure"], tree).api_key.id == key_id
