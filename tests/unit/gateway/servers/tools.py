"""An MCP server for tests, made with the official SDK: `python -m tests.unit.gateway.servers.tools KIND`.

With `http` behind the kind it serves Streamable HTTP and prints its port first. It ends when its input ends.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ToolsListChanged

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
NUMBERS = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "description": "First number."},
        "b": {"type": "integer", "description": "Second number."},
    },
    "required": ["a", "b"],
}


def tool(name: str, description: str, schema: dict[str, Any] | None = None, **more: Any) -> types.Tool:
    return types.Tool(name=name, description=description, input_schema=schema or OBJECT, **more)


class Tools:
    """The tools of one server; `kind` chooses what it lists."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.bus = InMemorySubscriptionBus()
        self.tools = [
            tool(
                "add_numbers",
                "Adds two whole numbers.",
                NUMBERS,
                title="Add numbers",
                annotations=types.ToolAnnotations(
                    read_only_hint=True, destructive_hint=False, idempotent_hint=True
                ),
            ),
            tool("show_meta", "Shows the meta data of the call."),
            tool("fail_always", "Reports an error."),
            tool("break_always", "Raises inside the server."),
            tool("wait_forever", "Waits until it is cancelled."),
            tool("end_process", "Ends the server in the middle of the call."),
            tool("grow_list", "Adds a tool named harvest_apples and tells it."),
            tool("process_number", "Says the number of the server process."),
        ]

    async def listed(self, ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        cursor = None if params is None else params.cursor
        match self.kind:
            case "duplicates":
                return types.ListToolsResult(tools=[*self.tools, tool("show_meta", "Once more.")])
            case "malformed":
                deep = {"type": "object", "properties": {"x": {"description": "y" * (1024 * 1024)}}}
                odd = [tool("", "No name."), tool("big", "Too large.", deep), tool("n" * 300, "Long name.")]
                return types.ListToolsResult(tools=[*self.tools, *odd])
            case "endless":
                number = int(cursor or 0)
                page = [tool(f"tool_{number}", "One of many.")]
                return types.ListToolsResult(tools=page, next_cursor=str(number + 1))
            case "circular":
                return types.ListToolsResult(tools=[], next_cursor="again")
            case "paged":
                number = int(cursor or 0)
                more = str(number + 1) if number + 1 < len(self.tools) else None
                return types.ListToolsResult(tools=[self.tools[number]], next_cursor=more)
            case _:
                return types.ListToolsResult(tools=list(self.tools))

    async def called(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = params.arguments or {}
        match params.name:
            case "add_numbers":
                total = arguments["a"] + arguments["b"]
                return self._said(str(total), structured_content={"total": total})
            case "show_meta":
                meta = {key: value for key, value in dict(params.meta or {}).items() if "keyload" in key}
                return self._said("meta", structured_content=meta)
            case "fail_always":
                return self._said("The field is flooded.", is_error=True)
            case "wait_forever":
                await anyio.sleep_forever()
            case "end_process":
                os._exit(3)
            case "grow_list":
                self.tools.append(tool("harvest_apples", "Picks the ripe apples."))
                await self.bus.publish(ToolsListChanged())
                await ctx.session.send_tool_list_changed()
                return self._said("grown")
            case "process_number":
                return self._said(str(os.getpid()))
            case "harvest_apples":
                return self._said("apples")
            case _:
                raise RuntimeError("broken")
        return self._said("")

    def _said(self, text: str, **more: Any) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], **more)


def server_of(kind: str) -> Server[Any]:
    made = Tools(kind)
    return Server(
        "test",
        version="1",
        on_list_tools=made.listed,
        on_call_tool=made.called,
        on_subscriptions_listen=ListenHandler(made.bus),
    )


async def over_stdio(server: Server[Any]) -> None:
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, options)


async def over_http(server: Server[Any]) -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    token = os.environ.get("TEST_TOKEN")
    app = server.streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        wanted = (b"authorization", f"Bearer {token}".encode())
        if scope["type"] == "http" and token is not None and wanted not in scope["headers"]:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"secret details"})
            return
        await app(scope, receive, send)

    config = uvicorn.Config(guarded, log_level="critical", timeout_graceful_shutdown=1)
    running = uvicorn.Server(config)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()

    async def until_input_ends() -> None:
        await anyio.to_thread.run_sync(sys.stdin.read)
        running.should_exit = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(until_input_ends)
        await running.serve(sockets=[listener])
        listener.close()


if __name__ == "__main__":
    anyio.run(over_http if "http" in sys.argv[2:] else over_stdio, server_of(sys.argv[1]))
