"""A revoked key is refused by every node on the next request (SEC-3, SEC-16, CON-102)."""

from __future__ import annotations

import asyncio
import hashlib
import secrets

import httpx
import msgspec
import pytest

from harness.acknowledged import COLLECTION, DATABASE, TENANT, Ledger, partition_of
from harness.cluster import Cluster, wait_until
from harness.load import stream_of_commits
from keyload.client import AsyncClient
from keyload.contract.documents import GetDocumentRequest
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
    ledger = Ledger(seed)
    async with (
        AsyncClient(cluster.urls[0], cluster.key) as administrator,
        httpx.AsyncClient() as http,
        stream_of_commits(ledger, cluster.urls, cluster.key, WRITERS),
    ):
        await administrator.principals_configure(principal)
        for number in range(ROUNDS):
            await one_round(cluster, administrator, http, principal.id, f"k{seed}-{number}")
    await ledger.check(cluster.urls, cluster.key)


@pytest.mark.covers("SEC-16", "SEC-3", "CON-102")
def test_a_revocation_outlives_its_leader_and_every_process(cluster: Cluster, seed: int) -> None:
    """Of a key and of a principal; before the new leader is there nobody is let in either."""
    keys = asyncio.run(revoked_keys(cluster, seed))
    leader = cluster.system_leader()
    cluster.kill_node(leader)
    others = [node.url for node in cluster.nodes if node.number != leader]
    wait_until("nodes without the leader know", lambda: refused(others, keys), 20)
    cluster.restart(leader)
    cluster.wait_ready()
    assert refused(cluster.urls, keys)
    cluster.crash(1, 2, 3)
    for number in (1, 2, 3):
        cluster.restart(number)
    cluster.wait_ready()
    assert refused(cluster.urls, keys)


def refused(urls: list[str], keys: list[str]) -> bool:
    """Whether every node refuses every key; none may be let in."""

    async def ask() -> list[int]:
        async with httpx.AsyncClient(timeout=10) as http:
            return [status for key in keys for status in await statuses(http, urls, key)]

    found = asyncio.run(ask())
    assert set(found) <= {401, 503}
    return set(found) == {401}


async def revoked_keys(cluster: Cluster, seed: int) -> list[str]:
    """A key that was revoked, and one whose principal was."""
    keys: list[str] = []
    async with AsyncClient(cluster.urls[0], cluster.key) as administrator, httpx.AsyncClient() as http:
        for name in (f"key-{seed}", f"principal-{seed}"):
            principal = PrincipalRecord(
                id=name,
                tenant_id=TENANT,
                grants=(ScopeGrant(database=DATABASE, resource=COLLECTION, capabilities="DocumentsRead"),),
                field_grants=(),
            )
            key = f"{name}.{secrets.token_urlsafe(24)}"
            verifier = hashlib.sha256(key.encode()).hexdigest()
            record = ApiKeyRecord(id=name, principal_id=name, verifier=verifier)
            await administrator.principals_configure(principal)
            await administrator.credentials_configure(record)
            assert await statuses(http, cluster.urls, key) == [200, 200, 200]
            if name.startswith("key"):
                await administrator.credentials_configure(msgspec.structs.replace(record, revoked=True))
            else:
                await administrator.principals_configure(msgspec.structs.replace(principal, revoked=True))
            keys.append(key)
    return keys


async def one_round(
    cluster: Cluster, administrator: AsyncClient, http: httpx.AsyncClient, principal: str, key_id: str
) -> None:
    key = f"{key_id}.{secrets.token_urlsafe(24)}"
    record = ApiKeyRecord(
        id=key_id, principal_id=principal, verifier=hashlib.sha256(key.encode()).hexdigest()
    )
    assert await administrator.credentials_configure(record)
    assert await statuses(http, cluster.urls, key) == [200, 200, 200]
    assert await administrator.credentials_configure(msgspec.structs.replace(record, revoked=True))
    assert await statuses(http, cluster.urls[1:], key) == [401, 401]


async def statuses(http: httpx.AsyncClient, urls: list[str], key: str) -> list[int]:
    """How each node answers a read with this key, one attempt each."""
    reference = EntityRef(partition=partition_of("none"), collection=COLLECTION, id="none")
    body = msgspec.json.encode(GetDocumentRequest(reference=reference))
    headers = {"Authorization": f"Bearer {key}"}
    answers = await asyncio.gather(
        *(http.post(f"{url}/v1/documents/get", content=body, headers=headers) for url in urls)
    )
    return [answer.status_code for answer in answers]
