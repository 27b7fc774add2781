"""The preflight on raw bytes: what passes, what is refused, and what a frame is said to aim at."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.operations import OPERATIONS
from keyload.front.mcp import FrameError, early_error, inspect
from keyload.front.mcp.preflight import INVALID_REQUEST, PARSE_ERROR

STATUS = "keyload_admin_status"


def call(tool: Any, arguments: Any) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


def nested(levels: int) -> bytes:
    return b'{"jsonrpc":"2.0","method":"x","params":{"a":' + b"[" * levels + b"]" * levels + b"}}"


@pytest.mark.covers("MCP-7", "CON-3", "CON-4")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"jsonrpc":"2.0","method":"x"} x',
        b"{'jsonrpc':'2.0','method':'x'}",
        b'\xef\xbb\xbf{"jsonrpc":"2.0","method":"x"}',
        '{"jsonrpc":"2.0","method":"x"}'.encode("utf-16"),
        b'{"jsonrpc":"2.0","method":"\xff"}',
        b'{"jsonrpc":"2.0","method":"\\ud800"}',
        b'{"jsonrpc":"2.0","method":"x","method":"y"}',
        b'{"jsonrpc":"2.0","method":"x","params":{"arguments":{"a":{"b":1,"b":2}}}}',
        b'{"jsonrpc":"2.0","method":"x","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","method":"x","params":{"a":-Infinity}}',
        nested(71),
        b'{"jsonrpc":"2.0","method":"x","params":{"a":[' + b"0," * 1_000_000 + b"0]}}",
    ],
)
def test_bytes_that_are_no_strict_json_are_refused(body: bytes) -> None:
    with pytest.raises(FrameError) as refused:
        inspect(body, OPERATIONS)
    assert refused.value.code is ErrorCode.VALIDATION
    assert refused.value.rpc_code == PARSE_ERROR


@pytest.mark.covers("MCP-7")
def test_the_deepest_frame_passes() -> None:
    assert inspect(nested(70), OPERATIONS).method == "x"


@pytest.mark.covers("MCP-1", "MCP-6")
@pytest.mark.parametrize(
    "tree",
    [
        [],
        [{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}],
        "tools/list",
        None,
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "1.0", "id": 1, "method": "x"},
        {"id": 1, "method": "x"},
        {"jsonrpc": "2.0", "id": 1, "method": 5},
        {"jsonrpc": "2.0", "id": 1, "method": "x", "params": [1]},
        {"jsonrpc": "2.0", "id": 1.5, "method": "x"},
        {"jsonrpc": "2.0", "id": 1.0, "method": "x"},
        {"jsonrpc": "2.0", "id": True, "method": "x"},
        {"jsonrpc": "2.0", "id": None, "method": "x"},
        {"jsonrpc": "2.0", "id": 2**63, "method": "x"},
        {"jsonrpc": "2.0", "id": {}, "method": "x"},
    ],
)
def test_anything_but_one_request_or_notification_is_refused(tree: Any) -> None:
    with pytest.raises(FrameError) as refused:
        inspect(json.dumps(tree).encode(), OPERATIONS)
    assert refused.value.rpc_code == INVALID_REQUEST
    status, body = early_error(refused.value)
    answer = json.loads(body)
    assert (status, answer["id"], answer["error"]["code"]) == (400, None, INVALID_REQUEST)
    assert answer["error"]["data"]["errorCode"] == "Validation"


@pytest.mark.covers("MCP-6")
@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.UNAUTHENTICATED, 401),
        (ErrorCode.RESOURCE_EXHAUSTED, 429),
        (ErrorCode.RECOVERY_REQUIRED, 503),
    ],
)
def test_an_early_failure_is_a_json_rpc_error_with_id_null(code: ErrorCode, status: int) -> None:
    given_status, body = early_error(KeyLoadError(code, "No."))
    answer = json.loads(body)
    assert given_status == status
    assert answer["id"] is None
    assert answer["error"]["data"] == {
        "type": f"urn:keyload:error:{code}",
        "title": code,
        "status": status,
        "detail": "No.",
        "errorCode": code,
        "retry": answer["error"]["data"]["retry"],
    }


@pytest.mark.covers("MCP-24", "ADM-4")
def test_a_frame_names_the_operation_it_aims_at() -> None:
    frame = inspect(call("gateway_tool_invoke", {"toolId": STATUS, "arguments": {"a": 1}}), OPERATIONS)
    assert frame.operation is OPERATIONS[STATUS]
    assert (frame.tool, frame.tool_id) == ("gateway_tool_invoke", STATUS)
    assert frame.arguments == {"toolId": STATUS, "arguments": {"a": 1}}


@pytest.mark.covers("MCP-16", "MCP-24", "ADM-4", "CON-40")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("gateway_tools_search", {"query": STATUS, "toolId": STATUS}),
        (STATUS, {"toolId": STATUS}),
        ("gateway_tool_invoke", {"toolId": STATUS.upper()}),
        ("gateway_tool_invoke", {"toolId": f" {STATUS}"}),
        ("gateway_tool_invoke", {"toolId": "gateway_tool_invoke"}),
        ("gateway_tool_invoke", {"toolId": [STATUS]}),
        ("gateway_tool_invoke", {"ToolId": STATUS}),
        ("gateway_tool_invoke", [STATUS]),
        ("gateway_tool_invoke", None),
        (["gateway_tool_invoke"], {"toolId": STATUS}),
    ],
)
def test_every_other_frame_has_no_operation(tool: Any, arguments: Any) -> None:
    assert inspect(call(tool, arguments), OPERATIONS).operation is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.covers("MCP-7")
@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.binary(max_size=60) | JSON.map(lambda tree: json.dumps(tree).encode()))
def test_hostile_bytes_pass_or_are_refused_and_never_crash(body: bytes) -> None:
    try:
        frame = inspect(body, OPERATIONS)
    except FrameError:
        return
    assert frame.body == body


@pytest.mark.covers("MCP-7")
@settings(derandomize=True, deadline=None, max_examples=60)
@given(JSON, JSON, JSON)
def test_any_params_of_a_tool_call_are_classified(name: Any, tool_id: Any, arguments: Any) -> None:
    frame = inspect(call(name, {"toolId": tool_id, "arguments": arguments}), OPERATIONS)
    assert frame.operation is None
