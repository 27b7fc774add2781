"""Registration and its bounds, functions as tools, invocation, and what the package shows."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Annotated, Any, Literal

import msgspec
import pytest

import keyload.gateway
from keyload.gateway import (
    Gateway,
    GatewayOptions,
    HttpServer,
    InMemoryEmbeddingStore,
    LocalTool,
    RegistrationError,
    StdioServer,
    ToolHints,
    ToolNameAmbiguous,
    ToolNotFound,
    create_gateway,
)
from keyload.gateway.documents import Argument
from keyload.gateway.schema_text import schema_arguments
from keyload.gateway.tool_markdown import file_names
from keyload.gateway.tools import descriptor
from tests.unit.gateway.catalog import OPERATIONS, contract_gateway, echo

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Town."}},
}
PUBLIC = """Category ClientFactory Diagnostic EmbeddingError EmbeddingGenerator EmbeddingKey EmbeddingStore
Gateway GatewayClosed GatewayError GatewayOptions GatewayParts GatewayRegistry GatewayToolSet GivenClient
GraphError HttpServer InMemoryEmbeddingStore Initialization Invocation LocalTool Match MetaTool
RegistrationError RouteResult SearchResult SearchTextTooLong SourceFailed StdioServer Tool ToolHints
ToolNameAmbiguous ToolNotFound create_gateway"""


def add(registry: Any, name: str, **more: Any) -> Any:
    values = {"description": f"Does {name}.", "input_schema": SCHEMA, **more}
    return registry.add_tool("local", echo, name=name, **values)


def invoke(gateway: Gateway, *arguments: Any, **more: Any) -> Any:
    return asyncio.run(gateway.invoke(*arguments, **more))


def test_the_public_surface_is_what_it_is() -> None:
    assert keyload.gateway.__all__ == PUBLIC.split()
    assert all(hasattr(keyload.gateway, name) for name in keyload.gateway.__all__)


@pytest.mark.covers("GTW-1")
def test_options_may_name_sources_already() -> None:
    tool = LocalTool(source_id="local", function=echo, description="Says it again.")
    options = GatewayOptions(sources=(tool, StdioServer(source_id="server", command="none")))
    gateway, registry, tool_set = create_gateway(options)
    assert [tool.id for tool in registry.tools] == ["local:echo"]
    assert len(tool_set.create_tools()) == 3
    assert len(asyncio.run(gateway.list_tools())) == 1
    with pytest.raises(RegistrationError):
        create_gateway(GatewayOptions(sources=(tool, tool)))


@pytest.mark.covers("GTW-6", "GTW-7", "MCP-32")
def test_ids_are_stable_and_unique() -> None:
    _, registry, _ = create_gateway()
    tool = add(registry, "forecast")
    assert (tool.id, tool.title) == ("local:forecast", "forecast")
    with pytest.raises(RegistrationError, match="already"):
        add(registry, "forecast")
    with pytest.raises(RegistrationError, match="name"):
        add(registry, " ")
    registry.add_tool("other", echo, name="forecast", input_schema=SCHEMA)
    assert [tool.id for tool in registry.tools] == ["local:forecast", "other:forecast"]


@pytest.mark.covers("GTW-6")
def test_a_source_holds_local_tools_or_one_connection() -> None:
    _, registry, _ = create_gateway()
    add(registry, "forecast")
    registry.add_http_server("server", "http://127.0.0.1:9/mcp")
    version = registry.version
    with pytest.raises(RegistrationError, match="taken"):
        registry.add_stdio_server("local", "command")
    with pytest.raises(RegistrationError, match="taken"):
        registry.add_client("server", object())
    with pytest.raises(RegistrationError, match="connection"):
        registry.add_tool("server", echo)
    assert registry.version == version


@pytest.mark.covers("GTW-6", "GTW-39")
@pytest.mark.parametrize("source", ["", " a", "a:b", "a\n", "a" * 129])
def test_a_source_id_can_stand_before_a_colon(source: str) -> None:
    _, registry, _ = create_gateway()
    with pytest.raises(RegistrationError, match="source id"):
        registry.add_tool(source, echo)
    with pytest.raises(RegistrationError, match="source id"):
        registry.add_stdio_server(source, "command")


@pytest.mark.covers("GTW-39")
def test_declarations_that_could_never_work_are_refused_without_their_values() -> None:
    _, registry, _ = create_gateway()
    with pytest.raises(RegistrationError, match="command"):
        registry.add_stdio_server("a", "")
    with pytest.raises(RegistrationError, match="http") as refused:
        registry.add(HttpServer(source_id="a", url="ftp://user:secret@host"))
    assert "secret" not in str(refused.value)
    server = HttpServer(source_id="a", url="http://user:secret@host", headers={"Authorization": "secret"})
    assert repr(server) == "HttpServer('a')"
    with pytest.raises(RegistrationError, match="seconds"):
        registry.add_http_server("a", "http://host", load_seconds=0)
    with pytest.raises(RegistrationError, match="phrase"):
        registry.add_http_server("a", "http://host", hints={"x": ToolHints(aliases=("a" * 513,))})
    with pytest.raises(ValueError, match="bounds"):
        GatewayOptions(max_tools=0)
    with pytest.raises(ValueError, match="times"):
        GatewayOptions(load_seconds=0)
    assert registry.version == 0


@pytest.mark.covers("MCP-34", "GTW-39", "GTW-23")
@pytest.mark.parametrize(
    ("options", "more"),
    [
        (GatewayOptions(max_tools=1), {}),
        (GatewayOptions(max_metadata_bytes=400), {}),
        (GatewayOptions(descriptor_text_limit=100), {"description": "d" * 97}),
        (GatewayOptions(descriptor_text_limit=100), {"hints": ToolHints(aliases=("a" * 50, "b" * 50))}),
        (GatewayOptions(), {"hints": ToolHints(examples=("e",) * 2049)}),
        (GatewayOptions(), {"hints": ToolHints(related=("r" * 513,))}),
        (GatewayOptions(), {"input_schema": {"type": "string"}}),
        (GatewayOptions(), {"input_schema": {"type": "object", "default": object()}}),
        (GatewayOptions(), {"input_schema": {"type": "object", "title": "t" * 1024 * 1024}}),
        (GatewayOptions(), {"name": "n" * 257}),
    ],
)
def test_a_bound_is_checked_before_anything_is_registered(options: GatewayOptions, more: Any) -> None:
    _, registry, _ = create_gateway(options)
    add(registry, "one", output_schema={"description": "o" * 200})
    version = registry.version
    with pytest.raises(RegistrationError):
        add(registry, **{"name": "second", "output_schema": {"description": "o" * 200}, **more})
    assert registry.version == version
    assert len(registry.tools) == 1


class Place(msgspec.Struct):
    """Where it is."""

    town: str
    country: str = "CH"


def forecast(place: Place, days: int = 3, unit: Literal["C", "F"] = "C", **more: Any) -> str:
    """Weather forecast
    for a place.

    Args:
        place: Where it is asked for,
            as exactly as possible.
        days (int): How many days.

    Returns:
        Text.
    """
    return (
        f"{place.town}/{place.country} {days} {unit} {threading.current_thread() is threading.main_thread()}"
    )


@pytest.mark.covers("GTW-3", "GTW-35")
def test_name_description_and_schema_come_from_the_function() -> None:
    gateway, registry, _ = create_gateway()
    tool = registry.add_tool("local", forecast)
    assert (tool.id, tool.description) == ("local:forecast", "Weather forecast for a place.")
    schema = msgspec.json.decode(tool.input_schema)
    assert schema["required"] == ["place"]
    assert schema["properties"]["place"]["description"] == "Where it is asked for, as exactly as possible."
    assert schema["properties"]["days"] == {"type": "integer", "description": "How many days.", "default": 3}
    assert schema["properties"]["unit"]["enum"] == ["C", "F"]
    assert "town" in schema["$defs"]["Place"]["properties"]
    assert "additionalProperties" not in schema
    assert invoke(gateway, "local:forecast", {"place": {"town": "Bern"}}).output == "Bern/CH 3 C False"
    wrong = invoke(gateway, "local:forecast", {"place": {"town": 5}})
    assert not wrong.succeeded
    assert "place" in wrong.error
    assert not invoke(gateway, "local:forecast", {}).succeeded


@pytest.mark.covers("GTW-3")
def test_any_callable_with_named_arguments_is_a_tool() -> None:
    class Caller:
        async def __call__(self, word: Annotated[str, msgspec.Meta(description="Any word.")]) -> str:
            """Says it loudly."""
            return word.upper()

    def odd(value: threading.Thread) -> str:
        """:param value: Whatever it is."""
        return str(value)

    def by_place(value: int, /) -> int:
        return value

    gateway, registry, _ = create_gateway()
    loud = registry.add_tool("local", Caller(), name="loud", description="Says it loudly.")
    assert msgspec.json.decode(loud.input_schema)["properties"]["word"]["description"] == "Any word."
    assert invoke(gateway, "local:loud", {"word": "hear"}).output == "HEAR"
    registry.add_tool("local", functools.partial(forecast, days=1), name="tomorrow")
    assert "Bern/CH 1" in invoke(gateway, "local:tomorrow", {"place": {"town": "Bern"}}).output
    odd_tool = registry.add_tool("local", odd)
    member = msgspec.json.decode(odd_tool.input_schema)["properties"]["value"]
    assert member == {"description": "Whatever it is."}
    assert invoke(gateway, "local:odd", {"value": 3}).output == "3"
    assert "unexpected" in invoke(gateway, "local:odd", {"value": 3, "other": 1}).error
    registry.add_tool("local", lambda: asyncio.sleep(0, "later"), name="later")
    assert invoke(gateway, "local:later").output == "later"
    with pytest.raises(RegistrationError, match="by name"):
        registry.add_tool("local", by_place)
    with pytest.raises(RegistrationError, match="called"):
        registry.add_tool("local", "text")  # pyright: ignore[reportArgumentType]


@pytest.mark.covers("GTW-34")
def test_what_is_known_around_a_call_fills_in_what_a_function_requires() -> None:
    async def needs(query: str, context: dict[str, Any], context_summary: str = "own") -> Any:
        return [query, context, context_summary]

    async def free(**arguments: Any) -> Any:
        return arguments

    gateway, registry, _ = create_gateway()
    registry.add_tool("local", needs)
    registry.add_tool("local", free, input_schema={"required": ["context_summary"]})
    around = {"query": "what", "context_summary": "why", "context": {"a": 1}}
    assert invoke(gateway, "local:needs", **around).output == ["what", {"a": 1}, "own"]
    given = invoke(gateway, "local:needs", {"query": "mine"}, **around)
    assert given.output == ["mine", {"a": 1}, "own"]
    assert invoke(gateway, "local:free", {"x": 1}, **around).output == {"context_summary": "why", "x": 1}


@pytest.mark.covers("GTW-33", "GTW-35")
def test_an_invocation_returns_what_the_tool_returned_or_raised() -> None:
    gateway, registry, _ = create_gateway()

    async def fail(why: str) -> Any:
        raise ValueError(why)

    registry.add_tool("local", fail)
    add(registry, "echo")
    registry.add_tool("other", fail)
    done = invoke(gateway, "local:echo", {"city": "Bern"})
    assert (done.succeeded, done.output) == (True, {"arguments": {"city": "Bern"}})
    failed = invoke(gateway, "local:fail", {"why": "no"})
    assert (failed.succeeded, failed.error, failed.output) == (False, "no", None)
    assert isinstance(failed.exception, ValueError)
    assert invoke(gateway, tool_name="echo").succeeded
    assert invoke(gateway, tool_name="fail", source_id="other", arguments={"why": "so"}).error == "so"
    with pytest.raises(ToolNameAmbiguous, match="local, other"):
        invoke(gateway, tool_name="fail")
    for wrong in ({"tool_id": "local:ECHO"}, {"tool_name": "nobody"}, {}):
        with pytest.raises(ToolNotFound):
            invoke(gateway, **wrong)
    with pytest.raises(ToolNotFound):
        invoke(gateway, tool_name="echo", source_id="other")


@pytest.mark.covers("GTW-35", "GTW-2", "MCP-33", "MCP-40")
def test_cancelling_the_caller_reaches_the_tool() -> None:
    gateway, registry, _ = create_gateway()
    seen: list[str] = []
    go_on = threading.Event()

    async def main() -> None:
        started = asyncio.Event()
        loop = asyncio.get_running_loop()

        async def wait() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                seen.append("ended")

        def work() -> None:
            loop.call_soon_threadsafe(started.set)
            go_on.wait()
            seen.append("worked")

        registry.add_tool("local", wait)
        registry.add_tool("local", work)
        for name in ("wait", "work"):
            started.clear()
            call = asyncio.create_task(gateway.invoke(f"local:{name}"))
            await started.wait()
            call.cancel()
            await asyncio.sleep(0)
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await call

    asyncio.run(main())
    assert seen == ["ended", "worked"]


@pytest.mark.covers("GTW-2", "MCP-4")
def test_a_tool_runs_in_the_context_of_its_caller() -> None:
    current: ContextVar[str] = ContextVar("current", default="none")
    gateway, registry, _ = create_gateway()
    registry.add_tool("local", lambda: current.get(), name="sync")

    async def main() -> None:
        current.set("mine")
        assert (await gateway.invoke("local:sync")).output == "mine"

    asyncio.run(main())


@pytest.mark.covers("GTW-13")
def test_arguments_follow_references_and_stop_at_the_limit() -> None:
    schema: Mapping[str, Any] = {
        "properties": {"request": {"$ref": "#/$defs/node"}},
        "required": ["request"],
        "$defs": {
            "node": {
                "properties": {
                    "child": {"$ref": "#/$defs/node", "description": "Next.", "enum": ["up", 3, "down"]},
                    "list": {"items": {"anyOf": [{"properties": {"deep": {"description": "Far."}}}]}},
                    "a~b/c": {"$ref": "#/$defs/missing"},
                    "odd": True,
                }
            }
        },
    }
    everything = (
        Argument("request", required=True),
        Argument("child", "Next.", ("up", "down")),
        Argument("list"),
        Argument("a~b/c"),
        Argument("odd"),
        Argument("deep", "Far."),
    )
    assert schema_arguments(schema, 4096) == everything
    assert schema_arguments(schema, 26) == everything[:2]


@pytest.mark.covers("GTW-13")
def test_a_descriptor_holds_the_texts_of_a_tool_within_its_limit() -> None:
    _, registry, _ = create_gateway()
    hints = ToolHints(title="The forecast", aliases=("outlook",), examples=("will it rain",))
    document = add(registry, "forecast", hints=hints).document
    text = descriptor(document, 4096)
    assert text.split("\n")[:2] == ["forecast", "The forecast"]
    assert all(part in text for part in ("Does forecast.", "outlook", "city: Town.", "will it rain"))
    assert descriptor(document, 20) == text[:20]


@pytest.mark.covers("GTW-2")
def test_parallel_calls_see_their_own_results() -> None:
    async def main() -> None:
        gateway = contract_gateway()
        names = [operation["name"] for operation in OPERATIONS]
        found = await asyncio.gather(*(gateway.search(name, max_results=1) for name in names))
        assert [result.matches[0].name for result in found] == names

    asyncio.run(main())


@pytest.mark.covers("GTW-40", "GTW-21")
def test_the_library_imports_nothing_of_the_server_and_no_client_before_it_is_needed() -> None:
    script = (
        "import asyncio, sys, keyload.gateway\n"
        "gateway, registry, _ = keyload.gateway.create_gateway()\n"
        "registry.add_tool('local', lambda word: word, name='say', description='Says a word.')\n"
        "asyncio.run(gateway.search('say'))\n"
        "mine = {name for name in sys.modules if name.startswith('keyload.')}\n"
        "print([name for name in sorted(mine) if not name.startswith('keyload.gateway')])\n"
        "print([name for name in ('mcp', 'httpx2', 'networkx', 'lmdb', 'quart') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n[]\n"


@pytest.mark.covers("GTW-17", "GTW-22", "GTW-26", "GTW-31")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"strategy": "lexical"}, "one of auto, embeddings, tokenizer, graph"),
        ({"query_normalization": "always"}, "one of translate_when_available, disabled"),
        ({"low_confidence": 7}, "0..1"),
        ({"retry_seconds": 0}, "above 0 seconds"),
        ({"max_tools": 8193}, "max_tools is at most 8192"),
        ({"max_search_chars": 8193}, "max_search_chars is at most 8192"),
        ({"max_metadata_bytes": (16 << 20) + 1}, "max_metadata_bytes is at most 16777216"),
        ({"embedding_generator": InMemoryEmbeddingStore}, "not a class"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        GatewayOptions(**options)


@pytest.mark.covers("GTW-3")
def test_hints_of_another_kind_and_functions_without_a_name_are_refused() -> None:
    _, registry, _ = create_gateway()
    with pytest.raises(RegistrationError, match="ToolHints"):
        registry.add_tool("local", print, name="x", hints={"category": "y"})  # type: ignore[arg-type]
    with pytest.raises(RegistrationError):
        registry.add_tool("local", lambda: 1)
    assert registry.add_tool("local", lambda: 1, name="one").name == "one"


@pytest.mark.covers("GTW-13", "GTW-19")
def test_a_long_text_of_one_argument_leaves_room_for_the_names_of_the_others() -> None:
    properties = {
        "long": {"type": "string", "description": "d" * 5_000},
        "short": {"enum": ["a", "b" * 4_000]},
    }
    long, short = schema_arguments({"type": "object", "properties": properties}, 4096)
    assert (long.name, long.text) == ("long", "d" * 1_024)
    assert (short.name, short.values) == ("short", ("a",))


@pytest.mark.covers("GTW-23")
def test_no_document_takes_the_place_of_the_index() -> None:
    names = file_names(("index:", "index:-", "a:b", "a-b", "INDEX"))
    assert len(set(names.values())) == 5
    assert "index.md" not in names.values()
