"""Both clients against a real front: typed results, problems, request ids."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec
import pytest

import keyload
from keyload.contract.cluster import NodeStatus
from keyload.contract.documents import DeleteDocument, DocumentResult
from keyload.contract.errors import ErrorCode
from keyload.contract.shared import DurabilityProfile, EntityRef, PartitionRef
from keyload.link.messages import Command, Read
from tests.unit.front.hubs import READER, ROOT, run
from tests.unit.front.nodes import Node, node_of
from tests.unit.front.peers import refusal

ID = "0b1d3f5a-7c9e-4b2d-8f60-112233445566"
PARTITION = PartitionRef(
    tenant_id="t",
    database_id="d",
    transaction_domain_id="x",
    partition_key="p",
    atomic_partition_id="0" * 64,
)
ENTITY = EntityRef(partition=PARTITION, collection="c", id="1")
DOCUMENT = DocumentResult(reference=ENTITY, revision=3, json='{"n":1.10}', redacted=False, redacted_fields=())
STATUS = NodeStatus(
    node_id="n1",
    incarnation=ID,
    applied=1,
    leader=None,
    voters=1,
    durability=DurabilityProfile.LOCAL_DURABLE,
    routing_ready=False,
    process_id=0,
    read_generation=0,
)


def results(message: Read | Command) -> bytes:
    if message.operation == "keyload_documents_get":
        return msgspec.json.encode(DOCUMENT)
    if message.operation == "keyload_admin_status":
        return msgspec.json.encode(STATUS)
    if message.operation == "keyload_admin_dispatch":
        return (message.payload == b"\xc3" and b"true") or b"false"
    return b"{}"


def prepare(node: Node) -> None:
    for peer in node.peers:
        peer.result = results  # type: ignore[method-assign]


@pytest.mark.covers("HTTP-22", "HTTP-27")
def test_typed_results_of_a_real_front() -> None:
    async def main() -> None:
        async with node_of() as node, keyload.AsyncClient(node.address, ROOT) as client:
            prepare(node)
            assert await client.documents_get(ENTITY) == DOCUMENT
            status = await client.admin_status()
            assert status == msgspec.structs.replace(STATUS, process_id=os.getpid(), routing_ready=True)
            assert (await client.admin_admission()).usage.commands == 6
            assert await client.admin_dispatch(True, command_id=ID) is True
            assert await client.admin_dispatch(False) is False
            await node.idle()

    run(main())


@pytest.mark.covers("HTTP-4", "HTTP-22", "HTTP-24", "CMD-17")
def test_a_write_is_repeated_under_its_identity() -> None:
    async def main() -> None:
        async with node_of() as node, keyload.AsyncClient(node.address, READER) as client:
            codes = iter([ErrorCode.UNKNOWN_WRITE_OUTCOME, ErrorCode.OWNERSHIP_LOST, ErrorCode.NOT_FOUND])
            for peer in node.peers:
                normal = peer.answer
                peer.behaviour = lambda message, normal=normal: (
                    [refusal(message.call, next(codes))] if isinstance(message, Command) else normal(message)
                )
            mutation = DeleteDocument(collection="c", id="1", expected_revision=1)
            with pytest.raises(keyload.KeyLoadError) as caught:
                await client.documents_commit(PARTITION, [mutation])
            assert caught.value.code is ErrorCode.NOT_FOUND
            sent = [m for peer in node.peers for m in peer.received if isinstance(m, Command)]
            assert len({(m.command_id, m.fingerprint, m.payload) for m in sent}) == 1
            assert len(sent) == 3
            assert caught.value.command_id is not None
            assert bytes.fromhex(caught.value.command_id.replace("-", "")) == sent[0].command_id

    run(main())


@pytest.mark.covers("HTTP-22", "HTTP-24")
def test_an_undecodable_receipt_leaves_the_write_unknown() -> None:
    async def main() -> None:
        async with node_of() as node, keyload.AsyncClient(node.address, READER) as client:
            prepare(node)
            mutation = DeleteDocument(collection="c", id="1", expected_revision=1)
            with pytest.raises(keyload.KeyLoadError) as caught:
                await client.documents_commit(PARTITION, [mutation], command_id=ID, retries=1)
            assert (caught.value.code, caught.value.command_id) == (ErrorCode.UNKNOWN_WRITE_OUTCOME, ID)

    run(main())


@pytest.mark.covers("HTTP-22")
def test_the_blocking_client_against_a_real_front() -> None:
    def use(address: str) -> list[Any]:
        with keyload.Client(address, READER) as client:
            found: list[Any] = [client.documents_get(ENTITY)]
            try:
                client.admin_admission()
            except keyload.KeyLoadError as error:
                found += [error.code, error.request_id is not None]
            return found

    async def main() -> None:
        async with node_of() as node:
            prepare(node)
            found = await asyncio.to_thread(use, node.address)
            assert found == [DOCUMENT, ErrorCode.PERMISSION_DENIED, True]
            await node.idle()

    run(main())
