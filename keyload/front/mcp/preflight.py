"""What is checked on the raw bytes of an MCP message before the SDK parses it (MCP-7), and what it asks for.

The SDK's parser is lenient: of two equal member names the last wins, NaN and lone surrogates pass, a
fractional id turns a request into a notification. So the bytes are read strictly once, here; from then on
the frame that was admitted is the frame that is executed (MCP-24).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from keyload.codec import strict_json
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.operations import Operation
from keyload.front.calls import Frame

INVOKE = "gateway_tool_invoke"
MAX_DEPTH = 72
MAX_TOKENS = 2_000_000
MAX_ID = 2**63
MAX_ID_CHARS = 1024
PARSE_ERROR = -32700
INVALID_REQUEST = -32600


class FrameError(KeyLoadError):
    """A message that never reaches the protocol; `rpc_code` says how JSON-RPC calls it."""

    def __init__(self, detail: str, path: str, expected: str, rpc_code: int = INVALID_REQUEST) -> None:
        super().__init__(ErrorCode.VALIDATION, detail, path=path, expected=expected)
        self.rpc_code = rpc_code


def inspect(body: bytes, operations: Mapping[str, Operation]) -> Frame:
    """Check one message and name its target, so that the edge can admit it on the lane of that target.

    Raises `FrameError` (Validation) for bytes that are no strict JSON, and for anything but one request or
    notification: a batch, a response, a fractional or boolean id.
    """
    try:
        tree = strict_json.parse(body, MAX_DEPTH, MAX_TOKENS)
    except KeyLoadError as error:
        raise FrameError(error.detail, error.path or "", error.expected or "", PARSE_ERROR) from None
    message = _message(tree)
    method = message["method"]
    params = cast("dict[str, Any]", message.get("params") or {})
    if method != "tools/call":
        return Frame(body, method)
    return _call(body, message, params, operations)


def _call(
    body: bytes, message: dict[str, Any], params: dict[str, Any], operations: Mapping[str, Operation]
) -> Frame:
    """The frame of a tool call. The SDK would read its arguments again, copy them several times and refuse
    integers that are long: it gets the message without them.
    """
    tool = params.get("name")
    arguments = params.get("arguments")
    if isinstance(arguments, dict):
        rest: dict[str, Any] = {**message, "params": {**params, "arguments": {}}}
        body = json.dumps(rest, default=float).encode()
    target = cast("dict[str, Any]", arguments).get("toolId") if isinstance(arguments, dict) else None
    tool_id = target if tool == INVOKE and isinstance(target, str) else None
    return Frame(
        body,
        "tools/call",
        tool if isinstance(tool, str) else None,
        tool_id,
        operations.get(tool_id) if tool_id is not None else None,
        arguments,
    )


def _message(tree: Any) -> dict[str, Any]:
    """The tree as a JSON-RPC request or notification; FrameError for anything else."""
    if not isinstance(tree, dict):
        raise FrameError("A message is one JSON object; batches are not accepted.", "", "an object")
    message = cast("dict[str, Any]", tree)
    if message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        path = "/method" if message.get("jsonrpc") == "2.0" else "/jsonrpc"
        detail = 'A message is a JSON-RPC request or notification with "jsonrpc" and "method".'
        raise FrameError(detail, path, '"jsonrpc": "2.0" and the name of a method')
    if not isinstance(message.get("params", {}), dict | None):
        raise FrameError('The member "params" is an object.', "/params", "an object")
    if "id" in message and not _is_id(message["id"]):
        detail = "A request id is a short text or an integer of 64 bits."
        raise FrameError(
            detail, "/id", f"a text of at most {MAX_ID_CHARS} characters or a whole number of 64 bits"
        )
    return message


def _is_id(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_ID_CHARS
    return isinstance(value, int) and not isinstance(value, bool) and -MAX_ID <= value < MAX_ID
