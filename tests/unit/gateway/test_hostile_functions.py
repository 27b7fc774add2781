"""Functions and their owners that behave badly: the gateway, its loop and its answers stand it (GTW-35)."""

from __future__ import annotations

import asyncio
import functools
import json
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from keyload.gateway import (
    Gateway,
    GatewayError,
    GatewayOptions,
    RegistrationError,
    SearchTextTooLong,
    create_gateway,
)
from tests.unit.gateway.support import plant_tree, run


class Strange(BaseException):
    pass


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nothing to say")


def ends_the_program() -> None:
    sys.exit(2)


async def ends_the_program_later() -> None:
    sys.exit(2)


def finds_nothing() -> Any:
    return next(iter(()))


def interrupts() -> None:
    raise KeyboardInterrupt


def is_cancelled() -> None:
    raise asyncio.CancelledError


def waits_for_what_was_cancelled() -> Any:
    future: Future[None] = Future()
    future.cancel()
    return future.result()


async def waits_for_what_was_cancelled_here() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def is_strange() -> None:
    raise Strange("odd")


async def fails_as_a_group() -> None:
    raise BaseExceptionGroup("both", [SystemExit(1), ValueError()])


def is_speechless() -> None:
    raise Speechless


@pytest.mark.covers("GTW-35", "GTW-2")
@pytest.mark.parametrize(
    "function",
    [
        ends_the_program,
        ends_the_program_later,
        finds_nothing,
        interrupts,
        is_cancelled,
        waits_for_what_was_cancelled,
        waits_for_what_was_cancelled_here,
        is_strange,
        fails_as_a_group,
        is_speechless,
    ],
)
def test_whatever_a_function_raises_is_an_unsuccessful_result(function: Callable[[], Any]) -> None:
    async def main() -> None:
        gateway, registry, _ = create_gateway()
        registry.add_tool("local", function, name="bad")
        registry.add_tool("local", plant_tree)
        async with gateway:
            done = await gateway.invoke("local:bad")
            assert not done.succeeded
            assert done.error
            assert done.exception is not None
            assert (await gateway.invoke("local:plant_tree", {"kind": "ash"})).succeeded

    run(main())


@pytest.mark.covers("GTW-2", "GTW-10")
def test_functions_that_do_not_return_are_in_nobodys_way() -> None:
    go_on = threading.Event()

    async def main() -> None:
        gateway, registry, _ = create_gateway()
        registry.add_tool("local", go_on.wait, name="wait", input_schema={"type": "object"})
        async with gateway:
            waiting = [asyncio.create_task(gateway.invoke("local:wait")) for _ in range(64)]
            registry.add_tool("local", plant_tree)
            assert (await gateway.invoke("local:plant_tree", {"kind": "ash"})).output == "ash planted"
            assert (await gateway.search("plant a tree")).matches[0].name == "plant_tree"
            go_on.set()
            assert all(done.succeeded for done in await asyncio.gather(*waiting))

    run(main())


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("nothing to show")


def holds_itself() -> list[Any]:
    held: list[Any] = []
    held.append(held)
    return held


@pytest.mark.covers("GTW-35", "GTW-36")
@pytest.mark.parametrize("output", [holds_itself(), {(1, 2): 3}, Unshowable(), "\ud800"])
def test_an_output_that_is_no_json_is_told_and_not_raised(output: Any) -> None:
    async def main() -> None:
        gateway, registry, tool_set = create_gateway()
        registry.add_tool("local", lambda: output, name="odd")
        async with gateway:
            answer = await tool_set.create_tools()[2].call({"toolId": "local:odd"})
            assert answer["succeeded"]
            assert answer["output"] is None
            assert "cannot be shown" in answer["error"]
            json.dumps(answer, ensure_ascii=False).encode()

    run(main())


@pytest.mark.covers("GTW-36")
@pytest.mark.parametrize("arguments", [["query"], "query", 5, {"context": []}])
def test_arguments_of_no_use_are_refused(arguments: Any) -> None:
    async def main() -> None:
        _, _, tool_set = create_gateway()
        with pytest.raises(GatewayError, match="do not fit"):
            await tool_set.create_tools()[0].call(arguments)

    asyncio.run(main())


class Planner:
    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    def plan(self, task: str) -> str:
        return task


@pytest.mark.covers("GTW-37")
def test_only_meta_tools_are_taken_for_meta_tools() -> None:
    gateway, registry, _ = create_gateway()
    registry.add_tool("local", Planner(gateway).plan)
    search = gateway.create_meta_tools()[0]

    @functools.wraps(search.call)
    async def wrapped(**arguments: Any) -> Any:
        return await search.call(arguments)

    with pytest.raises(RegistrationError, match="own meta tools"):
        registry.add_tool("local", wrapped)


@pytest.mark.covers("GTW-3")
@pytest.mark.parametrize("annotation", ["not valid!", "1 / 0", "__import__('nowhere')", "nobody.knows"])
def test_annotations_that_cannot_be_read_leave_a_tool_usable(annotation: str) -> None:
    def call(value: Any) -> Any:
        return value

    call.__annotations__["value"] = annotation

    async def main() -> None:
        gateway, registry, _ = create_gateway()
        assert registry.add_tool("local", call).required == ("value",)
        async with gateway:
            assert (await gateway.invoke("local:call", {"value": [1]})).output == [1]

    run(main())


@pytest.mark.covers("GTW-3")
@pytest.mark.parametrize("required", [5, None, "value", {"value": 1}])
def test_a_schema_whose_required_names_are_no_list_requires_nothing(required: Any) -> None:
    _, registry, _ = create_gateway()
    tool = registry.add_tool("local", plant_tree, input_schema={"type": "object", "required": required})
    assert tool.required == ()


@pytest.mark.covers("GTW-3", "GTW-39")
@pytest.mark.parametrize("more", [{"name": "\ud800"}, {"description": "half \udc00"}])
def test_texts_that_no_answer_could_carry_are_refused(more: dict[str, Any]) -> None:
    _, registry, _ = create_gateway()
    with pytest.raises(RegistrationError, match="Unicode"):
        registry.add_tool("local", plant_tree, **more)
    assert registry.tools == ()


@pytest.mark.covers("GTW-39", "GTW-14")
def test_a_context_without_end_is_refused() -> None:
    circle: dict[str, Any] = {}
    circle["circle"] = circle
    doubled: list[Any] = []
    for _ in range(64):
        doubled = [doubled, doubled]

    async def main() -> None:
        gateway, registry, _ = create_gateway(GatewayOptions(strategy="tokenizer"))
        registry.add_tool("local", plant_tree)
        async with gateway:
            for context in (circle, {"doubled": doubled}, {"number": 10**5000}):
                with pytest.raises(SearchTextTooLong):
                    await gateway.search("plant a tree", context=context)

    run(main())
