"""Search, route and invoke: arguments, answers, and what travels through unchanged."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.operations import OPERATIONS
from keyload.front.calls import Outcome, RequestContext
from keyload.front.mcp import McpHost, inspect, tools
from keyload.front.mcp.schemas import MAX_QUERY_BYTES
from keyload.front.mcp.tools import META_TOOLS, tool_list
from keyload.gateway import RegistrationError
from tests.unit.front_mcp.support import (
    HANDSHAKE,
    Driver,
    Functions,
    caller,
    drive,
    headers_for,
    message,
    stay,
    with_driver,
)
from tests.unit.gateway.catalog import TYPES

SEARCH, ROUTE, INVOKE = META_TOOLS
STATUS, DISPATCH, GET = "keyload_admin_status", "keyload_admin_dispatch", "keyload_documents_get"
COMMAND = "0f8fad5b-d9cb-469f-a165-70867728950e"
ERAS = pytest.mark.parametrize("modern", [True, False], ids=["2026-07-28", HANDSHAKE])
OUTPUT = {tool["name"]: Draft202012Validator(tool["outputSchema"]) for tool in tool_list()}


def answering(text: bytes) -> Functions:
    """Every operation answers with this JSON text."""

    async def function(who: Any, command_id: Any, request: Any) -> bytes:
        return text

    return Functions(dict.fromkeys(OPERATIONS, function))


def failed(reply: Any, code: str) -> dict[str, Any]:
    """Check that a reply is a tool failure and return its structured content."""
    assert reply.status == 200
    assert reply.result["isError"] is True
    structured = reply.structured
    assert set(structured) == {"error", "requestId"}
    assert structured["error"]["errorCode"] == code
    return structured


@pytest.mark.covers("MCP-9", "MCP-14", "MCP-15", "MCP-16", "MCP-29")
@pytest.mark.parametrize(
    ("tool", "type_name"),
    [
        (SEARCH, "GatewaySearchArguments"),
        (ROUTE, "GatewayRouteArguments"),
        (INVOKE, "GatewayInvokeArguments"),
    ],
)
def test_input_schemas_agree_with_the_contract(tool: str, type_name: str) -> None:
    (schema,) = [entry["inputSchema"] for entry in tool_list() if entry["name"] == tool]
    (members,) = [entry["members"] for entry in TYPES["types"] if entry["name"] == type_name]
    assert list(schema["properties"]) == [member["name"] for member in members]
    assert schema["required"] == [member["name"] for member in members if member["required"]]
    for member in members:
        given = schema["properties"][member["name"]]
        if not member["required"]:
            assert given["default"] == member["default"]
        if "min" in member["constraints"]:
            assert given["type"] == "integer"
            assert given["minimum"] == member["constraints"]["min"]
            assert given["maximum"] == member["constraints"]["max"]


@pytest.mark.covers("MCP-23", "MCP-29")
@pytest.mark.parametrize("type_name", ["GatewayToolMatch", "GatewayRouteCategory", "Problem"])
def test_output_schemas_agree_with_the_contract(type_name: str) -> None:
    (members,) = [entry["members"] for entry in TYPES["types"] if entry["name"] == type_name]
    (schema,) = [entry["outputSchema"]["properties"] for entry in tool_list() if entry["name"] == ROUTE]
    category = schema["result"]["properties"]["categories"]["items"]
    described = {
        "GatewayToolMatch": category["properties"]["tools"]["items"],
        "GatewayRouteCategory": category,
        "Problem": schema["error"],
    }[type_name]
    assert list(described["properties"]) == [member["name"] for member in members]
    assert described["required"] == [member["name"] for member in members if member["required"]]


@ERAS
@pytest.mark.covers("MCP-14", "MCP-21", "MCP-22", "MCP-23", "CON-43")
def test_search_returns_real_entries_with_complete_schemas(modern: bool) -> None:
    invoke = Functions({})

    async def test(driver: Driver) -> None:
        reply = await driver.call(SEARCH, {"query": "is the node healthy", "maxResults": 4}, modern=modern)
        OUTPUT[SEARCH].validate(reply.structured)
        assert reply.result["isError"] is False
        assert reply.structured["requestId"] is None
        (text,) = reply.result["content"]
        assert "\n" not in text["text"]
        assert "healthy" not in reply.body.decode()[: reply.body.decode().index("inputSchema")]
        matches = reply.structured["result"]["matches"]
        assert matches[0]["toolId"] == STATUS
        assert len({match["toolId"] for match in matches}) == len(matches) <= 4
        for match in matches:
            operation = OPERATIONS[match["toolId"]]
            assert match["title"] == operation.title
            assert match["description"] == operation.description
            assert match["feature"] == operation.feature
            hints = (match["readOnly"], match["destructive"], match["idempotent"])
            assert hints == (operation.read_only, operation.destructive, operation.idempotent)
            assert math.isfinite(match["score"])
            assert list(match["inputSchema"]["properties"]) == list(operation.arguments)
            Draft202012Validator.check_schema(match["inputSchema"])
            Draft202012Validator.check_schema(match["outputSchema"])

    with_driver(test, invoke)
    assert invoke.calls == []


@pytest.mark.covers("MCP-14", "MCP-36")
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_every_operation_is_found_by_name_and_by_each_alias(name: str) -> None:
    async def test(driver: Driver) -> None:
        for query in (name, *OPERATIONS[name].aliases):
            reply = await driver.call(SEARCH, {"query": query, "maxResults": 1})
            assert reply.structured["result"]["matches"][0]["toolId"] == name

    with_driver(test)


@pytest.mark.covers("MCP-14")
def test_three_matches_are_the_default() -> None:
    async def test(driver: Driver) -> None:
        reply = await driver.call(
            SEARCH, {"query": "configure a resource, a principal, a key or read a document"}
        )
        assert len(reply.structured["result"]["matches"]) == 3

    with_driver(test)


@ERAS
@pytest.mark.covers("MCP-15", "MCP-20", "MCP-22")
def test_route_groups_different_operations(modern: bool) -> None:
    async def test(driver: Driver) -> None:
        query = "save, read or delete a document and check the node"
        reply = await driver.call(ROUTE, {"query": query, "preferReadOnly": True}, modern=modern)
        OUTPUT[ROUTE].validate(reply.structured)
        assert reply.structured["requestId"] is None
        categories = reply.structured["result"]["categories"]
        tools = [tool for category in categories for tool in category["tools"]]
        assert 1 <= len(tools) == len({tool["toolId"] for tool in tools}) <= 4
        documents = next(category for category in categories if category["feature"] == "documents")
        flags = [tool["readOnly"] for tool in documents["tools"]]
        assert flags == sorted(flags, reverse=True)
        one = await driver.call(
            ROUTE, {"query": query, "maxCategories": 1, "maxToolsPerCategory": 1}, modern=modern
        )
        (category,) = one.structured["result"]["categories"]
        assert len(category["tools"]) == 1

    with_driver(test)


@pytest.mark.covers("MCP-15", "CON-44")
@pytest.mark.parametrize("tool", [SEARCH, ROUTE])
def test_a_task_that_fits_nothing_gets_an_empty_list(tool: str) -> None:
    async def test(driver: Driver) -> None:
        reply = await driver.call(tool, {"query": "bake a chocolate cake"})
        assert reply.result["isError"] is False
        assert list(reply.structured["result"].values()) == [[]]

    with_driver(test)


BAD_ARGUMENTS: list[tuple[str, Any]] = [
    (SEARCH, None),
    (SEARCH, {}),
    (SEARCH, {"query": ""}),
    (SEARCH, {"query": " \t\n"}),
    (SEARCH, {"query": None}),
    (SEARCH, {"query": 5}),
    (SEARCH, {"query": ["x"]}),
    (SEARCH, {"query": "文" * 700}),
    (SEARCH, {"query": "x" * (MAX_QUERY_BYTES + 1)}),
    (SEARCH, {"Query": "x"}),
    (SEARCH, {"query": "x", "maxResults": 5}),
    (SEARCH, {"query": "x", "maxResults": 0}),
    (SEARCH, {"query": "x", "maxResults": -1}),
    (SEARCH, {"query": "x", "maxResults": 3.0}),
    (SEARCH, {"query": "x", "maxResults": "3"}),
    (SEARCH, {"query": "x", "maxResults": True}),
    (SEARCH, {"query": "x", "maxResults": None}),
    (SEARCH, {"query": "x", "maxresults": 3}),
    (SEARCH, {"query": "x", "limit": 3}),
    (SEARCH, {"query": "x", "context": {}}),
    (SEARCH, {"query": "x", "translate": True}),
    (ROUTE, {"query": "x", "maxCategories": 3}),
    (ROUTE, {"query": "x", "maxCategories": "2"}),
    (ROUTE, {"query": "x", "maxToolsPerCategory": 0}),
    (ROUTE, {"query": "x", "maxToolsPerCategory": 2.0}),
    (ROUTE, {"query": "x", "preferReadOnly": "true"}),
    (ROUTE, {"query": "x", "preferReadOnly": 1}),
    (ROUTE, {"query": "x", "maxResults": 3}),
    (INVOKE, None),
    (INVOKE, {"toolId": 7}),
    (INVOKE, {"toolid": STATUS}),
    (INVOKE, {"toolId": STATUS, "query": "x"}),
    (INVOKE, {"toolId": STATUS, "arguments": []}),
    (INVOKE, {"toolId": STATUS, "arguments": "{}"}),
    (INVOKE, {"toolId": STATUS, "arguments": None}),
]


@ERAS
@pytest.mark.covers("MCP-14", "MCP-15", "MCP-16", "MCP-17", "CON-7", "CON-44")
@pytest.mark.parametrize(("tool", "arguments"), BAD_ARGUMENTS)
def test_bad_arguments_are_a_validation_answer(tool: str, arguments: Any, modern: bool) -> None:
    invoke = answering(b"1")

    async def test(driver: Driver) -> None:
        reply = await driver.call(tool, arguments, modern=modern)
        structured = failed(reply, "Validation")
        assert structured["requestId"] is None
        OUTPUT[tool].validate(structured)

    with_driver(test, invoke)
    assert invoke.calls == []


@pytest.mark.covers("MCP-16", "MCP-18")
@pytest.mark.parametrize(
    "members",
    [
        {"arguments": {"partition": {}, "collection": "notes", "id": "first"}},
        {"arguments": "{}"},
        {"reference": {}},
    ],
)
def test_a_call_of_the_wrong_form_is_shown_the_right_one(members: dict[str, Any]) -> None:
    async def test(driver: Driver) -> None:
        error = failed(await driver.call(INVOKE, {"toolId": GET, **members}), "Validation")["error"]
        assert error["example"]["toolId"] == GET
        assert set(error["example"]["arguments"]["request"]) == {"reference"}

    with_driver(test)


@ERAS
@pytest.mark.covers("MCP-17")
@pytest.mark.parametrize("arguments", [["x"], "query", 5])
def test_arguments_that_are_no_object_are_invalid_params(arguments: Any, modern: bool) -> None:
    async def test(driver: Driver) -> None:
        assert (await driver.call(SEARCH, arguments, modern=modern)).error["code"] == -32602

    with_driver(test)


@pytest.mark.covers("MCP-14")
@pytest.mark.parametrize("query", ["文" * 682, "x" * MAX_QUERY_BYTES, "is the node healthy " * 100])
def test_the_longest_query_passes(query: str) -> None:
    async def test(driver: Driver) -> None:
        assert (await driver.call(SEARCH, {"query": query})).result["isError"] is False

    with_driver(test)


@ERAS
@pytest.mark.covers("MCP-19", "CON-40")
@pytest.mark.parametrize(
    "tool_id", ["keyload_nothing", STATUS.upper(), f"{STATUS} ", f"keyload:{STATUS}", *META_TOOLS]
)
def test_an_unknown_target_is_not_found(tool_id: str, modern: bool) -> None:
    invoke = answering(b"1")

    async def test(driver: Driver) -> None:
        structured = failed(await driver.invoke(tool_id, {}, modern=modern), "NotFound")
        assert structured["requestId"] is None

    with_driver(test, invoke)
    assert invoke.calls == []


@pytest.mark.covers("MCP-18", "CON-39")
@pytest.mark.parametrize(
    ("tool_id", "arguments"),
    [
        (STATUS, {"request": {}}),
        (STATUS, {"commandId": COMMAND}),
        (DISPATCH, {}),
        (DISPATCH, {"request": True}),
        (DISPATCH, {"commandId": COMMAND}),
        (DISPATCH, {"commandId": COMMAND, "request": "true"}),
        (GET, {}),
        (GET, {"request": {}}),
        (GET, {"request": None}),
        (GET, {"commandId": COMMAND, "request": {}}),
        (GET, {"request": {}, "principal": "root"}),
    ],
)
def test_an_envelope_of_another_form_is_refused(tool_id: str, arguments: Any) -> None:
    invoke = answering(b"1")

    async def test(driver: Driver) -> None:
        assert failed(await driver.invoke(tool_id, arguments), "Validation")["requestId"] is None

    with_driver(test, invoke)
    assert invoke.calls == []


@ERAS
@pytest.mark.covers("MCP-18", "MCP-21", "MCP-22", "MCP-26", "CON-39", "CON-41")
def test_an_invocation_carries_identity_request_and_principal(modern: bool) -> None:
    invoke = answering(b"true")

    async def test(driver: Driver) -> None:
        arguments = {"commandId": COMMAND, "request": True}
        reply = await driver.invoke(DISPATCH, arguments, modern=modern, who=caller("bob"))
        OUTPUT[INVOKE].validate(reply.structured)
        assert reply.structured["result"] is True
        assert len(reply.structured["requestId"]) == 36
        (text,) = reply.result["content"]
        assert text == {"type": "text", "text": "Pause or resume delivery: done."}
        assert (await driver.invoke(STATUS, modern=modern)).result["isError"] is False

    with_driver(test, invoke)
    assert invoke.calls == [("bob", DISPATCH, COMMAND, True), ("alice", STATUS, None, None)]


@ERAS
@pytest.mark.covers("MCP-21", "MCP-26", "CON-42", "CON-48")
def test_a_refusal_of_the_execution_keeps_its_request_id(modern: bool) -> None:
    async def conflict(who: Any, command_id: Any, request: Any) -> bytes:
        raise KeyLoadError(ErrorCode.CONFLICT, "The identity was used.", path="/commandId")

    async def test(driver: Driver) -> None:
        structured = failed(await driver.invoke(STATUS, modern=modern), "Conflict")
        assert len(structured["requestId"]) == 36
        assert structured["error"] == {
            "type": "urn:keyload:error:Conflict",
            "title": "Conflict",
            "status": 409,
            "detail": "The identity was used.",
            "errorCode": "Conflict",
            "path": "/commandId",
            "retry": "never",
        }
        failed(await driver.invoke(DISPATCH, {"commandId": COMMAND, "request": True}), "PermissionDenied")

    with_driver(test, Functions({STATUS: conflict}))


@ERAS
@pytest.mark.covers("MCP-27", "CON-41")
@pytest.mark.parametrize(
    "text",
    [
        b"null",
        b'"text"',
        b"[]",
        b"1e16",
        b"1.10",
        b"12345678901234567890123456789.500e-3",
        b'{"a":-0.0,"b":"\\u0041\\/","c":null}',
        '{"ж":"文\u2028"}'.encode(),
    ],
)
def test_a_result_travels_as_its_bytes(text: bytes, modern: bool) -> None:
    async def test(driver: Driver) -> None:
        reply = await driver.invoke(STATUS, modern=modern)
        assert b'"structuredContent":{"result":' + text + b',"requestId":"' in reply.body
        assert int(reply.headers["content-length"]) == len(reply.body)
        assert reply.structured["result"] == json.loads(text)

    with_driver(test, answering(text))


@ERAS
@pytest.mark.covers("MCP-27", "ADM-26")
def test_a_large_result_is_sent_in_pieces(modern: bool) -> None:
    text = json.dumps(["x" * 100] * 80_000).encode()

    async def test(driver: Driver) -> None:
        reply = await driver.invoke(STATUS, modern=modern)
        assert reply.structured["result"] == ["x" * 100] * 80_000
        assert max(reply.pieces) <= 262_144

    with_driver(test, answering(text))


@ERAS
@pytest.mark.covers("ADM-26", "CON-181")
@pytest.mark.parametrize(
    ("tool_id", "arguments", "cap"),
    [(STATUS, {}, 16_777_216), (DISPATCH, {"commandId": COMMAND, "request": True}, 65_536)],
)
def test_a_reply_at_its_cap_passes_and_one_byte_more_is_refused(
    tool_id: str, arguments: Any, cap: int, modern: bool
) -> None:
    texts = {"now": b'""'}

    async def function(who: Any, command_id: Any, request: Any) -> bytes:
        return texts["now"]

    async def test(driver: Driver) -> None:
        frame = len((await driver.invoke(tool_id, arguments, modern=modern)).body)
        texts["now"] = b'"' + b"x" * (cap - frame) + b'"'
        reply = await driver.invoke(tool_id, arguments, modern=modern)
        assert (len(reply.body), reply.result["isError"]) == (cap, False)
        texts["now"] = b'"' + b"x" * (cap - frame + 1) + b'"'
        reply = await driver.invoke(tool_id, arguments, modern=modern)
        structured = failed(reply, "BudgetExceeded")
        assert len(structured["requestId"]) == 36
        assert "xx" not in reply.body.decode()

    with_driver(test, Functions({tool_id: function}))


@ERAS
@pytest.mark.covers("MCP-27")
def test_a_failure_nobody_foresaw_has_a_fixed_text(modern: bool) -> None:
    async def broken(who: Any, command_id: Any, request: Any) -> bytes:
        raise ValueError("secret row")

    async def test(driver: Driver) -> None:
        read = await driver.invoke(STATUS, modern=modern)
        failed(read, "OwnershipLost")
        write = await driver.invoke(DISPATCH, {"commandId": COMMAND, "request": True}, modern=modern)
        failed(write, "UnknownWriteOutcome")
        assert b"secret" not in read.body + write.body

    with_driver(test, Functions({STATUS: broken, DISPATCH: broken}))


@pytest.mark.covers("MCP-27")
def test_an_outcome_without_content_is_a_fixed_error() -> None:
    async def empty(*given: Any) -> Outcome:
        return Outcome(None)

    async def test(driver: Driver) -> None:
        failed(await driver.invoke(STATUS), "OwnershipLost")

    with_driver(test, empty)


@pytest.mark.covers("MCP-24", "MCP-25")
def test_a_target_that_differs_from_the_admitted_one_never_runs() -> None:
    invoke = answering(b"1")

    async def test(driver: Driver) -> None:
        params = {"name": INVOKE, "arguments": {"toolId": STATUS}}
        body = message("tools/call", params)
        admitted = inspect(body, {STATUS: OPERATIONS[DISPATCH]})
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "headers": [(name.encode(), value.encode()) for name, value in headers_for(body).items()],
            "keyload": RequestContext(caller(), admitted, stay),
        }
        failed(await drive(driver.host, scope), "OwnershipLost")

    with_driver(test, invoke)
    assert invoke.calls == []


@pytest.mark.covers("MCP-31", "MCP-34")
def test_more_operations_than_allowed_stop_the_host() -> None:
    status = OPERATIONS[STATUS]
    many = {f"op_{n}": msgspec.structs.replace(status, name=f"op_{n}") for n in range(256)}
    McpHost(Functions({}), many)
    with pytest.raises(RegistrationError):
        McpHost(Functions({}), {**many, "op_256": msgspec.structs.replace(status, name="op_256")})
    with pytest.raises(RegistrationError):
        McpHost(Functions({}), {"a": msgspec.structs.replace(status, description="d" * 4097)})


@ERAS
@pytest.mark.covers("MCP-23", "ADM-26", "CON-181")
def test_matches_that_do_not_fit_are_left_out_whole(modern: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(driver: Driver) -> None:
        query = {"query": "configure a resource, a principal, a key or read a document"}
        full = (await driver.call(SEARCH, {**query, "maxResults": 4})).structured["result"]["matches"]
        grouped = (await driver.call(ROUTE, query)).structured["result"]["categories"]
        assert len(full) == 4
        for room, count in ((1, 1), (len(json.dumps(full[:2], separators=(",", ":"))), 2)):
            monkeypatch.setattr(tools, "MATCHES_BYTES", room)
            reply = await driver.call(SEARCH, {**query, "maxResults": 4}, modern=modern)
            assert reply.structured["result"]["matches"] == full[:count]
            assert f"{4 - count} more did not fit" in reply.result["content"][0]["text"]
            assert len(reply.body) <= 65_536
        monkeypatch.setattr(tools, "MATCHES_BYTES", 1)
        reply = await driver.call(ROUTE, query, modern=modern)
        (category,) = reply.structured["result"]["categories"]
        assert category["tools"] == grouped[0]["tools"][:1]

    with_driver(test)
