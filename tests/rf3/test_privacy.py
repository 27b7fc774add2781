"""Secrets stay with those who may see them, whatever happens to their calls (SEC-40, TST-14)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import msgspec
import pytest

from harness.cluster import Cluster
from harness.doors import mcp_door
from harness.eavesdropping import COLLECTION, OWN, Eavesdropper
from keyload.client import AsyncClient
from keyload.client import KeyLoadError as ClientError
from keyload.contract.documents import PutDocument
from keyload.contract.errors import KeyLoadError
from keyload.contract.shared import EntityRef, PartitionRef, RowAccess

COMMANDS, GET = "/v1/commands", "/v1/documents/get"
GET_TOOL, COMMIT_TOOL = "keyload_documents_get", "keyload_documents_commit"
INVOKE, SEARCH, ROUTE = "gateway_tool_invoke", "gateway_tools_search", "gateway_tools_route"
AT_ONCE = 40
LIMITS = {"admission": {"http": {"maxPrincipalRequests": 4}, "command": {"maxPrincipalCommands": 2}}}


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes that take few calls of one principal at once."""
    with Cluster(tmp_path_factory.mktemp("privacy"), settings=LIMITS) as cluster:
        yield cluster


@pytest.mark.covers("SEC-40", "TST-14", "MCP-43", "HTTP-17")
def test_nobody_else_sees_a_secret(crowded: Cluster) -> None:
    async def main() -> Eavesdropper:
        async with Eavesdropper(crowded) as spy:
            await succeed(spy)
            await fail_over_http(spy)
            await fail_over_mcp(spy)
            await fail_at_the_door(spy)
            await ask_as_others(spy)
            await crowd(spy)
            await lose_processes(spy)
            await use_sdk_and_command_line(spy)
            await spy.look_around()
        return spy

    spy = asyncio.run(main())
    assert spy.leaks == []
    assert spy.codes >= {"Validation", "Conflict", "RevisionConflict", "NotFound", "PermissionDenied"}
    assert spy.codes >= {"Unauthenticated", "ResourceExhausted"}


async def succeed(spy: Eavesdropper) -> None:
    """What the owner does goes well over HTTP and MCP, at every node."""
    await spy.succeeds(COMMANDS, spy.commit(spy.put()))
    for node in (1, 2, 3):
        found = await spy.succeeds(GET, {"reference": spy.reference}, node)
        assert spy.markers["payload"] in found["json"]
    request = {"request": {"reference": spy.reference}}
    await spy.invokes(INVOKE, {"toolId": GET_TOOL, "arguments": request}, failing=False)
    request = {"request": spy.commit(spy.put())}
    await spy.invokes(INVOKE, {"toolId": COMMIT_TOOL, "arguments": request}, failing=False)
    for tool in (SEARCH, ROUTE):
        found = await spy.invokes(tool, {"query": f"read a document {spy.markers['query']}"}, failing=False)
        spy.saw("what a search finds", msgspec.json.encode(found))


async def fail_over_http(spy: Eavesdropper) -> None:
    """Every kind of wrong request with a secret in it, from its owner."""
    name, payload = spy.markers["name"], spy.markers["payload"]
    wrong = "Validation"
    await spy.fails(COMMANDS, spy.commit(spy.put()) | {name: payload}, wrong, allowed=("name",))
    await spy.fails(COMMANDS, spy.commit(spy.put(**{name: 1})), wrong, allowed=("name",))
    for member in ("json", "expectedRevision", "access", "explicitReplacement", "kind", "resource"):
        for value in (payload, [payload], {payload: payload}):
            # The path of a refusal names members, and so the one that nothing knows.
            allowed = ("payload",) if value == {payload: payload} and member == "access" else ()
            await spy.fails(COMMANDS, spy.commit(spy.put(**{member: value})), wrong, allowed=allowed)
    for text in (f'{{"a":"{payload}"', f'"{payload}"', f'["{payload}"]'):
        await spy.fails(COMMANDS, spy.commit(spy.put(json=text)), wrong)
    for named in (f'{{"{payload}":1e9999}}', f'{{"{payload}":1,"{payload}":2}}'):  # the path tells its sender
        await spy.fails(COMMANDS, spy.commit(spy.put(json=named)), wrong, allowed=("payload",))
    for member in ("commandId", "partition", "mutations"):
        await spy.fails(COMMANDS, spy.commit(spy.put()) | {member: payload}, wrong)
    await spy.fails(COMMANDS, spy.commit(), wrong)
    await spy.fails(COMMANDS, f'{{"x":"{payload}'.encode(), wrong)
    await spy.fails(COMMANDS, b"\xff" + payload.encode(), wrong)
    await spy.fails(COMMANDS, spy.commit(spy.put(collection=name)), "NotFound")
    await spy.fails(COMMANDS, spy.commit(spy.put(expectedRevision=99)), "RevisionConflict")
    other = spy.put(id=f"{spy.markers['document']}x")
    await spy.fails(COMMANDS, spy.commit(other), "Conflict")
    command = str(uuid.uuid4())
    await spy.succeeds(COMMANDS, spy.commit(spy.put(), command_id=command))
    await spy.fails(COMMANDS, spy.commit(spy.put(json="{}"), command_id=command), "Conflict")
    await spy.fails(COMMANDS, spy.commit(spy.put(access={"ownerId": name})), "PermissionDenied")
    await spy.fails(COMMANDS, b'{"x":"' + payload.encode() * 500_000 + b'"}', "ResourceExhausted")
    header = {"x-keyload-command-id": payload}
    await spy.fails(COMMANDS, spy.commit(spy.put()), wrong, headers=header)
    await spy.fails("/v1/admin/principals", {"principal": {"id": payload}}, wrong, headers=header)
    await spy.fails(f"{GET}?{name}={payload}", {"reference": spy.reference}, wrong)
    await spy.fails(f"/v1/{name}", {"reference": spy.reference}, "NotFound")
    await spy.fails(f"/{name}", {"reference": spy.reference}, "NotFound")
    await spy.fails(GET, {"reference": spy.reference}, "NotFound", method="PUT")
    for path in ("/v1/admin/dashboard/resources", "/v1/admin/partition-placement/read"):
        await spy.fails(path, {"partition": spy.partition, "reference": payload}, wrong, "PermissionDenied")


async def fail_over_mcp(spy: Eavesdropper) -> None:
    """The same through MCP, in both eras."""
    name, payload, query = spy.markers["name"], spy.markers["payload"], spy.markers["query"]
    for old in (False, True):
        for tool in (SEARCH, ROUTE):
            for arguments in ({"query": query, "maxResults": 99, "maxCategories": 99}, {"query": [query]}):
                await spy.invokes(tool, arguments, handshake=old, allowed=("name",))
            await spy.invokes(tool, {"query": query * 200}, handshake=old)
        await spy.invokes(name, {"query": query}, handshake=old)
        await spy.invokes(INVOKE, {"toolId": name, "arguments": {"request": payload}}, handshake=old)
        for request in ({"reference": payload}, {"reference": spy.reference, "cut": payload}, payload):
            arguments = {"toolId": GET_TOOL, "arguments": {"request": request}}
            await spy.invokes(INVOKE, arguments, handshake=old)
        refused = {"request": spy.commit(spy.put(expectedRevision=99))}
        await spy.invokes(INVOKE, {"toolId": COMMIT_TOOL, "arguments": refused}, handshake=old)
        await spy.speaks("resources/read", {"uri": f"keyload://{name}"}, handshake=old)
        await spy.speaks("prompts/get", {"name": name, "arguments": {"a": payload}}, handshake=old)
        await spy.speaks("tools/list", {"cursor": payload}, handshake=old)
        await spy.speaks("tools/call", {"name": INVOKE, "arguments": payload}, handshake=old)
        await spy.speaks("tools/list", None, handshake=old, raw=f'{{"a":"{payload}'.encode())
        await spy.speaks("tools/list", None, handshake=old, raw=f'[{{"id":"{payload}"}}]'.encode())
    # The MCP SDK names the method that it does not know, to the caller who named it.
    await spy.speaks(f"tools/{name}", {"a": payload}, allowed=("name",))
    await spy.speaks("initialize", {"protocolVersion": payload}, handshake=True)


async def fail_at_the_door(spy: Eavesdropper) -> None:
    """Wrong credentials, and bytes that are no HTTP."""
    identifier, _, secret = spy.key.partition(".")
    body = {"reference": spy.reference}
    for key in (f"{identifier}.x{secret}", f"x{identifier}.{secret}", secret, f"{spy.key} x", spy.key * 9):
        await spy.fails(GET, body, "Unauthenticated", key=key)
        await spy.speaks("tools/list", None, key=key)
    basic = {"authorization": f"Basic {spy.key}"}
    await spy.fails(GET, body, "Unauthenticated", headers=basic)
    for line in (f"GET /{secret}", f"GET /{secret} HTTP/9", f"POST /v1 HTTP/1.1\r\nHost: x\r\n{secret}"):
        await spy.says_raw(f"{line}\r\n\r\n".encode())
    await spy.says_raw(f"GET / HTTP/1.1\r\nHost: x\r\nX: {secret * 1000}\r\n\r\n".encode())


async def ask_as_others(spy: Eavesdropper) -> None:
    """Others ask for the very document, write beside it, and meet its unique key."""
    payload = spy.markers["payload"]
    for key in (spy.neighbour, spy.stranger, spy.cluster.key + "x", "none"):
        await spy.others_see(GET, {"reference": spy.reference}, key, OWN)
        await spy.others_see(COMMANDS, spy.commit(spy.put(json="{}", access=None)), key, OWN)
        beside = spy.put(id="beside", json=f'{{"email":"{payload}"}}', access=None)
        await spy.others_see(COMMANDS, spy.commit(beside), key, ())
        for path in ("/v1/status", "/v1/admin/admission", "/metrics", "/health/ready"):
            await spy.others_see(path, None, key)
        await spy.others_see("/v1/admin/partition-placement/read", {"partition": spy.partition}, key)


async def crowd(spy: Eavesdropper) -> None:
    """More calls at once than are let in; some of them are refused, over HTTP and over MCP."""
    refused: set[tuple[str, bool]] = set()

    async def one(number: int) -> None:
        command = spy.commit(spy.put())
        arguments = {"toolId": COMMIT_TOOL, "arguments": {"request": command}}
        door = "MCP" if number % 2 else "HTTP"
        try:
            if number % 2:
                await spy.invokes(INVOKE, arguments, failing=False)
            else:
                await spy.succeeds(COMMANDS, command)
        except AssertionError as refusal:
            spy.saw(f"a refusal for want of room over {door}", str(refusal).encode())
            refused.add((door, "ResourceExhausted" in str(refusal)))

    await asyncio.gather(*(one(number) for number in range(AT_ONCE)))
    assert refused == {("HTTP", True), ("MCP", True)}


async def lose_processes(spy: Eavesdropper) -> None:
    """Workers and a whole node are killed while the owner writes; whatever is answered then holds nothing."""
    stop = asyncio.Event()

    async def write(node: int) -> None:
        while not stop.is_set():
            answer = await spy.attempt(COMMANDS, spy.commit(spy.put()), node)
            if answer is None:
                await asyncio.sleep(0.05)
            elif answer.status_code != 200:
                spy.codes.add(answer.json()["errorCode"])
                spy.saw("an answer while processes end", answer.content)

    writers = [asyncio.create_task(write(node)) for node in (1, 2, 3)]
    for worker in range(spy.cluster.workers):
        await asyncio.to_thread(spy.cluster.kill_worker, 1 + worker, worker)
        await asyncio.to_thread(spy.cluster.wait_ready)
    await asyncio.to_thread(spy.cluster.crash, 3)
    spy.cluster.restart(3)
    await asyncio.to_thread(spy.cluster.wait_ready)
    stop.set()
    await asyncio.gather(*writers)
    await asyncio.to_thread(spy.cluster.stop_node, 2)
    spy.cluster.restart(2)
    await asyncio.to_thread(spy.cluster.wait_ready)


async def use_sdk_and_command_line(spy: Eavesdropper) -> None:
    """The SDK's errors and the command line repeat no secret either."""
    names = spy.markers
    partition = PartitionRef(
        tenant_id=names["tenant"],
        database_id=names["database"],
        transaction_domain_id="main",
        partition_key=names["partition"],
    )
    reference = EntityRef(partition=partition, collection=COLLECTION, id=names["document"])
    put = PutDocument(
        collection=COLLECTION, id=names["document"], json=f'{{"email":"{names["payload"]}"}}',
        expected_revision=99, access=RowAccess(owner_id=names["owner"]),
    )  # fmt: skip
    async with AsyncClient(spy.cluster.urls, spy.key) as sdk:
        assert await sdk.documents_get(reference) is not None
        with pytest.raises(ClientError) as caught:
            await sdk.documents_commit(partition, [put])
        spy.saw("an error of the SDK", f"{caught.value} {caught.value!r} {sdk!r}".encode())
    async with mcp_door(spy.cluster.urls[0], spy.key) as mcp:
        with pytest.raises(KeyLoadError) as caught:
            await mcp.commit(str(uuid.uuid4()), partition, [put])
        spy.saw("an error through MCP", f"{caught.value} {caught.value!r}".encode())
    async with AsyncClient(spy.cluster.urls, f"{spy.key}x") as sdk:
        with pytest.raises(ClientError) as caught:
            await sdk.documents_get(reference)
        spy.saw("an error of the SDK", f"{caught.value} {caught.value!r} {sdk!r}".encode())
    url = spy.cluster.urls[0]
    assert await spy.runs("status", url, key=spy.cluster.key) == 0
    assert await spy.runs("status", url, key=spy.key) == 1
    assert await spy.runs("status", url, key=f"{spy.key}x") == 1
    assert await spy.runs("status", url, key=f"{spy.key} x") == 1
    assert await spy.runs("key", "create", names["principal"], "--url", url, key=spy.key) == 1
    assert await spy.runs("key", "create", "nobody", "--url", url, key=spy.cluster.key) == 1
    assert await spy.runs("key", "create", names["principal"], "--url", url, key=spy.cluster.key) == 0
    assert await spy.runs("key", "revoke", names["name"], "--url", url, key=spy.key) == 1
