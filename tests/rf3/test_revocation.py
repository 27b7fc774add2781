"""A revoked key is refused by every node on the next request (SEC-3, SEC-16, CON-102)."""

from __future__ import annotations

import asyncio
import hashlib
import secrets

import pytest

from harness.acknowledged import COLLECTION, DATABASE, TENANT, Ledger, partition_of
from harness.cluster import Cluster
from harness.load import stream_of_commits
from keyload.client import AsyncClient, KeyLoadError
from keyload.contract.errors import ErrorCode
from keyload.contract.security import ApiKeyRecord, PrincipalRecord, ScopeGrant
from keyload.contract.shared import EntityRef

ROUNDS = 200
WRITERS = 4


@pytest.mark.covers("SEC-3", "SEC-5", "SEC-16", "SEC-41", "CON-102", "CON-31")
def test_a_revoked_key_is_refused_everywhere_on_the_next_request(cluster: Cluster, seed: int) -> None:
    asyncio.run(revoke_again_and_again(cluster, seed))


async def revoke_again_and_again(cluster: Cluster, seed: int) -> None:
    principal = PrincipalRecord(
        id=f"reader-{seed}",
        tenant_id=TENANT,
        grants=(ScopeGrant(database=DATABASE, resource=COLLECTION, capabilities="DocumentsRead"),),
        field_grants=(),
    )
    ledger = Ledger(seed + 30)
    async with (
        AsyncClient(cluster.urls[0], cluster.key) as administrator,
        stream_of_commits(ledger, cluster.urls, cluster.key, WRITERS),
    ):
        await administrator.principals_configure(principal)
        for number in range(ROUNDS):
            await one_round(cluster, administrator, principal.id, f"k{seed}-{number}")
    await ledger.check(cluster.urls, cluster.key)


async def one_round(cluster: Cluster, administrator: AsyncClient, principal: str, key_id: str) -> None:
    key = f"{key_id}.{secrets.token_urlsafe(24)}"
    verifier = hashlib.sha256(key.encode()).hexdigest()
    record = ApiKeyRecord(id=key_id, principal_id=principal, verifier=verifier)
    assert await administrator.credentials_configure(record)
    clients = [AsyncClient(url, key, retries=0) for url in cluster.urls]
    reference = EntityRef(partition=partition_of("none"), collection=COLLECTION, id="none")
    try:
        for client in clients:
            assert await client.documents_get(reference) is None
        revoked = ApiKeyRecord(id=key_id, principal_id=principal, verifier=verifier, revoked=True)
        assert await administrator.credentials_configure(revoked)
        for client in clients[1:]:
            with pytest.raises(KeyLoadError) as refused:
                await client.documents_get(reference)
            assert refused.value.code is ErrorCode.UNAUTHENTICATED
    finally:
        for client in clients:
            await client.close()
