"""Connecting to MCP servers with the official SDK; nothing else here imports it, and only when needed.

The contexts of the SDK must be left by the task that entered them: `connection.py` sees to that.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import httpx2
import pydantic
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types import CONNECTION_CLOSED, CallToolResult, TextContent, ToolListChangedNotification
from mcp_types import Tool as ListedTool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from keyload.gateway.diagnostics import first_cause
from keyload.gateway.sources import ClientFactory, GivenClient, HttpServer, RemoteDeclaration, StdioServer
from keyload.gateway.tools import Output

MAX_PAGES = 1024
Notice = Callable[[], None]


class ListingError(Exception):
    """A list of tools that cannot be used; its text says why, of what the source is and does."""


@asynccontextmanager
async def opened(declaration: RemoteDeclaration, changed: Notice, lost: Notice) -> AsyncGenerator[Client]:
    """The connected client of a source; `changed` and `lost` tell what becomes known about it later."""
    match declaration:
        case StdioServer():
            with Path(os.devnull).open("w") as errors:  # what a server writes there may hold secrets
                server = StdioServerParameters(
                    command=declaration.command,
                    args=list(declaration.arguments),
                    env=dict(declaration.environment),
                )
                transport = _watched(stdio_client(server, errlog=errors), lost)
                async with _entered(Client(transport, cache=None), changed) as client:
                    yield client
        case HttpServer():
            async with _over_http(declaration, changed, lost) as client:
                yield client
        case ClientFactory():
            client = cast("Client", await declaration.factory())
            if is_connected(client):
                try:
                    yield client
                finally:
                    await client.__aexit__(None, None, None)
            else:
                async with _entered(client, changed):
                    yield client
        case GivenClient():
            if is_connected(declaration.client):
                yield declaration.client
            elif declaration.dispose:
                async with _entered(declaration.client, changed) as client:
                    yield client
            else:
                raise ListingError("the given client is not connected")


@asynccontextmanager
async def _over_http(declaration: HttpServer, changed: Notice, lost: Notice) -> AsyncGenerator[Client]:
    """Connect over HTTP; a refusal while connecting is told by its status, which the SDK does not show."""
    refused: list[int] = []
    connected = False

    async def note(response: httpx2.Response) -> None:
        if not connected and response.status_code >= 400:
            refused.append(response.status_code)

    http = httpx2.AsyncClient(
        headers=dict(declaration.headers),
        timeout=httpx2.Timeout(30.0, read=300.0),
        event_hooks={"response": [note]},
    )
    try:
        async with http:
            transport = _watched(streamable_http_client(declaration.url, http_client=http), lost)
            async with _entered(Client(transport, cache=None), changed) as client:
                connected = True
                yield client
    except Exception as error:
        if not connected and refused and isinstance(first_cause(error), MCPError):
            raise ListingError(f"it answered with the HTTP status {refused[-1]}") from error
        raise


def is_connected(client: Any) -> bool:
    """Whether a client has been entered and not left."""
    try:
        return client.session is not None
    except RuntimeError:
        return False


def tells_changes(client: Client) -> bool:
    """Whether changes of the tools are told only to those who listen."""
    tools = client.server_capabilities.tools
    return client.protocol_version in MODERN_PROTOCOL_VERSIONS and bool(tools and tools.list_changed)


async def listen(client: Client, ready: Notice, changed: Notice) -> None:
    """Report changes of the tools for as long as the server tells them; `ready` once it does."""
    try:
        async with client.listen(tools_list_changed=True) as subscription:
            ready()
            async for _ in subscription:
                changed()
    except (MCPError, ListenNotSupportedError):
        return
    except SubscriptionLost:
        changed()  # nothing is told twice: what changed meanwhile is found by listing again


async def listed(client: Client, most: int) -> list[ListedTool]:
    """All pages of the tools. Raises ListingError above `most` tools and for pages that never end."""
    found: list[ListedTool] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        found += page.tools
        if len(found) > most:
            raise ListingError(f"it lists more than {most} tools")
        cursor = page.next_cursor
        if cursor is None:
            return found
        if cursor in seen:
            raise ListingError("its pages of tools repeat themselves")
        seen.add(cursor)
    raise ListingError(f"its list of tools has more than {MAX_PAGES} pages")


async def called(client: Client, name: str, arguments: dict[str, Any], meta: dict[str, Any]) -> Output:
    """Call a tool; the result keeps what came (GTW-35)."""
    result = await client.call_tool(name, arguments, meta=cast("Any", meta) or None)
    text = "\n".join(part.text for part in result.content if isinstance(part, TextContent))
    value = _value(result, text)
    error = (text or "The tool reported an error without a text.") if result.is_error else ""
    return Output(value, result, error)


def is_lost(error: BaseException) -> bool:
    """Whether an error says that the connection cannot be used any more."""
    cause = first_cause(error)
    if isinstance(cause, MCPError):
        return _is_closed(cause) or cause.message == "Session terminated"
    return isinstance(
        cause, OSError | anyio.ClosedResourceError | anyio.BrokenResourceError | httpx2.HTTPError
    )


def _is_closed(error: MCPError) -> bool:
    """Whether the SDK says so: a server may use the same code for errors of its own."""
    return error.code == CONNECTION_CLOSED and error.message == "Connection closed"


def reason(error: BaseException) -> str:
    """Why a source failed, in words that hold nothing of what was sent or received."""
    match first_cause(error):
        case ListingError() as cause:
            return str(cause)
        case TimeoutError():
            return "it did not answer in time"
        case MCPError() as cause if _is_closed(cause):
            return "its connection ended"
        case MCPError() as cause:
            return f"it answered with the error {cause.code}"
        case pydantic.ValidationError():
            return "its answer breaks the protocol"
        case httpx2.HTTPError() as cause:
            return f"no answer came over HTTP ({type(cause).__name__})"
        case FileNotFoundError():
            return "its command was not found; arguments are given apart from the command"
        case OSError() as cause:
            return f"it could not be started ({type(cause).__name__})"
        case cause:
            return f"it failed with {type(cause).__name__}"


def _value(result: CallToolResult, text: str) -> Any:
    """The structured content, else the text if there is nothing but text, else the parts."""
    if result.structured_content is not None:
        return result.structured_content
    if all(isinstance(part, TextContent) for part in result.content):
        return text
    return [part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in result.content]


@asynccontextmanager
async def _entered(client: Client, changed: Notice) -> AsyncGenerator[Client]:
    """Connect a client that is not yet, so that notifications of the handshake era arrive here too."""
    former = client.message_handler

    async def handler(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed()
        if former is not None:
            await former(message)

    client.message_handler = handler
    async with client:
        yield client


@asynccontextmanager
async def _watched(transport: AbstractAsyncContextManager[Any], lost: Notice) -> AsyncGenerator[Any]:
    """A transport that tells when nothing more will arrive."""
    async with transport as (read_stream, write_stream):
        yield _WatchedStream(read_stream, lost), write_stream


class _WatchedStream:
    """A read stream of the SDK that tells its end."""

    def __init__(self, inner: Any, lost: Notice) -> None:
        self._inner = inner
        self._lost = lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __aiter__(self) -> _WatchedStream:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._inner.__anext__()
        except (StopAsyncIteration, anyio.ClosedResourceError):
            self._lost()
            raise

    async def receive(self) -> Any:
        """The next message. Raises what the stream raises at its end."""
        try:
            return await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._lost()
            raise

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> _WatchedStream:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *failure: Any) -> bool | None:
        return await self._inner.__aexit__(*failure)
