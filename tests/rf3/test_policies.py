"""A new field policy holds from the next read and the next write on every node (SEC-36..SEC-39)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from contextlib import AsyncExitStack

import pytest
from msgspec.structs import replace

from harness.cluster import Cluster
from keyload.client import AsyncClient
from keyload.contract.catalog import ResourceDefinition, ResourceKind, SensitiveFieldPolicy
from keyload.contract.documents import FieldPatch, PatchDocument, PatchKind, PutDocument
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.security import ApiKeyRecord, PrincipalRecord, ScopeGrant
from keyload.contract.shared import EntityRef, PartitionRef

ROUNDS = 20
TENANT, DATABASE, DOMAIN = "system", "policies", "main"
TEXT = '{ "name": "n",  "ssn": 1.50 }'


@pytest.mark.covers("SEC-38", "SEC-36", "SEC-39", "SEC-41", "CON-103")
def test_a_new_policy_holds_at_the_next_call_on_every_node(cluster: Cluster, seed: int) -> None:
    asyncio.run(back_and_forth(cluster, seed))


async def back_and_forth(cluster: Cluster, seed: int) -> None:
    """The policy comes and goes; what is stored stays as it was written."""
    name = f"c{seed}"
    partition = PartitionRef(
        tenant_id=TENANT, database_id=DATABASE, transaction_domain_id=DOMAIN, partition_key=name
    )
    reference = EntityRef(partition=partition, collection=name, id="1")
    patch = FieldPatch(path="/ssn", kind=PatchKind.REMOVE)
    forbidden = PatchDocument(collection=name, id="1", patches=(patch,), expected_revision=1)
    definition = ResourceDefinition(name=name, kind=ResourceKind.COLLECTION, transaction_domain_id=DOMAIN)
    async with AsyncExitStack() as stack:
        administrators = [
            await stack.enter_async_context(AsyncClient(url, cluster.key)) for url in cluster.urls
        ]
        definition = await administrators[0].resources_configure(TENANT, DATABASE, definition)
        put = PutDocument(collection=name, id="1", json=TEXT)
        await administrators[0].documents_commit(partition, [put])
        key = await reader_of(administrators[0], name)
        readers = [await stack.enter_async_context(AsyncClient(url, key)) for url in cluster.urls]
        for number in range(ROUNDS):
            protected = number % 2 == 0
            policy = SensitiveFieldPolicy(path="/ssn", classification="pii")
            definition = await changed(
                administrators[number % 3], replace(definition, field_policies=(policy,) * protected)
            )
            for found in await asyncio.gather(*(reader.documents_get(reference) for reader in readers)):
                assert found is not None
                assert (found.revision, found.redacted) == (1, protected)
                assert found.redacted_fields == ("/ssn",) * protected
                assert json.loads(found.json) == {"name": "n"} if protected else found.json == TEXT
            for reader in readers if protected else ():
                with pytest.raises(KeyLoadError) as caught:
                    await reader.documents_commit(partition, [forbidden])
                assert caught.value.code is ErrorCode.PERMISSION_DENIED


async def reader_of(administrator: AsyncClient, name: str) -> str:
    """The key of a principal with every capability and no field grant."""
    grant = ScopeGrant(database=DATABASE, resource=name, capabilities="All")
    principal = PrincipalRecord(id=name, tenant_id=TENANT, grants=(grant,), field_grants=())
    await administrator.principals_configure(principal)
    key = f"{name}.0123456789abcdef"
    verifier = hashlib.sha256(key.encode()).hexdigest()
    await administrator.credentials_configure(ApiKeyRecord(id=name, principal_id=name, verifier=verifier))
    return key


async def changed(administrator: AsyncClient, definition: ResourceDefinition) -> ResourceDefinition:
    """Replace a definition by its next version; the same command gives it again, another is too late."""
    version = definition.schema_version
    wanted = replace(definition, schema_version=version + 1)
    command = str(uuid.uuid4())
    for _ in range(2):
        stored = await administrator.resources_configure(
            TENANT, DATABASE, wanted, version, command_id=command
        )
        assert stored == wanted
    with pytest.raises(KeyLoadError) as caught:
        await administrator.resources_configure(TENANT, DATABASE, wanted, version)
    assert caught.value.code is ErrorCode.REVISION_CONFLICT
    return wanted
