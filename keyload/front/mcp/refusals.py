"""Refusals that the SDK words itself, given the `Problem` that every failure carries (MCP-6, MCP-11)."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from mcp_types import INTERNAL_ERROR, METHOD_NOT_FOUND

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.front.mcp.preflight import FrameError
from keyload.front.mcp.replies import early_error, problem_tree

MEDIA_STATUS = frozenset((406, 415))
_MEDIA = FrameError(
    "The headers Accept and Content-Type of a message have to allow application/json.",
    "",
    "Accept: application/json, text/event-stream and Content-Type: application/json",
)


class _Error(msgspec.Struct):
    """The error of a reply."""

    code: int
    message: str
    data: Any = None


class _Failed(msgspec.Struct):
    """What is read of a reply; `error` is None when it carries a result."""

    error: _Error | None = None
    id: msgspec.Raw = msgspec.Raw(b"null")


_replies = msgspec.json.Decoder(_Failed)


def with_problem(status: int, body: bytes) -> tuple[int, bytes]:
    """Status and body of a reply of the SDK; an error without a problem gets one beside the data it has.

    Refusals without a message of the protocol become one.
    """
    if status in MEDIA_STATUS or (status >= 400 and not body.startswith(b"{")):
        return early_error(_MEDIA)
    reply = _replies.decode(body or b"{}")
    error = reply.error
    if error is None or "errorCode" in (data := _members(error.data)):
        return status, body
    message = error.message.partition("\n")[0]  # what follows may show values
    problem = problem_tree(KeyLoadError(_code(error.code), message).problem)
    told = {"code": error.code, "message": message, "data": {**data, **problem}}
    return status, msgspec.json.encode({"jsonrpc": "2.0", "id": reply.id, "error": told})


def _code(rpc_code: int) -> ErrorCode:
    """The code of a protocol error. The node's own failures have two numbers: in the handshake era an
    exception of a handler is 0.
    """
    if rpc_code == METHOD_NOT_FOUND:
        return ErrorCode.NOT_FOUND
    return ErrorCode.OWNERSHIP_LOST if rpc_code in (0, INTERNAL_ERROR) else ErrorCode.VALIDATION


def _members(data: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}
