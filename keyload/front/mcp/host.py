"""The MCP endpoint: the official SDK's low-level server over stateless Streamable HTTP (MCP-1).

The host gets requests that the edge has authenticated, admitted and read; it keeps nothing between them.
Each is answered by handlers of the SDK in both eras of the protocol: with the handshake and without.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, cast

import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.operations import Operation
from keyload.front.calls import Invoker, RequestContext
from keyload.front.mcp import guide
from keyload.front.mcp.calls import Exchange, ToolCalls
from keyload.front.mcp.refusals import with_problem
from keyload.front.mcp.replies import (
    JSON_HEADERS,
    MAX_CONTROL_REPLY,
    MAX_DATA_REPLY,
    early_error,
    problem_tree,
)
from keyload.front.mcp.tools import META_TOOLS, tool_list
from keyload.front.measures import Measures

EXCHANGE = "keyload.exchange"
PIECE_BYTES = 262_144
MAX_BODY_BYTES = 33_554_432
_TOO_LONG = KeyLoadError(
    ErrorCode.BUDGET_EXCEEDED, f"The reply is longer than the {MAX_CONTROL_REPLY} bytes it may have."
)
_CACHED: tuple[CacheableMethod, ...] = (
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "server/discover",
)
Context = ServerRequestContext[Any, Any]
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class McpHost:
    """An ASGI application for verified MCP requests: `scope["keyload"]` holds a `RequestContext`.

    Enter `run()` once, inside the lifespan of the application, before the first request.
    """

    def __init__(
        self, invoke: Invoker, operations: Mapping[str, Operation], measures: Measures | None = None
    ) -> None:
        if not operations:
            raise ValueError("a host needs operations")
        self._calls = ToolCalls(invoke, operations, measures or Measures())
        self._guide = guide.guide(operations)
        self._manager = StreamableHTTPSessionManager(
            self._server(), json_response=True, stateless=True, max_request_body_size=MAX_BODY_BYTES
        )
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Warm the catalog, serve, at the end wait for the requests still running and close the gateway
        (MCP-35, MCP-42)."""
        _silence_the_sdk()
        try:
            await self._calls.warm()
            async with self._manager.run():
                yield
                await self._idle.wait()
        finally:
            await self._calls.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request whose body the edge has read; other methods than POST get 405."""
        if scope["method"] != "POST":
            headers = [(b"allow", b"POST"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 405, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        context = cast("RequestContext", scope["keyload"])
        exchange = Exchange(context)
        reply = _Reply(send, exchange)
        self._running += 1
        self._idle.clear()
        try:
            await self._manager.handle_request(
                {**scope, EXCHANGE: exchange}, _replay(context.frame.body, receive), reply.send
            )
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    def _server(self) -> Server[Any]:
        server: Server[Any] = Server(
            "keyload",
            version="1",
            title="KeyLoad",
            instructions="Find an operation with gateway_tools_search, read its schemas, run it with "
            f"gateway_tool_invoke. The resource {guide.URI} explains it on one page.",
            cache_hints={method: CacheHint(0, "private") for method in _CACHED},
            get_tool_input_schema=lambda name: None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )
        server.middleware.clear()
        return server

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> Any:
        _refuse_cursor(params)
        return {"tools": tool_list(), "resultType": "complete"}

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        exchange = _exchange(ctx)
        if params.name not in META_TOOLS or params.name != exchange.context.frame.tool:
            raise _protocol_error(self._calls.called(exchange.context.frame))
        answer = exchange.answer = await self._calls.answer(exchange)
        return {
            "content": [{"type": "text", "text": answer.summary}],
            "structuredContent": exchange.placeholder.structured,
            "isError": answer.is_error,
            "resultType": "complete",
        }

    async def _list_resources(self, ctx: Context, params: types.PaginatedRequestParams | None) -> Any:
        _refuse_cursor(params)
        resource = types.Resource(
            uri=guide.URI,
            name=guide.PROMPT,
            title=guide.TITLE,
            description=guide.DESCRIPTION,
            mime_type=guide.MEDIA_TYPE,
            size=len(self._guide.encode()),
        )
        return types.ListResourcesResult(resources=[resource])

    async def _list_templates(self, ctx: Context, params: types.PaginatedRequestParams | None) -> Any:
        _refuse_cursor(params)
        return types.ListResourceTemplatesResult(resource_templates=[])

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> Any:
        if str(params.uri) != guide.URI:
            raise _invalid(ErrorCode.NOT_FOUND, "There is no resource with this URI.", "/uri", guide.URI)
        contents = types.TextResourceContents(uri=guide.URI, mime_type=guide.MEDIA_TYPE, text=self._guide)
        return types.ReadResourceResult(contents=[contents])

    async def _list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> Any:
        _refuse_cursor(params)
        prompt = types.Prompt(name=guide.PROMPT, title=guide.TITLE, description=guide.DESCRIPTION)
        return types.ListPromptsResult(prompts=[prompt])

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> Any:
        if params.name != guide.PROMPT:
            raise _invalid(ErrorCode.NOT_FOUND, "There is no prompt with this name.", "/name", guide.PROMPT)
        if params.arguments:
            detail = "This prompt takes no arguments."
            raise _invalid(ErrorCode.VALIDATION, detail, "/arguments", "no arguments")
        message = types.PromptMessage(role="user", content=types.TextContent(text=self._guide))
        return types.GetPromptResult(description=guide.DESCRIPTION, messages=[message])


class _Reply:
    """Sends the SDK's reply with the tool answer in its place, in pieces under back-pressure. A refusal of
    the SDK's own gets its problem.
    """

    def __init__(self, send: Send, exchange: Exchange) -> None:
        self._send = send
        self._exchange = exchange
        self._start: Message | None = None

    async def send(self, message: Message) -> None:
        """Hold the start back until the body is there."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        assert self._start is not None
        start, body, answer = self._start, message.get("body", b""), self._exchange.answer
        if answer is None:
            await self._whole(start, body)
        else:
            cap = MAX_DATA_REPLY if self._exchange.in_data_lane else MAX_CONTROL_REPLY
            await self._parts(start, self._exchange.placeholder.splice(body, answer, cap))

    async def _whole(self, start: Message, body: bytes) -> None:
        status, content = with_problem(start["status"], body)
        if len(content) > MAX_CONTROL_REPLY:
            status, content = early_error(_TOO_LONG)
        if content is not body:
            length = (b"content-length", str(len(content)).encode())
            start = {"type": start["type"], "status": status, "headers": [*JSON_HEADERS, length]}
        await self._send(start)
        await self._send({"type": "http.response.body", "body": content})

    async def _parts(self, start: Message, parts: tuple[bytes, bytes, bytes]) -> None:
        length = str(sum(map(len, parts))).encode()
        headers = [(name, value) for name, value in start["headers"] if name != b"content-length"]
        await self._send({**start, "headers": [*headers, (b"content-length", length)]})
        for part in parts:
            view = memoryview(part)
            for offset in range(0, len(part), PIECE_BYTES):
                piece = bytes(view[offset : offset + PIECE_BYTES])
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body that was read already, then whatever the connection says."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _exchange(ctx: Context) -> Exchange:
    request = ctx.request
    if request is None:
        raise _invalid(ErrorCode.VALIDATION, "A call needs its own request.", "", "one request")
    return cast("Exchange", request.scope[EXCHANGE])


def _refuse_cursor(params: types.PaginatedRequestParams | None) -> None:
    if params is not None and params.cursor:
        detail = "Lists have one page; there are no cursors."
        raise _invalid(ErrorCode.VALIDATION, detail, "/cursor", "no cursor")


def _invalid(code: ErrorCode, detail: str, path: str, expected: str) -> MCPError:
    """A refusal of parameters; `path` is a pointer inside them."""
    return _protocol_error(KeyLoadError(code, detail, path=path, expected=expected))


def _protocol_error(error: KeyLoadError) -> MCPError:
    """Invalid params (-32602) with the problem as its data."""
    return MCPError(INVALID_PARAMS, error.detail, problem_tree(error.problem))


def _silence_the_sdk() -> None:
    """The SDK logs messages and exceptions, which may hold data of callers (MCP-43)."""
    logger = logging.getLogger("mcp")
    logger.setLevel(logging.CRITICAL + 1)
    logger.propagate = False
