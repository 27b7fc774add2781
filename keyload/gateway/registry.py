"""`GatewayRegistry`: adds tools and sources, checks their bounds, and knows what changed since (GTW-3..7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from keyload.gateway import functions
from keyload.gateway import hints as hint_bounds
from keyload.gateway.errors import RegistrationError
from keyload.gateway.hints import ToolHints
from keyload.gateway.options import GatewayOptions
from keyload.gateway.remote import RemoteSource
from keyload.gateway.schema_text import required_names
from keyload.gateway.sources import (
    ClientFactory,
    GivenClient,
    HttpServer,
    LocalTool,
    RemoteDeclaration,
    Source,
    StdioServer,
    check_remote,
    check_source_id,
)
from keyload.gateway.tools import Tool, make_tool

MAX_CONNECTIONS = 256


class GatewayRegistry:
    """Sources and tools in registration order; `version` grows with every change and dates an index.

    Every method that adds raises `RegistrationError` and then has changed nothing.
    """

    def __init__(self, options: GatewayOptions) -> None:
        self.version = 0
        self._options = options
        self._entries: dict[str, dict[str, Tool] | RemoteSource] = {}
        self._tools = 0
        self._metadata_bytes = 0
        self._owner: object | None = None
        for source in options.sources:
            self.add(source)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The local tools as registered so far."""
        return tuple(
            tool for entry in self._entries.values() if isinstance(entry, dict) for tool in entry.values()
        )

    @property
    def entries(self) -> tuple[tuple[Tool, ...] | RemoteSource, ...]:
        """Local tools by source, and connections, in registration order."""
        return tuple(
            tuple(entry.values()) if isinstance(entry, dict) else entry for entry in self._entries.values()
        )

    def belongs_to(self, owner: object) -> None:
        """Remember the gateway of this registry, whose meta tools it refuses (GTW-37)."""
        self._owner = owner

    def add(self, source: Source) -> None:
        """Add whatever is declared."""
        if isinstance(source, LocalTool):
            self._add_local(source)
        else:
            self._add_remote(source)

    def add_tool(
        self,
        source_id: str,
        function: Callable[..., Any],
        *,
        name: str = "",
        description: str = "",
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        hints: ToolHints | None = None,
    ) -> Tool:
        """Register a function as the tool `source_id:name`; it is called with its arguments by name (GTW-3).

        What is not given comes from the name, the docstring and the types of the function.
        """
        return self._add_local(
            LocalTool(
                source_id=source_id,
                function=function,
                name=name,
                description=description,
                input_schema=input_schema,
                output_schema=output_schema,
                hints=hints or ToolHints(),
            )
        )

    def add_stdio_server(
        self,
        source_id: str,
        command: str,
        arguments: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        *,
        hints: Mapping[str, ToolHints] | None = None,
        load_seconds: float | None = None,
    ) -> None:
        """A server that is started as a process when it is first needed (GTW-4)."""
        self._add_remote(
            StdioServer(
                source_id=source_id,
                command=command,
                arguments=tuple(arguments),
                environment=dict(environment or {}),
                hints=dict(hints or {}),
                load_seconds=load_seconds,
            )
        )

    def add_http_server(
        self,
        source_id: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        hints: Mapping[str, ToolHints] | None = None,
        load_seconds: float | None = None,
    ) -> None:
        """A server behind Streamable HTTP that is connected to when it is first needed (GTW-4)."""
        self._add_remote(
            HttpServer(
                source_id=source_id,
                url=url,
                headers=dict(headers or {}),
                hints=dict(hints or {}),
                load_seconds=load_seconds,
            )
        )

    def add_client(
        self,
        source_id: str,
        client: Any,
        dispose: bool = False,
        *,
        hints: Mapping[str, ToolHints] | None = None,
        load_seconds: float | None = None,
    ) -> None:
        """An `mcp.Client` that someone else owns; closed with the gateway only with `dispose` (GTW-5)."""
        self._add_remote(
            GivenClient(
                source_id=source_id,
                client=client,
                dispose=dispose,
                hints=dict(hints or {}),
                load_seconds=load_seconds,
            )
        )

    def add_client_factory(
        self,
        source_id: str,
        factory: Callable[[], Awaitable[Any]],
        *,
        hints: Mapping[str, ToolHints] | None = None,
        load_seconds: float | None = None,
    ) -> None:
        """An asynchronous function that makes the `mcp.Client`, which the gateway then owns (GTW-5)."""
        self._add_remote(
            ClientFactory(
                source_id=source_id, factory=factory, hints=dict(hints or {}), load_seconds=load_seconds
            )
        )

    def reload(self, source_id: str) -> None:
        """List the tools of a connected source again at the next call, as when it says they changed.

        Raises KeyError for an id that is no connected source.
        """
        entry = self._entries[source_id]
        if not isinstance(entry, RemoteSource):
            raise KeyError(source_id)
        entry.mark_changed()

    def _add_local(self, source: LocalTool) -> Tool:
        check_source_id(source.source_id)
        if not callable(source.function):
            raise RegistrationError("The function of a tool can be called.")
        if self._owner is not None and functions.gateway_behind(source.function) is self._owner:
            raise RegistrationError("A gateway does not index its own meta tools.")
        entry = self._entries.get(source.source_id, {})
        if isinstance(entry, RemoteSource):
            raise RegistrationError("This source is a connection; local tools need a source id of their own.")
        tool = self._made(source)
        if tool.name in entry:
            raise RegistrationError(f"The source has this tool already: {tool.id}.")
        if self._tools >= self._options.max_tools:
            raise RegistrationError(f"A gateway holds at most {self._options.max_tools} tools.")
        if self._metadata_bytes + tool.size > self._options.max_metadata_bytes:
            raise RegistrationError(f"The metadata passes {self._options.max_metadata_bytes} bytes.")
        self._entries.setdefault(source.source_id, entry)
        entry[tool.name] = tool
        self._tools += 1
        self._metadata_bytes += tool.size
        self.version += 1
        return tool

    def _made(self, source: LocalTool) -> Tool:
        hint_bounds.check(source.hints)
        form = functions.shape(source.function)
        schema = form.input_schema if source.input_schema is None else source.input_schema
        return make_tool(
            source.source_id,
            source.name or form.name,
            source.description or form.description,
            schema,
            source.output_schema or {},
            source.hints,
            functions.runner(
                source.function, form, required_names(schema), convert=source.input_schema is None
            ),
            self._options.descriptor_text_limit,
        )

    def _add_remote(self, declaration: RemoteDeclaration) -> None:
        check_remote(declaration)
        if declaration.source_id in self._entries:
            raise RegistrationError("This source id is taken; a source holds one connection.")
        connections = sum(isinstance(entry, RemoteSource) for entry in self._entries.values())
        if connections >= MAX_CONNECTIONS:
            raise RegistrationError(f"A gateway holds at most {MAX_CONNECTIONS} connections.")
        self._entries[declaration.source_id] = RemoteSource(declaration, self._options, self._changed)
        self.version += 1

    def _changed(self) -> None:
        self.version += 1
