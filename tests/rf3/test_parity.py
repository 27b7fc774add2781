"""Every operation through SDK and official MCP client: same effect, result, error, retry (MCP-28)."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from harness.acknowledged import COLLECTION, DATABASE, DOMAIN, TENANT, partition_of
from harness.cluster import Cluster
from harness.doors import McpDoor, mcp_door, tree
from keyload.backup import check
from keyload.client import AsyncClient
from keyload.contract.catalog import ResourceDefinition, ResourceKind
from keyload.contract.documents import PutDocument
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.operations import OPERATIONS
from keyload.contract.security import ApiKeyRecord, PrincipalRecord
from keyload.contract.shared import EntityRef

BACKUP_SECONDS = 60.0


@asynccontextmanager
async def both(cluster: Cluster) -> AsyncIterator[tuple[AsyncClient, McpDoor]]:
    """The SDK at node 1 and the MCP client at node 2."""
    async with (
        AsyncClient(cluster.urls[0], cluster.key, retries=0) as sdk,
        mcp_door(cluster.urls[1], cluster.key, 10.0) as mcp,
    ):
        yield sdk, mcp


async def refusal(call: Any) -> KeyLoadError:
    with pytest.raises(KeyLoadError) as caught:
        await call
    return caught.value


def fresh() -> str:
    return str(uuid.uuid4())


async def commits(cluster: Cluster) -> None:
    partition = partition_of(fresh())
    put = PutDocument(collection=COLLECTION, id="one", json='{"a": 1}', expected_revision=0)
    async with both(cluster) as (sdk, mcp):
        command = fresh()
        receipt = tree(await sdk.documents_commit(partition, [put], command_id=command))
        assert await mcp.commit(command, partition, [put]) == receipt
        command = fresh()
        refused = await refusal(mcp.commit(command, partition, [put]))
        assert refused.code is ErrorCode.REVISION_CONFLICT
        repeated = await refusal(sdk.documents_commit(partition, [put], command_id=command))
        assert repeated.path == "/mutations/0/expectedRevision"
        placed = {"path": f"/arguments/request{repeated.path}"}  # the same place in the form of that call
        assert tree(repeated.problem) | placed == tree(refused.problem)
        other = PutDocument(collection=COLLECTION, id="two", json="{}")
        for call in (
            sdk.documents_commit(partition, [other], command_id=command),
            mcp.commit(command, partition, [other]),
        ):
            assert (await refusal(call)).code is ErrorCode.CONFLICT


async def gets(cluster: Cluster) -> None:
    partition = partition_of(fresh())
    reference = EntityRef(partition=partition, collection=COLLECTION, id="one")
    async with both(cluster) as (sdk, mcp):
        assert await sdk.documents_get(reference) is None
        assert await mcp.get(reference) is None
        text = '{"b":  1.50, "a": "ä"}'
        await mcp.commit(fresh(), partition, [PutDocument(collection=COLLECTION, id="one", json=text)])
        found = await sdk.documents_get(reference)
        assert found is not None
        assert found.json == text
        assert await mcp.get(reference) == tree(found)


async def configures_resources(cluster: Cluster) -> None:
    definition = ResourceDefinition(
        name=f"c{fresh()}", kind=ResourceKind.COLLECTION, transaction_domain_id=DOMAIN
    )
    other = ResourceDefinition(name=definition.name, kind=ResourceKind.TOPIC, transaction_domain_id=DOMAIN)
    async with both(cluster) as (sdk, mcp):
        command = fresh()
        made = tree(await sdk.resources_configure(TENANT, DATABASE, definition, command_id=command))
        request = {"tenantId": TENANT, "databaseId": DATABASE, "definition": tree(definition)}
        arguments = {"commandId": command, "request": request}
        assert await mcp.invoke("keyload_resources_configure", arguments) == made
        listed = tree(await sdk.admin_resources_list(TENANT, DATABASE))
        page = {"tenantId": TENANT, "databaseId": DATABASE}
        assert (await mcp.invoke("keyload_admin_resources_list", {"request": page}))["items"] == listed[
            "items"
        ]
        assert definition.name in [item["name"] for item in listed["items"]]
        refused = await refusal(sdk.resources_configure(TENANT, DATABASE, other))
        arguments = {"commandId": fresh(), "request": request | {"definition": tree(other)}}
        assert (await refusal(mcp.invoke("keyload_resources_configure", arguments))).code is refused.code


async def configures_principals_and_keys(cluster: Cluster) -> None:
    principal = PrincipalRecord(id=f"p{fresh()}", tenant_id=TENANT, grants=(), field_grants=())
    verifier = hashlib.sha256(fresh().encode()).hexdigest()
    key = ApiKeyRecord(id=fresh(), principal_id=principal.id, verifier=verifier)
    async with both(cluster) as (sdk, mcp):
        refused = await refusal(sdk.credentials_configure(key))
        arguments = {"commandId": fresh(), "request": {"apiKey": tree(key)}}
        assert refused.code is ErrorCode.NOT_FOUND
        assert (await refusal(mcp.invoke("keyload_credentials_configure", arguments))).code is refused.code
        command = fresh()
        stored = tree(await sdk.principals_configure(principal, command_id=command))
        arguments = {"commandId": command, "request": {"principal": tree(principal)}}
        assert await mcp.invoke("keyload_principals_configure", arguments) == stored
        command = fresh()
        arguments = {"commandId": command, "request": {"apiKey": tree(key)}}
        assert await mcp.invoke("keyload_credentials_configure", arguments) is True
        assert await sdk.credentials_configure(key, command_id=command) is True


async def switches_dispatch(cluster: Cluster) -> None:
    async with both(cluster) as (sdk, mcp):
        for paused in (True, False):
            command = fresh()
            assert await sdk.admin_dispatch(paused, command_id=command) is paused
            arguments = {"commandId": command, "request": paused}
            assert await mcp.invoke("keyload_admin_dispatch", arguments) is paused
            arguments = {"commandId": command, "request": not paused}
            assert (await refusal(mcp.invoke("keyload_admin_dispatch", arguments))).code is ErrorCode.CONFLICT
            refused = await refusal(sdk.admin_dispatch(not paused, command_id=command))
            assert refused.code is ErrorCode.CONFLICT


async def shows_the_node(cluster: Cluster) -> None:
    async with (
        AsyncClient(cluster.urls[1], cluster.key) as sdk,
        mcp_door(cluster.urls[1], cluster.key, 10.0) as mcp,
    ):
        told, invoked = tree(await sdk.admin_status()), await mcp.invoke("keyload_admin_status", {})
        assert told.keys() == invoked.keys()
        for member in ("nodeId", "incarnation", "voters", "durability", "processId"):
            assert told[member] == invoked[member]
        admission = tree(await sdk.admin_admission())
        assert (await mcp.invoke("keyload_admin_admission", {}))["limits"] == admission["limits"]


async def places_partitions(cluster: Cluster) -> None:
    bind, look = "keyload_admin_partition_placement_bind", "keyload_admin_partition_placement_read"
    async with both(cluster) as (sdk, mcp):
        places = [tree(await sdk.admin_partition_placement_read(partition_of(fresh()))) for _ in range(24)]
        shards = sorted({place["physicalShardId"] for place in places})
        partition = partition_of(fresh())
        request = {"version": 1, "partition": tree(partition)}
        before = await mcp.invoke(look, {"request": request})
        assert before == tree(await sdk.admin_partition_placement_read(partition))
        target = next(shard for shard in shards if shard != before["physicalShardId"])
        revision, command = before["directoryRevision"], fresh()
        request |= {"expectedRevision": revision, "physicalShardId": target}
        assert await mcp.invoke(bind, {"commandId": command, "request": request}) is True
        assert await sdk.admin_partition_placement_bind(revision, partition, target, command_id=command)
        refused = await refusal(sdk.admin_partition_placement_bind(revision, partition, target))
        assert refused.code is ErrorCode.CONFLICT
        arguments = {"commandId": fresh(), "request": request}
        assert (await refusal(mcp.invoke(bind, arguments))).code is refused.code
        after = tree(await sdk.admin_partition_placement_read(partition))
        assert (after["physicalShardId"], after["isFallback"]) == (target, False)
        put = PutDocument(collection=COLLECTION, id="one", json="{}", expected_revision=0)
        await sdk.documents_commit(partition, [put])
        reference = EntityRef(partition=partition, collection=COLLECTION, id="one")
        assert await mcp.get(reference) == tree(await sdk.documents_get(reference))
        request |= {"expectedRevision": revision + 1, "physicalShardId": before["physicalShardId"]}
        refused = await refusal(mcp.invoke(bind, {"commandId": fresh(), "request": request}))
        assert refused.code is ErrorCode.UNSUPPORTED_CAPABILITY


async def makes_backups(cluster: Cluster) -> None:
    async with (
        AsyncClient(cluster.urls[0], cluster.key) as sdk,
        mcp_door(cluster.urls[1], cluster.key, BACKUP_SECONDS) as mcp,
    ):
        told = tree(await sdk.admin_backup(timeout=BACKUP_SECONDS))
        invoked = await mcp.invoke("keyload_admin_backup", {})
    assert told.keys() == invoked.keys()
    assert told["id"] != invoked["id"]
    for node, receipt in ((cluster.node(1), told), (cluster.node(2), invoked)):
        manifest = check(cluster.directory / node.profile.id / "backups" / receipt["id"]).manifest
        assert (manifest.id, manifest.position) == (receipt["id"], receipt["position"])


PARITY = {
    "keyload_documents_get": gets,
    "keyload_documents_commit": commits,
    "keyload_resources_configure": configures_resources,
    "keyload_principals_configure": configures_principals_and_keys,
    "keyload_credentials_configure": configures_principals_and_keys,
    "keyload_admin_dispatch": switches_dispatch,
    "keyload_admin_status": shows_the_node,
    "keyload_admin_admission": shows_the_node,
    "keyload_admin_resources_list": configures_resources,
    "keyload_admin_partition_placement_read": places_partitions,
    "keyload_admin_partition_placement_bind": places_partitions,
    "keyload_admin_backup": makes_backups,
}


@pytest.mark.covers("TST-13", "MCP-28")
def test_every_operation_has_a_parity_case() -> None:
    assert PARITY.keys() == OPERATIONS.keys()


@pytest.mark.covers("MCP-18", "MCP-26", "MCP-28", "CON-47", "CMD-18", "CMD-19", "CMD-20", "TST-13")
@pytest.mark.parametrize("operation", sorted(PARITY))
def test_sdk_and_mcp_agree(cluster: Cluster, operation: str) -> None:
    asyncio.run(PARITY[operation](cluster))
