"""What a host declares: local tools, servers to connect to, clients it has (GTW-3, GTW-4, GTW-5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from keyload.gateway.errors import RegistrationError
from keyload.gateway.hints import ToolHints, check

MAX_SOURCE_ID_CHARS = 128


class LocalTool(msgspec.Struct, frozen=True, kw_only=True):
    """A function of the host; what is not given comes from the function (GTW-3)."""

    source_id: str
    function: Callable[..., Any]
    name: str = ""
    description: str = ""
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    hints: ToolHints = ToolHints()


class _Remote(msgspec.Struct, frozen=True, kw_only=True):
    """`hints` by tool name complete what the server says; `load_seconds` overrides the gateway's option."""

    source_id: str
    hints: Mapping[str, ToolHints] = {}
    load_seconds: float | None = None

    def __repr__(self) -> str:  # variables, headers and addresses may hold secrets
        return f"{type(self).__name__}({self.source_id!r})"


class StdioServer(_Remote, frozen=True, kw_only=True):
    """A server to start as a process; `environment` is added to the few variables a process inherits."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}


class HttpServer(_Remote, frozen=True, kw_only=True):
    """A server behind Streamable HTTP; `headers` go with every request."""

    url: str
    headers: Mapping[str, str] = {}


class GivenClient(_Remote, frozen=True, kw_only=True):
    """An `mcp.Client` of someone else.

    A connected one is used as it is and, with `dispose`, left by the task that closes the gateway. One
    that is not connected yet is connected and left by the gateway, which needs `dispose`.
    """

    client: Any
    dispose: bool = False


class ClientFactory(_Remote, frozen=True, kw_only=True):
    """Makes the `mcp.Client`, connected or not, at the first load and after its connection was lost."""

    factory: Callable[[], Awaitable[Any]]


RemoteDeclaration = StdioServer | HttpServer | GivenClient | ClientFactory
Source = LocalTool | StdioServer | HttpServer | GivenClient | ClientFactory


def check_source_id(source_id: str) -> None:
    """Raises RegistrationError for an id that could not stand before the colon of a tool id (GTW-7)."""
    if not source_id or source_id != source_id.strip() or not source_id.isprintable() or ":" in source_id:
        raise RegistrationError("A source id is printable text without a colon and without spaces around it.")
    if len(source_id) > MAX_SOURCE_ID_CHARS:
        raise RegistrationError(f"A source id has at most {MAX_SOURCE_ID_CHARS} characters.")


def check_remote(declaration: RemoteDeclaration) -> None:
    """Raises RegistrationError for a declaration that could never be loaded; no value is named in it."""
    check_source_id(declaration.source_id)
    if declaration.load_seconds is not None and declaration.load_seconds <= 0:
        raise RegistrationError("A time to load is above 0 seconds.")
    for hints in declaration.hints.values():
        check(hints)
    match declaration:
        case StdioServer() if not declaration.command:
            raise RegistrationError("A stdio server needs a command.")
        case HttpServer() if not declaration.url.startswith(("http://", "https://")):
            raise RegistrationError("The address of a server begins with http:// or https://.")
        case ClientFactory() if not callable(declaration.factory):
            raise RegistrationError("A client factory is an asynchronous function without arguments.")
        case _:
            return
