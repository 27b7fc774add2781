"""One tenant takes all that one principal may have; the control lane and other tenants do not notice."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import psutil
import pytest

from harness.acknowledged import COLLECTION, DATABASE, DOMAIN, partition_of
from harness.cluster import Cluster
from harness.doors import mcp_door
from harness.leftovers import abort, broken, call, mcp_calls, settled, state_of
from harness.raw_http import Connection, mcp_call, request
from keyload.client import AsyncClient
from keyload.contract.catalog import ResourceDefinition, ResourceKind
from keyload.contract.documents import GetDocumentRequest, PutDocument
from keyload.contract.limits import LIMITS
from keyload.contract.security import ApiKeyRecord, PrincipalRecord, ScopeGrant
from keyload.contract.shared import EntityRef, PartitionRef

HOLDERS = 200
OF_PRINCIPAL = int(LIMITS["admission.http.maxPrincipalRequests"].value)
ROUNDS = 10


def reference(tenant: str, name: str = "one") -> EntityRef:
    partition = msgspec.structs.replace(partition_of("crowd"), tenant_id=tenant)
    return EntityRef(partition=partition, collection=COLLECTION, id=name)


async def tenant_with_key(administrator: AsyncClient, tenant: str) -> str:
    """A tenant with a collection, and the key of a principal that may read and write it."""
    definition = ResourceDefinition(
        name=COLLECTION, kind=ResourceKind.COLLECTION, transaction_domain_id=DOMAIN
    )
    await administrator.resources_configure(tenant, DATABASE, definition)
    grant = ScopeGrant(database=DATABASE, resource=COLLECTION, capabilities="DocumentsRead, DocumentsWrite")
    principal = PrincipalRecord(id=tenant, tenant_id=tenant, grants=(grant,), field_grants=())
    await administrator.principals_configure(principal)
    key = f"{tenant}.{secrets.token_urlsafe(24)}"
    verifier = hashlib.sha256(key.encode()).hexdigest()
    await administrator.credentials_configure(ApiKeyRecord(id=tenant, principal_id=tenant, verifier=verifier))
    return key


@asynccontextmanager
async def crowd(url: str, key: str) -> AsyncIterator[int]:
    """200 connections of one principal, each with a read whose last byte does not come; how many of them
    were refused.
    """
    body = msgspec.json.encode(GetDocumentRequest(reference=reference("nobody")))
    sent = request("POST", "/v1/documents/get", key, body)
    opened = [await Connection.open(url) for _ in range(HOLDERS)]
    answers = [asyncio.create_task(connection.ask(sent[:-1])) for connection in opened]
    try:
        async with asyncio.timeout(20):
            while sum(answer.done() for answer in answers) < HOLDERS - OF_PRINCIPAL:
                await asyncio.sleep(0.02)
        refused = [answer.result() for answer in answers if answer.done()]
        for status, told in refused:
            assert status == 429
            assert msgspec.json.decode(told)["errorCode"] == "ResourceExhausted"
        yield len(refused)
    finally:
        for answer in answers:
            answer.cancel()
        await asyncio.gather(*answers, return_exceptions=True)
        for connection in opened:
            connection.close()


async def works(client: AsyncClient, partition: PartitionRef, number: int) -> None:
    """A write and a read of it."""
    put = PutDocument(collection=COLLECTION, id=f"n{number}", json='{"a":1}')
    await client.documents_commit(partition, [put], retries=0)
    found = await client.documents_get(
        EntityRef(partition=partition, collection=COLLECTION, id=put.id), retries=0
    )
    assert found is not None


@pytest.mark.covers("ADM-4", "ADM-5", "ADM-8", "ADM-9", "ADM-31", "CON-177", "CON-179")
def test_a_crowd_of_one_tenant_leaves_control_and_other_tenants_working(cluster: Cluster) -> None:
    asyncio.run(crowd_one_node(cluster))


async def crowd_one_node(cluster: Cluster) -> None:
    url, front = cluster.urls[0], cluster.front(1)
    assert front is not None
    suffix = uuid.uuid4().hex[:8]
    async with AsyncClient(url, cluster.key, retries=0) as administrator:
        full, other = f"full-{suffix}", f"other-{suffix}"
        full_key = await tenant_with_key(administrator, full)
        other_key = await tenant_with_key(administrator, other)
        await settled(front, url, cluster.key)
        async with crowd(url, full_key) as refused, AsyncClient(url, other_key, retries=0) as client:
            assert refused == HOLDERS - OF_PRINCIPAL
            held = (await administrator.admin_admission()).http
            assert held.node.commands == held.verified_scopes.commands == OF_PRINCIPAL + 1
            assert held.verified_scopes.active_tenant_scopes == 2
            for number in range(ROUNDS):
                await works(client, reference(other).partition, number)
            for paused in (True, False):
                assert await administrator.admin_dispatch(paused) is paused
            async with mcp_door(url, other_key, 10.0) as agent:
                assert await agent.get(reference(other, "n0"))
            await refused_then_served(url, full_key, full)
        await settled(front, url, cluster.key)
        async with AsyncClient(url, full_key, retries=0) as again:
            await works(again, reference(full).partition, 0)


async def refused_then_served(url: str, key: str, tenant: str) -> None:
    """The principal itself: its data calls are refused, those of the control lane are not."""
    connection = await Connection.open(url)
    body = msgspec.json.encode(GetDocumentRequest(reference=reference(tenant)))
    status, _ = await connection.ask(request("POST", "/v1/documents/get", key, body))
    assert status == 429
    status, _ = await connection.ask(mcp_call(key, "tools/list", {}))
    assert status == 200
    connection.close()


@pytest.mark.covers("ADM-7", "ADM-11", "MCP-40")
def test_calls_and_broken_connections_leave_a_node_as_it_was(cluster: Cluster) -> None:
    asyncio.run(leave_nothing(cluster.urls[0], cluster.key, cluster.front(1)))


async def leave_nothing(url: str, key: str, front: psutil.Process | None) -> None:
    assert front is not None
    await call(url, mcp_calls(key), 500)
    before = await settled(front, url, key)
    await call(url, mcp_calls(key), 500)
    await abort(url, broken(key), 500)
    after = await settled(front, url, key, lambda state: state.descriptors <= before.descriptors)
    assert after.requests == 0
    assert (await state_of(front, url, key)).requests == 0
