"""What the HTTP edge, the routes and the MCP host hand each other about one call.

The edge admits and authenticates; the routes and the MCP host decode; one `Invoker` executes for both (MCP-5,
MCP-26).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import UNSET

from keyload.contract.errors import ErrorCode, Problem
from keyload.contract.operations import Operation
from keyload.contract.security import PrincipalRecord


class Caller(msgspec.Struct, frozen=True):
    """Who calls, as verified for this one request (SEC-1, MCP-4).

    `catalog_version` is the version of the catalog the principal and its key were read from.
    """

    principal: PrincipalRecord
    key_id: str
    catalog_version: int


class Outcome(msgspec.Struct, frozen=True):
    """What became of one call.

    `request_id` is the execution guid, None when nothing was executed. Exactly one of `payload` (the result
    as JSON text, `b"null"` for a null result) and `problem` is set.
    """

    request_id: str | None
    payload: bytes | None = None
    problem: Problem | None = None


class Frame(msgspec.Struct, frozen=True):
    """One MCP message after the preflight (MCP-7), not yet seen by the SDK.

    `body` is the message exactly as received. `tool` is the name in a `tools/call`; `tool_id` the target
    that `gateway_tool_invoke` names, when it is a text; `operation` the catalog entry of that target, None
    when there is none: such a frame belongs to the control lane (ADM-4). `arguments` is the strictly parsed
    tree of the tool's arguments, None when there are none.
    """

    body: bytes
    method: str | None = None
    tool: str | None = None
    tool_id: str | None = None
    operation: Operation | None = None
    arguments: Any = None


class RequestContext(msgspec.Struct):
    """What travels in `scope["keyload"]` of an admitted MCP request: its principal and its admitted frame."""

    caller: Caller
    frame: Frame


Invoker = Callable[[Caller, Operation, str | None, Any], Awaitable[Outcome]]
"""Executes `(caller, operation, command id or None, request)`.

The command id is the one beside the request; an identity inside the request is found there.
The request is the decoded record of `operation.request`, a bool for a boolean request, None when there is
none. It never raises `KeyLoadError`: a failure is the outcome's problem.
"""


def with_example(problem: Problem, example: Any) -> Problem:
    """A problem found during execution with the example that only the door of the call knows."""
    if problem.error_code != ErrorCode.VALIDATION or problem.example is not UNSET:
        return problem
    return msgspec.structs.replace(problem, example=example)
