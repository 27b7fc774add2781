"""What the HTTP edge, the routes and the MCP host hand each other about one call.

The edge admits and authenticates; the routes and the MCP host decode; one `Invoker` executes for both (MCP-5,
MCP-26).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
from msgspec import UNSET

from keyload.codec.credentials import Credential
from keyload.contract.errors import ErrorCode, KeyLoadError, Problem
from keyload.contract.operations import Operation
from keyload.contract.security import PrincipalRecord


class Caller(msgspec.Struct, frozen=True):
    """Who calls, as verified for this one request (SEC-1, MCP-4).

    `credential` is what the principal was found by, `catalog_version` the version of the catalog it was found
    in.
    """

    principal: PrincipalRecord
    credential: Credential
    catalog_version: int

    def require_administrator(self) -> None:
        """`PermissionDenied` unless a cluster administrator calls: for what the front answers itself, where
        no shard checks it (SEC-22)."""
        if not self.principal.cluster_administrator:
            raise KeyLoadError(ErrorCode.PERMISSION_DENIED, "Only a cluster administrator may do this.")


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

    `body` is the message for the SDK: as it was received, but the arguments of a call stand in `arguments`
    alone. `tool` is the name in a `tools/call`; `tool_id` the target that `gateway_tool_invoke` names, when
    it is a text; `operation` the catalog entry of that target, None when there is none: such a frame belongs
    to the control lane (ADM-4). `arguments` is the strictly parsed tree of the tool's arguments, None when
    there are none.
    """

    body: bytes
    method: str | None = None
    tool: str | None = None
    tool_id: str | None = None
    operation: Operation | None = None
    arguments: Any = None


class RequestContext(msgspec.Struct):
    """What travels in `scope["keyload"]` of an admitted MCP request: its principal, its admitted frame, and
    how to do work that ends when the peer leaves (`keyload.front.exchange.Exchange.while_connected`).
    """

    caller: Caller
    frame: Frame
    while_connected: Callable[[Coroutine[Any, Any, Outcome]], Awaitable[Outcome]]


Invoker = Callable[[Caller, Operation, str | None, Any], Coroutine[Any, Any, Outcome]]
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
