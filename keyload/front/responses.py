"""The few forms of an HTTP answer (HTTP-16, HTTP-18)."""

from __future__ import annotations

import msgspec

from keyload.contract.errors import ERRORS, ErrorCode, KeyLoadError, Problem
from keyload.front.admission import LaneFull

REQUEST_ID = b"x-keyload-request-id"
_JSON = (b"content-type", b"application/json")
_PROBLEM = (b"content-type", b"application/problem+json")
_CHALLENGE = (b"www-authenticate", b"Bearer")
_RETRY = (b"retry-after", b"1")
_encoder = msgspec.json.Encoder()


class Response(msgspec.Struct, frozen=True):
    """A complete answer; `content-length` is added when it is written."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


def success(payload: bytes, request_id: str) -> Response:
    """The result of an executed call, its JSON text untouched."""
    return Response(200, (_JSON, (REQUEST_ID, request_id.encode())), payload)


def failure(error: KeyLoadError) -> Response:
    """A call that failed before it was executed: no request id (HTTP-5)."""
    return _problem(error.problem, _extra(error))


def executed_failure(problem: Problem, request_id: str) -> Response:
    """A call that was executed and failed."""
    return _problem(problem, ((REQUEST_ID, request_id.encode()),))


def rpc_failure(error: KeyLoadError, body: bytes) -> Response:
    """A failure before an MCP answer exists; `body` is the JSON-RPC error (MCP-6)."""
    return Response(ERRORS[error.code].http_status, (_JSON, *_extra(error)), body)


def _extra(error: KeyLoadError) -> tuple[tuple[bytes, bytes], ...]:
    if error.code is ErrorCode.UNAUTHENTICATED:
        return (_CHALLENGE,)
    return (_RETRY,) if isinstance(error, LaneFull) else ()


def _problem(problem: Problem, extra: tuple[tuple[bytes, bytes], ...]) -> Response:
    return Response(problem.status, (_PROBLEM, *extra), _encoder.encode(problem))
