"""The usual slips of a call through the meta tool: refused, and answered with the call that was meant."""

from __future__ import annotations

import json
from typing import Any

import pytest

from keyload.codec.decoding import decode_arguments
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.operation import Operation
from keyload.contract.operations import OPERATIONS
from keyload.front.mcp import slips
from keyload.front.mcp.preflight import INVOKE
from keyload.front.mcp.tools import META_TOOLS, ROUTE, SEARCH
from tests.unit.declared import GUID, MARKER, faults, whole

from .support import Driver, Functions, Reply, with_driver

GET = "keyload_documents_get"
COMMIT = "keyload_documents_commit"
DISPATCH = "keyload_admin_dispatch"
STATUS = "keyload_admin_status"


def right(operation: Operation) -> dict[str, Any]:
    """A valid call whose values are the caller's own."""
    arguments: dict[str, Any] = {"commandId": GUID} if operation.outer_command_id else {}
    if operation.request is not None:
        arguments["request"] = True if operation.request is bool else whole(operation.request)
    return {"toolId": operation.name, "arguments": arguments}


def wrong(operation: Operation) -> dict[str, Any]:
    """Every slip that an operation allows, by what is wrong."""
    call = right(operation)
    name, arguments = call["toolId"], call["arguments"]
    made: dict[str, Any] = {
        "name inside arguments": {"arguments": {"toolId": name, **arguments}},
        "name as operation": {"arguments": {"operation": name, **arguments}},
        "name under another member": {"name": name, "arguments": arguments},
        "name in other case": {**call, "toolId": name.upper()},
        "name with hyphens": {**call, "toolId": name.replace("_", "-")},
        "name in camel case": {**call, "toolId": "".join(map(str.title, name.split("_")[1:]))},
        "name with a prefix": {**call, "toolId": f"mcp__keyload__{name}"},
        "name with a source": {**call, "toolId": f"keyload:{name}"},
        "name with a suffix": {**call, "toolId": f"{name}()"},
        "name without prefix": {**call, "toolId": name.removeprefix("keyload_")},
        "arguments as text": {**call, "arguments": json.dumps(arguments)},
    }
    if operation.request is None:
        return made
    request = arguments["request"]
    beside = {member: value for member, value in arguments.items() if member != "request"}
    made |= {
        "arguments left out": {"toolId": name, **arguments},
        "arguments twice": {"toolId": name, "arguments": {"arguments": arguments}},
        "params instead of arguments": {"toolId": name, "params": arguments},
    }
    if operation.request is not bool:
        made |= {
            "request left out": {"toolId": name, "arguments": {**beside, **request}},
            "both left out": {"toolId": name, **beside, **request},
            "request twice": {"toolId": name, "arguments": {**beside, "request": {"request": request}}},
            "request as text": {"toolId": name, "arguments": {**beside, "request": json.dumps(request)}},
        }
    if operation.outer_command_id:
        made["command id outside"] = {"toolId": name, "commandId": GUID, "arguments": {"request": request}}
        if operation.request is not bool:
            inside = {"request": {**request, "commandId": GUID}}
            made["command id inside"] = {"toolId": name, "arguments": inside}
    if operation.write_identity == "request.commandId":
        rest = {member: value for member, value in request.items() if member != "commandId"}
        made["command id beside"] = {"toolId": name, "arguments": {"commandId": GUID, "request": rest}}
        made["command id outside"] = {"toolId": name, "commandId": GUID, "arguments": {"request": rest}}
    return made


def shape(value: Any) -> Any:
    """Member names and lengths of a tree."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items() if name != "atomicPartitionId"}
    return [shape(item) for item in value] if isinstance(value, list) else None


CASES = [(name, slip) for name, operation in OPERATIONS.items() for slip in wrong(operation)]


@pytest.mark.covers("MCP-16", "MCP-17", "MCP-18", "MCP-19", "CON-39", "CON-40", "SEC-40")
def test_each_slip_is_refused_with_the_call_that_was_meant() -> None:
    invoke = Functions({})

    async def test(driver: Driver) -> None:
        for name, slip in CASES:
            operation = OPERATIONS[name]
            reply = await driver.call(INVOKE, wrong(operation)[slip])
            error = reply.structured["error"]
            code = ErrorCode.NOT_FOUND if "toolId exactly" in error["expected"] else ErrorCode.VALIDATION
            assert (slip, error["errorCode"], reply.structured["requestId"]) == (slip, code, None)
            assert error["expected"].startswith("the call of the example, with your values: "), slip
            assert "\n" not in error["expected"]
            assert error["path"].startswith("/"), slip
            example = error["example"]
            assert shape(example) == shape(right(operation)), slip
            assert example["toolId"] == name
            decode_arguments(operation, example["arguments"])
            assert MARKER not in reply.body.decode(), slip
            assert GUID not in reply.body.decode(), slip
        assert invoke.calls == []
        for name in OPERATIONS:
            reply = await driver.call(INVOKE, wrong(OPERATIONS[name])["arguments as text"])
            await driver.call(INVOKE, reply.structured["error"]["example"])
        assert [call[1] for call in invoke.calls] == list(OPERATIONS)

    with_driver(test, invoke)


@pytest.mark.covers("MCP-18")
def test_the_sentence_says_what_to_move() -> None:
    def said(call: Any) -> str:
        slip = slips.find(call, OPERATIONS)
        assert slip is not None
        return slip.expected.removeprefix("the call of the example, with your values: ")

    request = whole(OPERATIONS[GET].request)
    commit = whole(OPERATIONS[COMMIT].request)
    assert said({"toolId": GET, "request": request}) == "the members of the request inside arguments.request"
    assert said({"toolId": GET, "arguments": request["reference"]}) == (
        "the members of reference inside arguments.request.reference"
    )
    assert said({"toolId": GET, "arguments": {"request": request["reference"]}}) == (
        "the members of reference inside arguments.request.reference"
    )
    assert said({"toolId": GET, "arguments": {"request": json.dumps(request)}}) == (
        "request as an object instead of a text"
    )
    assert said({"arguments": {"name": GET, "request": request}}) == f"toolId {GET} beside arguments"
    assert said({"toolId": "documents_get", "arguments": {"request": request}}) == f"toolId exactly {GET}"
    assert said({"toolId": DISPATCH, "arguments": {"commandId": GUID, "paused": True}}) == (
        "true or false as arguments.request"
    )
    assert said({"toolId": DISPATCH, "commandId": GUID, "arguments": {"request": True}}) == (
        "commandId in arguments, beside request"
    )
    assert said({"toolId": COMMIT, "commandId": GUID, "arguments": {"request": commit}}) == (
        "commandId inside arguments.request"
    )
    assert said({"toolId": STATUS, "arguments": {"request": {}}}) == "no members in arguments"


@pytest.mark.covers("MCP-18")
@pytest.mark.parametrize(
    "call",
    [
        None,
        [],
        {},
        {"arguments": {"request": {}}},
        {"arguments": {"operation": GET, "tool": STATUS}},
        {"toolId": 7, "arguments": {}},
        {"toolId": "keyload", "arguments": {}},
        {"toolId": f"{GET} {STATUS}", "arguments": {}},
        {"toolId": GET, "arguments": {"request": {"x": 1}}},
        {"toolId": GET, "arguments": {"request": "{" * 70}},
        *(right(operation) for operation in OPERATIONS.values()),
    ],
)
def test_nothing_is_guessed(call: Any) -> None:
    assert slips.find(call, OPERATIONS) is None


@pytest.mark.covers("MCP-17", "MCP-18", "HTTP-16")
def test_a_fault_inside_a_call_of_the_right_form_keeps_its_own_place() -> None:
    async def test(driver: Driver) -> None:
        for name, operation in OPERATIONS.items():
            if operation.request in (None, bool):
                continue
            for fault in list(faults(operation.request))[::7]:
                if "\\ud" in json.dumps(fault.tree):
                    continue  # half a pair never reaches the tool
                call = right(operation)
                call["arguments"]["request"] = fault.tree
                reply = await driver.call(INVOKE, call)
                error = reply.structured["error"]
                assert error["path"] == f"/arguments/request{fault.path}", fault
                assert error["expected"]
                if error["errorCode"] == "Validation":
                    assert error["example"]["toolId"] == name
                    decode_arguments(operation, error["example"]["arguments"])
                assert MARKER not in reply.body.decode()

    with_driver(test)


@pytest.mark.covers("MCP-19")
def test_a_misspelt_target_is_told_the_nearest() -> None:
    async def test(driver: Driver) -> None:
        error = (await driver.invoke("keyload_documents_gte", {})).structured["error"]
        assert error["expected"].startswith(f"{GET}, or another toolId that gateway_tools_search")
        assert (error["errorCode"], error["path"]) == ("NotFound", "/toolId")
        error = (await driver.invoke("nothing_like_it", {})).structured["error"]
        assert error["expected"].startswith("toolId that")
        assert "example" not in error

    with_driver(test)


@pytest.mark.covers("MCP-13", "SEC-40")
@pytest.mark.parametrize("modern", [True, False])
def test_an_operation_called_as_a_tool_is_told_how_to_invoke_it(modern: bool) -> None:
    invoke = Functions({})

    async def test(driver: Driver) -> None:
        for name, operation in OPERATIONS.items():
            arguments = right(operation)["arguments"]
            request = arguments.get("request")
            forms = [arguments, *([request] if isinstance(request, dict) else [])]
            for tool, given in [(f"mcp__keyload__{name}", arguments), *((name, form) for form in forms)]:
                reply = await driver.call(tool, given, modern=modern)
                assert reply.error["code"] == -32602
                data = reply.error["data"]
                assert (data["errorCode"], data["path"]) == ("NotFound", "/name")
                assert data["expected"] == (f"the tool {INVOKE} with the toolId {name}, as in the example")
                assert data["example"]["name"] == INVOKE
                assert data["example"]["arguments"]["toolId"] == name
                decode_arguments(operation, data["example"]["arguments"]["arguments"])
                assert MARKER not in reply.body.decode()
            assert invoke.calls == []
            await driver.call(**{"tool": data["example"]["name"], "arguments": data["example"]["arguments"]})
            assert invoke.calls.pop()[1] == name

    with_driver(test, invoke)


@pytest.mark.covers("MCP-13")
def test_a_meta_tool_in_another_spelling_is_named() -> None:
    async def test(driver: Driver) -> None:
        for name in META_TOOLS:
            for spelling in (name.upper(), f"keyload.{name}", name.replace("_", "-")):
                assert (await driver.call(spelling, {})).error["data"]["expected"] == name
        data = (await driver.call("something", {})).error["data"]
        assert data["expected"] == "one of " + ", ".join(META_TOOLS)

    with_driver(test)


@pytest.mark.covers("MCP-14", "MCP-15", "MCP-17")
@pytest.mark.parametrize("tool", [SEARCH, ROUTE])
def test_search_and_route_show_a_call_that_would_do(tool: str) -> None:
    async def test(driver: Driver) -> None:
        error = (await driver.call(tool, {"Query": "x"})).structured["error"]
        assert error["path"] == "/Query"
        assert error["expected"].startswith("query, or another")
        assert (await driver.call(tool, error["example"])).result["isError"] is False

    with_driver(test)


@pytest.mark.covers("MCP-21", "MCP-26", "CON-47")
def test_a_refusal_of_the_execution_points_into_the_call() -> None:
    async def refuse(*given: Any) -> bytes:
        raise KeyLoadError(ErrorCode.VALIDATION, "Said so.", path="/reference/id", expected="another")

    async def test(driver: Driver) -> None:
        call = right(OPERATIONS[GET])
        reply: Reply = await driver.call(INVOKE, call)
        error = reply.structured["error"]
        assert error["path"] == "/arguments/request/reference/id"
        assert (error["expected"], error["retry"]) == ("another", "never")
        assert shape(error["example"]) == shape(
            {
                "toolId": GET,
                "arguments": {"request": {"reference": call["arguments"]["request"]["reference"]}},
            }
        )

    with_driver(test, Functions({GET: refuse}))
