"""Both clients over real connections, against a server that plays a script."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import time
from typing import Any

import msgspec
import pytest
import uvloop

import keyload
from keyload.codec.declarations import members as declared
from keyload.contract.errors import ErrorCode
from keyload.contract.operations import OPERATIONS
from keyload.contract.shared import EntityRef, PartitionRef

from .servers import REQUEST_ID, ScriptedServer, hang_up, problem, refused_address, reply, say_nothing

ID = "0b1d3f5a-7c9e-4b2d-8f60-112233445566"
PARTITION = PartitionRef(tenant_id="t", database_id="d", transaction_domain_id="x", partition_key="p")
ENTITY = EntityRef(partition=PARTITION, collection="c", id="1")
NULL = reply(200, b"null")
TRUE = reply(200, b"true")
Shell = str
both = pytest.mark.parametrize("shell", ["async", "blocking"])


def perform(shell: Shell, addresses: Any, *steps: tuple[str, tuple[Any, ...], dict[str, Any]]) -> list[Any]:
    """Make calls one after the other with one client; an error stands for its result."""
    if shell == "async":
        return uvloop.run(_perform(addresses, *steps))
    results: list[Any] = []
    with keyload.Client(addresses, "k.s") as client:
        for name, arguments, options in steps:
            try:
                results.append(getattr(client, name)(*arguments, **options))
            except keyload.KeyLoadError as error:
                results.append(error)
    return results


async def _perform(addresses: Any, *steps: tuple[str, tuple[Any, ...], dict[str, Any]]) -> list[Any]:
    results: list[Any] = []
    async with keyload.AsyncClient(addresses, "k.s") as client:
        for name, arguments, options in steps:
            try:
                results.append(await getattr(client, name)(*arguments, **options))
            except keyload.KeyLoadError as error:
                results.append(error)
    return results


def get(**options: Any) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    return "documents_get", (ENTITY,), options


def switch(**options: Any) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    return "admin_dispatch", (True,), options


@both
@pytest.mark.covers("HTTP-22")
def test_a_call_and_its_result(shell: Shell) -> None:
    with ScriptedServer(TRUE) as server:
        assert perform(shell, server.address, switch(command_id=ID), switch()) == [True, True]
        first, second = server.requests
        assert first.line == "POST /v1/admin/dispatch?paused=true HTTP/1.1"
        assert first.headers["x-keyload-command-id"] == ID
        assert second.headers["x-keyload-command-id"] not in ("", ID)
        assert first.headers["authorization"] == "Bearer k.s"
        assert server.connections == 1


@both
@pytest.mark.covers("HTTP-22", "HTTP-19", "CON-66")
def test_an_uncertain_write_is_sent_again_as_it_was(shell: Shell) -> None:
    with ScriptedServer(
        problem(ErrorCode.UNKNOWN_WRITE_OUTCOME), problem(ErrorCode.OWNERSHIP_LOST), hang_up, TRUE
    ) as server:
        assert perform(shell, server.address, switch()) == [True]
        sent = server.requests
        assert len(sent) == 4
        assert all(request == sent[0] for request in sent)


@both
@pytest.mark.covers("HTTP-22")
def test_another_node_takes_over(shell: Shell) -> None:
    with ScriptedServer(TRUE) as server:
        assert perform(shell, [refused_address(), server.address], switch(), switch()) == [True, True]
        assert len(server.requests) == 2


@both
@pytest.mark.covers("HTTP-22", "HTTP-24")
def test_nobody_answers(shell: Shell) -> None:
    results = perform(shell, refused_address(), switch(command_id=ID, retries=1), get(retries=0))
    assert [(error.code, error.command_id) for error in results] == [
        (ErrorCode.UNKNOWN_WRITE_OUTCOME, ID),
        (ErrorCode.OWNERSHIP_LOST, None),
    ]


@both
@pytest.mark.covers("HTTP-23", "HTTP-26")
def test_a_problem_is_raised_and_the_connection_goes_on(shell: Shell) -> None:
    with ScriptedServer(problem(ErrorCode.CONFLICT, path="/x"), NULL) as server:
        error, value = perform(shell, server.address, switch(command_id=ID), get())
        assert (error.code, error.path, error.command_id) == (ErrorCode.CONFLICT, "/x", ID)
        assert error.request_id == REQUEST_ID
        assert value is None
        assert server.connections == 1


@both
@pytest.mark.covers("HTTP-23", "HTTP-24", "HTTP-26")
@pytest.mark.parametrize(("size", "code"), [(65_536, "Conflict"), (65_537, "UnknownWriteOutcome")])
def test_a_problem_has_at_most_65536_bytes(shell: Shell, size: int, code: str) -> None:
    tree = {
        "type": "urn:keyload:error:Conflict",
        "title": "Conflict",
        "status": 409,
        "detail": "",
        "errorCode": "Conflict",
        "retry": "never",
    }
    tree["detail"] = "x" * (size - len(msgspec.json.encode(tree)))
    body = msgspec.json.encode(tree)
    assert len(body) == size
    with ScriptedServer(reply(409, body), NULL) as server:
        error, value = perform(shell, server.address, switch(retries=0), get())
        assert (error.code, value) == (code, None)


@both
@pytest.mark.covers("HTTP-24", "HTTP-26")
@pytest.mark.parametrize(
    "broken",
    [
        hang_up,
        reply(200, b"tr", length=4),
        reply(200, b"<html>"),
        reply(502, b"Bad gateway", content_type="text/plain"),
        reply(302, b""),
        lambda connection, request: connection.sendall(b"nonsense\r\n\r\n") or False,
        reply(200, b'"' + b"x" * 16_777_216 + b'"'),
    ],
)
def test_a_broken_answer_leaves_doubt_and_the_next_call_works(shell: Shell, broken: Any) -> None:
    with ScriptedServer(broken, broken, NULL) as server:
        wrote, read, value = perform(shell, server.address, switch(retries=0), get(retries=0), get())
        assert wrote.code is ErrorCode.UNKNOWN_WRITE_OUTCOME
        assert read.code is ErrorCode.OWNERSHIP_LOST
        assert value is None


@both
@pytest.mark.covers("HTTP-25", "HTTP-26")
def test_a_timeout(shell: Shell) -> None:
    with ScriptedServer(say_nothing, say_nothing, NULL) as server:
        start = time.monotonic()
        wrote, read, value = perform(
            shell, server.address, switch(timeout=0.2, command_id=ID), get(timeout=0.2), get()
        )
        assert (wrote.code, wrote.command_id) == (ErrorCode.UNKNOWN_WRITE_OUTCOME, ID)
        assert (read.code, value) == (ErrorCode.CANCELLED, None)
        assert time.monotonic() - start < 5


@pytest.mark.covers("HTTP-25", "HTTP-26")
def test_cancelling_the_task_is_its_own_cancellation() -> None:
    async def main(server: ScriptedServer) -> None:
        async with keyload.AsyncClient(server.address, "k.s") as client:
            task = asyncio.create_task(client.documents_get(ENTITY))
            while not server.requests:
                await asyncio.sleep(0.002)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await client.documents_get(ENTITY) is None

    with ScriptedServer(say_nothing, NULL) as server:
        uvloop.run(main(server))
        assert server.connections == 2


@pytest.mark.covers("HTTP-6")
def test_parallel_calls_of_one_client() -> None:
    async def main(server: ScriptedServer) -> None:
        async with keyload.AsyncClient(server.address, "k.s") as client:
            slow = asyncio.create_task(client.admin_dispatch(True, timeout=0.5))
            while not server.requests:
                await asyncio.sleep(0.002)
            assert await asyncio.gather(*(client.documents_get(ENTITY) for _ in range(8))) == [None] * 8
            assert not slow.done()
            with pytest.raises(keyload.KeyLoadError):
                await slow

    with ScriptedServer(say_nothing, NULL) as server:
        uvloop.run(main(server))


@pytest.mark.covers("HTTP-22")
def test_every_operation_has_a_method_with_its_members() -> None:
    for operation in OPERATIONS.values():
        name = operation.name.removeprefix("keyload_")
        members: list[str] = []
        if isinstance(operation.request, type) and issubclass(operation.request, msgspec.Struct):
            constant = {member.attribute for member in declared(operation.request) if member.mark.const}
            fields = operation.request.__struct_fields__
            members = [field for field in fields if field not in {"command_id", *constant}]
        elif operation.request is bool:
            members = [operation.http_query or ""]
        if operation.write_identity is not None:
            members.append("command_id")
        for client in (keyload.Client, keyload.AsyncClient):
            method = getattr(client, name)
            parameters = list(inspect.signature(method).parameters)
            assert parameters == ["self", *members, "timeout", "retries"]
            assert inspect.iscoroutinefunction(method) == (client is keyload.AsyncClient)
            assert method.__doc__


@pytest.mark.covers("HTTP-22")
def test_importing_the_package_loads_nothing() -> None:
    code = "import sys, keyload; print('httpx' in sys.modules, 'msgspec' in sys.modules); keyload.Client"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ), check=True
    )
    assert result.stdout.strip() == "False False"
    with pytest.raises(AttributeError):
        keyload.nothing  # noqa: B018
