"""A host over plain Python functions, driven through its ASGI interface or served on a free loopback port."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from hypercorn.asyncio import serve
from hypercorn.config import Config, Sockets

from keyload.codec.credentials import Credential
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.operations import OPERATIONS, Operation
from keyload.contract.security import PrincipalRecord
from keyload.front.calls import Caller, Outcome, RequestContext
from keyload.front.mcp import McpHost, early_error, inspect

MODERN = "2026-07-28"
HANDSHAKE = "2025-06-18"
KEYS = {"alice.secret": "alice", "bob.secret": "bob"}
Function = Callable[[Caller, str | None, Any], Awaitable[bytes]]


async def stay(work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """The peer of a test never leaves."""
    return await work


def caller(principal_id: str = "alice") -> Caller:
    principal = PrincipalRecord(id=principal_id, tenant_id="acme", grants=(), field_grants=())
    return Caller(principal, Credential("key", ""), 1)


class Functions:
    """An invoker over plain functions, one per operation; what they raise becomes the outcome's problem."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions
        self.calls: list[tuple[str, str, str | None, Any]] = []

    async def __call__(
        self, who: Caller, operation: Operation, command_id: str | None, request: Any
    ) -> Outcome:
        self.calls.append((who.principal.id, operation.name, command_id, request))
        request_id = str(uuid.uuid4())
        function = self._functions.get(operation.name)
        try:
            if function is None:
                raise KeyLoadError(ErrorCode.PERMISSION_DENIED, "This key may not do that.")
            return Outcome(request_id, payload=await function(who, command_id, request))
        except KeyLoadError as error:
            return Outcome(request_id, problem=error.problem)


class Reply(msgspec.Struct):
    """What an ASGI application sent."""

    status: int
    headers: dict[str, str]
    body: bytes
    pieces: list[int]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        return self.json["error"]

    @property
    def result(self) -> dict[str, Any]:
        return self.json["result"]

    @property
    def structured(self) -> dict[str, Any]:
        return self.result["structuredContent"]


def message(
    method: str, params: dict[str, Any] | None = None, *, modern: bool = True, number: Any = 1
) -> bytes:
    """A JSON-RPC request of either era."""
    params = dict(params or {})
    if modern:
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(body if number is None else {**body, "id": number}).encode()


def headers_for(body: bytes, *, modern: bool = True) -> dict[str, str]:
    """The headers the official client sends with a message."""
    common = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    if not modern:
        return {**common, "mcp-protocol-version": HANDSHAKE}
    tree = json.loads(body)
    params = tree["params"]
    name = params.get("name", params.get("uri"))
    named = {"mcp-name": name} if isinstance(name, str) else {}
    return {**common, "mcp-protocol-version": MODERN, "mcp-method": tree["method"], **named}


class Driver:
    """Sends messages to a running host the way the edge does."""

    def __init__(self, host: McpHost, operations: Mapping[str, Operation] = OPERATIONS) -> None:
        self.host = host
        self._operations = operations

    async def send(
        self,
        body: bytes,
        headers: Mapping[str, str],
        who: Caller | None = None,
        method: str = "POST",
    ) -> Reply:
        frame = inspect(body, self._operations)
        scope = {
            "type": "http",
            "method": method,
            "path": "/mcp",
            "raw_path": b"/mcp",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "keyload": RequestContext(who or caller(), frame, stay),
        }
        return await drive(self.host, scope)

    async def request(
        self, method: str, params: Any = None, *, modern: bool = True, who: Caller | None = None
    ) -> Reply:
        body = message(method, params, modern=modern)
        return await self.send(body, headers_for(body, modern=modern), who)

    async def call(
        self, tool: str, arguments: Any = None, *, modern: bool = True, who: Caller | None = None
    ) -> Reply:
        params: dict[str, Any] = {"name": tool}
        if arguments is not None:
            params["arguments"] = arguments
        return await self.request("tools/call", params, modern=modern, who=who)

    async def invoke(
        self, tool_id: str, arguments: Any = None, *, modern: bool = True, who: Caller | None = None
    ) -> Reply:
        given = {} if arguments is None else {"arguments": arguments}
        return await self.call("gateway_tool_invoke", {"toolId": tool_id, **given}, modern=modern, who=who)


async def drive(app: Any, scope: dict[str, Any]) -> Reply:
    """Run an ASGI application whose body was read already; the connection stays open."""
    sent: list[dict[str, Any]] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(event: Any) -> None:
        sent.append(event)

    await app(scope, receive, send)
    start, *bodies = sent
    assert start["type"] == "http.response.start"
    assert not bodies[-1].get("more_body", False)
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    pieces = [event.get("body", b"") for event in bodies]
    return Reply(start["status"], headers, b"".join(pieces), [len(piece) for piece in pieces])


def with_driver(
    test: Callable[[Driver], Awaitable[None]],
    invoke: Any = None,
    operations: Mapping[str, Operation] = OPERATIONS,
) -> None:
    """Run an asynchronous test against a running host."""

    async def main() -> None:
        host = McpHost(invoke or Functions({}), operations)
        async with host.run():
            await test(Driver(host, operations))

    asyncio.run(main())


def edge(host: McpHost) -> Any:
    """The least that stands before the host: bearer key, bounded body, preflight, lifespan."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            async with host.run():
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = b""
        more = True
        while more:
            event = await receive()
            body += event.get("body", b"")
            more = event.get("more_body", False)
        given = dict(scope["headers"]).get(b"authorization", b"").decode()
        try:
            who = KEYS.get(given.removeprefix("Bearer "))
            if who is None:
                raise KeyLoadError(ErrorCode.UNAUTHENTICATED, "There is no valid key.")
            scope["keyload"] = RequestContext(caller(who), inspect(body, OPERATIONS), stay)
        except KeyLoadError as error:
            status, text = early_error(error)
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": text})
            return
        await host(scope, receive, send)

    return app


@asynccontextmanager
async def served(host: McpHost) -> AsyncIterator[str]:
    """Serve the host with Hypercorn on a free loopback port; yields its URL."""
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.loglevel = "CRITICAL"
    ports: list[int] = []
    create = config.create_sockets

    def create_and_note() -> Sockets:
        sockets = create()
        ports.append(sockets.insecure_sockets[0].getsockname()[1])
        return sockets

    config.create_sockets = create_and_note  # type: ignore[method-assign]
    stop = asyncio.Event()
    server = asyncio.create_task(serve(edge(host), config, shutdown_trigger=stop.wait))  # type: ignore[arg-type]
    try:
        while not ports:
            await asyncio.sleep(0)
        yield f"http://127.0.0.1:{ports[0]}/mcp"
    finally:
        stop.set()
        await server
