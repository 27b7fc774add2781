"""Operations over real HTTP: routes, headers, bodies, problems."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import msgspec
import pytest

from keyload.contract.errors import ERRORS, ErrorCode
from keyload.contract.operations import OPERATIONS
from keyload.link.messages import Command, Read

from .hubs import READER, VERSION, run
from .nodes import ID, PARTITION, ask, bearer, commit, connect, get_document, node_of
from .peers import refusal

OTHER = "1b1d3f5a-7c9e-4b2d-8f60-112233445566"
HEADER = "x-keyload-command-id"


@pytest.mark.covers("HTTP-1", "HTTP-5", "HTTP-18", "CON-33", "CON-35")
def test_every_operation_has_its_route_and_answers_with_a_fresh_request_id() -> None:
    bodies: dict[str, Any] = {
        "keyload_documents_get": get_document(),
        "keyload_documents_commit": commit(),
        "keyload_resources_configure": {
            "tenantId": "t",
            "databaseId": "d",
            "definition": {"name": "c", "kind": "Collection", "transactionDomainId": "x"},
        },
        "keyload_principals_configure": {
            "principal": {"id": "a", "tenantId": "t", "grants": [], "fieldGrants": []}
        },
        "keyload_credentials_configure": {"apiKey": {"id": "a", "principalId": "a", "verifier": "0" * 64}},
        "keyload_admin_resources_list": {"tenantId": "t", "databaseId": "d"},
        "keyload_admin_partition_placement_read": {"version": 1, "partition": PARTITION},
        "keyload_admin_partition_placement_bind": {
            "version": 1,
            "expectedRevision": 0,
            "partition": PARTITION,
            "physicalShardId": ID,
        },
    }
    here = {"keyload_admin_status", "keyload_admin_admission", "keyload_admin_backup"}

    async def main() -> None:
        async with node_of() as node:
            seen: set[str] = set()
            for operation in OPERATIONS.values():
                if operation.name in here:
                    continue
                query = "?paused=true" if operation.http_query else ""
                headers = [(HEADER, ID)] if operation.outer_command_id else []
                response = await ask(
                    node,
                    operation.http_method,
                    operation.http_route + query,
                    bodies.get(operation.name),
                    headers=headers,
                )
                assert (response.status, response.json["operation"]) == (200, operation.name)
                assert response.headers["content-type"] == "application/json"
                request_id = response.headers["x-keyload-request-id"]
                assert str(uuid.UUID(request_id)) == request_id
                seen.add(request_id)
            assert len(seen) == len(OPERATIONS) - len(here)
            await node.idle()

    run(main())


@pytest.mark.covers("HTTP-1", "CON-36")
@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/documents/get"),
        ("PUT", "/v1/commands"),
        ("DELETE", "/v1/status"),
        ("HEAD", "/v1/status"),
        ("POST", "/v1/status"),
        ("OPTIONS", "/v1/commands"),
        ("POST", "/v1/nothing"),
        ("POST", "/v1/documents/get/more"),
        ("GET", "/v1"),
        ("GET", "/v1/"),
        ("POST", "/v1/query/unknown"),
    ],
)
def test_an_unknown_path_and_a_wrong_method_are_not_found(method: str, target: str) -> None:
    async def main() -> None:
        async with node_of() as node:
            async with connect(node) as connection:
                await connection.send(method, target, [bearer()], b"" if method != "GET" else None)
                if method == "HEAD":
                    head = await connection.reader.readuntil(b"\r\n\r\n")
                    assert head.startswith(b"HTTP/1.1 404 ")
                    return
                response = await connection.response()
            assert (response.status, response.json["errorCode"]) == (404, "NotFound")
            assert "x-keyload-request-id" not in response.headers
            await node.idle()

    run(main())


@pytest.mark.covers("ADM-3")
def test_paths_are_compared_without_case_and_one_trailing_slash() -> None:
    async def main() -> None:
        async with node_of() as node:
            assert (await ask(node, "POST", "/V1/Documents/GET/", get_document())).status == 200
            assert (await ask(node, "POST", "/v1/documents/get//", get_document())).status == 404

    run(main())


@pytest.mark.covers("HTTP-2", "CON-28")
def test_the_body_is_the_request_whatever_its_content_type_says() -> None:
    async def main() -> None:
        async with node_of() as node:
            for content_type in ("text/plain", "application/xml", "multipart/form-data"):
                response = await ask(
                    node,
                    "POST",
                    "/v1/documents/get",
                    get_document(),
                    headers=[("content-type", content_type)],
                )
                assert response.status == 200

    run(main())


@pytest.mark.covers("HTTP-2", "HTTP-7", "HTTP-8", "CON-2", "CON-3", "CON-4", "CON-5", "CON-28", "CON-30")
@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", "/v1/documents/get", b""),
        ("POST", "/v1/documents/get", b"{"),
        ("POST", "/v1/documents/get", b"{} {}"),
        ("POST", "/v1/documents/get", b"null"),
        ("POST", "/v1/documents/get", b"[]"),
        ("POST", "/v1/documents/get", b"\xef\xbb\xbf{}"),
        ("POST", "/v1/documents/get", b'{"reference":"\xff"}'),
        ("POST", "/v1/documents/get", b'{"reference":"\\ud800"}'),
        ("POST", "/v1/documents/get", b'{"reference":NaN}'),
        ("POST", "/v1/documents/get", b'{"reference":Infinity}'),
        ("POST", "/v1/documents/get", b'{"reference":null,"reference":null}'),
        ("POST", "/v1/documents/get", b'{"reference":null}'),
        ("POST", "/v1/documents/get", b'{"Reference":{}}'),
        ("POST", "/v1/documents/get", b"[" * 65 + b"]" * 65),
        ("POST", "/v1/documents/get", msgspec.json.encode({**get_document(), "tenant": "other"})),
        ("POST", "/v1/documents/get", msgspec.json.encode({**get_document(), "principal": "root"})),
        ("POST", "/v1/documents/get?limit=1", msgspec.json.encode(get_document())),
        ("GET", "/v1/status?verbose=true", b""),
        ("GET", "/v1/status", b"{}"),
        ("POST", "/v1/admin/dispatch?paused=true", b"true"),
        ("POST", "/v1/admin/dispatch", b""),
        ("POST", "/v1/admin/dispatch?paused=TRUE", b""),
        ("POST", "/v1/admin/dispatch?paused=1", b""),
        ("POST", "/v1/admin/dispatch?paused=", b""),
        ("POST", "/v1/admin/dispatch?Paused=true", b""),
        ("POST", "/v1/admin/dispatch?paused=true&paused=true", b""),
        ("POST", "/v1/admin/dispatch?paused=true&more=1", b""),
        ("POST", "/v1/admin/dispatch?paused=%ff", b""),
    ],
)
def test_what_is_not_the_request_is_refused(method: str, target: str, body: bytes) -> None:
    async def main() -> None:
        async with node_of() as node:
            response = await ask(node, method, target, body, headers=[(HEADER, ID)])
            assert (response.status, response.json["errorCode"]) == (400, "Validation")
            assert response.headers["content-type"] == "application/problem+json"
            assert "x-keyload-request-id" not in response.headers
            assert not any(isinstance(message, Read | Command) for message in node.peers[0].received)
            await node.idle()

    run(main())


@pytest.mark.covers("HTTP-3", "CON-29")
@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(HEADER, "")],
        [(HEADER, "no guid")],
        [(HEADER, "00000000-0000-0000-0000-000000000000")],
        [(HEADER, ID.replace("-", ""))],
        [(HEADER, "{" + ID + "}")],
        [(HEADER, ID), (HEADER, ID)],
        [(HEADER, f"{ID}, {ID}")],
        [(HEADER, "0b1d3f5a7-c9e-4b2d-8f60-112233445566")],
    ],
)
def test_the_five_operations_need_one_command_id(headers: list[tuple[str, str]]) -> None:
    async def main() -> None:
        async with node_of() as node:
            response = await ask(node, "POST", "/v1/admin/dispatch?paused=true", headers=headers)
            assert (response.status, response.json["errorCode"]) == (400, "Validation")

    run(main())


@pytest.mark.covers("HTTP-3", "HTTP-12", "HTTP-20")
def test_the_command_id_of_the_header_reaches_the_worker_in_either_case() -> None:
    async def main() -> None:
        async with node_of() as node:
            target = "/v1/admin/dispatch?paused=false"
            assert (await ask(node, "POST", target, headers=[(HEADER, ID.upper())])).status == 200
            (sent,) = [message for message in node.peers[0].received if isinstance(message, Command)]
            assert sent.command_id == uuid.UUID(ID).bytes
            assert sent.payload == msgspec.msgpack.encode(False)
            assert (sent.partition, sent.shard, sent.control) == (None, 0, True)
            assert (sent.principal, sent.catalog_version) == ("root", VERSION)

    run(main())


@pytest.mark.covers("HTTP-4", "CON-29")
def test_a_header_beside_an_identity_in_the_body_must_equal_it() -> None:
    async def main() -> None:
        async with node_of() as node:
            for headers, status in (
                ([], 200),
                ([(HEADER, ID)], 200),
                ([(HEADER, ID.upper())], 200),
                ([(HEADER, OTHER)], 400),
                ([(HEADER, "")], 400),
                ([(HEADER, ID), (HEADER, ID)], 400),
            ):
                response = await ask(node, "POST", "/v1/commands", commit(), headers=headers)
                assert response.status == status

    run(main())


@pytest.mark.covers("HTTP-8", "CON-1")
def test_a_problem_says_where_and_what_without_echoing_values() -> None:
    async def main() -> None:
        async with node_of() as node:
            body = {"reference": {"partition": PARTITION, "collection": "MARKER\u0001", "id": "1"}}
            response = await ask(node, "POST", "/v1/documents/get", body)
            assert response.json["path"] == "/reference/collection"
            assert response.json["expected"]
            assert response.json["retry"] == "never"
            assert "MARKER" not in response.body.decode()

    run(main())


@pytest.mark.covers("HTTP-16", "CON-34", "CON-35")
@pytest.mark.parametrize("code", list(ErrorCode))
def test_a_refusal_of_the_worker_is_a_problem_under_its_status(code: ErrorCode) -> None:
    async def main() -> None:
        async with node_of() as node:
            answer = node.peers[0].answer
            for peer in node.peers:
                peer.behaviour = lambda message: (
                    [refusal(message.call, code, "Said so.")]
                    if isinstance(message, Command)
                    else answer(message)
                )
            response = await ask(node, "POST", "/v1/commands", commit())
            assert response.status == ERRORS[code].http_status == response.json["status"]
            assert response.json["type"] == f"urn:keyload:error:{code}"
            assert response.json["title"] == response.json["errorCode"] == code
            assert response.json["detail"] == "Said so."
            assert response.headers["content-type"] == "application/problem+json"
            executed = "x-keyload-request-id" in response.headers
            assert executed is (code is not ErrorCode.UNAUTHENTICATED)

    run(main())


@pytest.mark.covers("HTTP-18")
def test_a_null_result_is_the_body_null() -> None:
    async def main() -> None:
        async with node_of() as node:
            for peer in node.peers:
                peer.result = lambda message: b"null"  # type: ignore[method-assign]
            response = await ask(node, "POST", "/v1/documents/get", get_document())
            assert (response.status, response.body) == (200, b"null")

    run(main())


@pytest.mark.covers("HTTP-27")
def test_a_result_passes_through_byte_for_byte() -> None:
    text = b'{ "json":"{\\"n\\":1.000000000000000000000000000000001e5}" ,"x":12345678901234567890.10}'

    async def main() -> None:
        async with node_of() as node:
            for peer in node.peers:
                peer.result = lambda message: text  # type: ignore[method-assign]
            assert (await ask(node, "POST", "/v1/documents/get", get_document())).body == text

    run(main())


@pytest.mark.covers("HTTP-6")
def test_parallel_calls_do_not_wait_for_each_other() -> None:
    async def main() -> None:
        async with node_of(call_ms=1000) as node:
            held: list[Any] = []
            for peer in node.peers:
                normal = peer.answer

                def behave(message: Any, normal: Any = normal) -> Any:
                    if isinstance(message, Read) and b"slow" in message.payload:
                        held.append(message)
                        return ()
                    return normal(message)

                peer.behaviour = behave
            slow = asyncio.create_task(ask(node, "POST", "/v1/documents/get", get_document("slow")))
            reads = [ask(node, "POST", "/v1/documents/get", get_document(str(n))) for n in range(8)]
            answers = await asyncio.gather(*reads)
            assert len({answer.headers["x-keyload-request-id"] for answer in answers}) == 8
            assert not slow.done()
            assert (await slow).json["errorCode"] == "OwnershipLost"

    run(main())


@pytest.mark.covers("HTTP-17")
def test_silence_is_an_unknown_outcome_for_a_write_and_lost_ownership_for_a_read() -> None:
    async def main() -> None:
        async with node_of(call_ms=400) as node:
            for peer in node.peers:
                normal = peer.answer
                peer.behaviour = lambda message, normal=normal: (
                    () if isinstance(message, Command | Read) else normal(message)
                )
            wrote, read = await asyncio.gather(
                ask(node, "POST", "/v1/commands", commit()),
                ask(node, "POST", "/v1/documents/get", get_document()),
            )
            assert (wrote.status, wrote.json["errorCode"]) == (503, "UnknownWriteOutcome")
            assert wrote.json["retry"] == "sameId"
            assert (read.status, read.json["errorCode"]) == (503, "OwnershipLost")
            await node.idle()

    run(main())


@pytest.mark.covers("HTTP-17")
def test_an_answer_that_makes_no_sense_is_a_fixed_text(capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async with node_of() as node:
            for peer in node.peers:
                normal = peer.answer
                peer.behaviour = lambda message, normal=normal: (
                    [type(refusal(1, ErrorCode.CONFLICT))(message.call, b"\xffMARKER")]
                    if isinstance(message, Command | Read)
                    else normal(message)
                )
            wrote = await ask(node, "POST", "/v1/commands", commit())
            read = await ask(node, "POST", "/v1/documents/get", get_document())
            assert [wrote.json["errorCode"], read.json["errorCode"]] == [
                "UnknownWriteOutcome",
                "OwnershipLost",
            ]

    run(main())
    lines = [msgspec.json.decode(line) for line in capfd.readouterr().err.splitlines()]
    failures = [line for line in lines if line["category"] == "request-failed"]
    assert len(failures) == 2
    assert not any("MARKER" in str(line) for line in lines)


@pytest.mark.covers("CMD-17", "CON-59")
def test_equal_content_has_an_equal_fingerprint_however_it_is_spelled() -> None:
    async def main() -> None:
        async with node_of() as node:
            spelled = commit()
            spelled["partition"] = {**PARTITION, "atomicPartitionId": "whatever"}
            spelled["ownershipEpoch"] = "1"
            spelled["mutations"][0]["json"] = " { } "
            other = commit()
            other["mutations"][0]["id"] = "2"
            for body in (commit(), spelled, other):
                assert (await ask(node, "POST", "/v1/commands", body)).status == 200
            sent = [m for peer in node.peers for m in peer.received if isinstance(m, Command)]
            assert sent[0].fingerprint == sent[1].fingerprint != sent[2].fingerprint
            assert sent[0].partition == ("t", "d", "x", "p")
            assert sent[0].shard == sent[1].shard in range(1, 7)

    run(main())


@pytest.mark.covers("CLU-29")
def test_the_status_is_completed_by_the_front() -> None:
    import os

    told = {
        "nodeId": "n1",
        "incarnation": ID,
        "applied": 9,
        "leader": None,
        "voters": 1,
        "durability": "LocalDurable",
        "routingReady": False,
        "processId": 1,
        "readGeneration": 0,
    }

    async def main() -> None:
        async with node_of() as node:
            node.peers[0].result = lambda message: msgspec.json.encode(told)  # type: ignore[method-assign]
            status = (await ask(node, "GET", "/v1/status")).json
            assert status == {**told, "processId": os.getpid(), "routingReady": True}

    run(main())


@pytest.mark.covers("ADM-31")
def test_the_admission_status_counts_both_gates_and_is_for_administrators() -> None:
    async def main() -> None:
        async with node_of() as node:
            status = (await ask(node, "GET", "/v1/admin/admission")).json
            assert status["usage"] == {
                "commands": 6,
                "retainedBytes": 600,
                "controlCommands": 2,
                "controlRetainedBytes": 200,
                "activeTenantScopes": 1,
                "activePrincipalScopes": 2,
            }
            assert status["limits"]["maxCommands"] == 1024
            assert status["http"]["limits"]["maxRequests"] == 512
            assert status["http"]["node"]["commands"] == 1
            assert status["http"]["verifiedScopes"]["retainedBytes"] == 1_048_576 + 4_096
            denied = await ask(node, "GET", "/v1/admin/admission", key_text=READER)
            assert (denied.status, denied.json["errorCode"]) == (403, "PermissionDenied")

    run(main())


@pytest.mark.covers("CLU-27", "SEC-8")
def test_health_needs_no_key_and_has_no_body() -> None:
    async def main() -> None:
        async with node_of() as node:
            for path in ("/health/live", "/health/ready"):
                response = await ask(node, "GET", path, key_text=None)
                assert (response.status, response.body) == (200, b"")
            node.hub.detach(1)
            assert (await ask(node, "GET", "/health/ready", key_text=None)).status == 503
            assert (await ask(node, "GET", "/health/live", key_text=None)).status == 200
            for method, path in (
                ("GET", "/"),
                ("GET", "/metrics2"),
                ("POST", "/health/live"),
                ("GET", "/health"),
            ):
                response = await ask(node, method, path, key_text=None)
                assert (response.status, response.json["errorCode"]) == (404, "NotFound")

    run(main())
