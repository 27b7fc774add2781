"""HTTP routes, derived from the operations: path to operation, request to record, outcome to answer.

Everything here runs after admission and credential (HTTP-18); nothing here checks them again.
"""

from __future__ import annotations

from typing import Any, Protocol
from urllib.parse import parse_qsl
from uuid import UUID

from msgspec import UNSET

from keyload.codec import decoding, strict_json
from keyload.codec.text_formats import Texts
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.limits import REQUEST_MAX_DEPTH
from keyload.contract.operation import AdmissionClass, Operation
from keyload.contract.operations import OPERATIONS, write_identity_of
from keyload.front import responses
from keyload.front.auth import Headers
from keyload.front.calls import Caller, Outcome, with_example
from keyload.front.responses import Response

PREFIX = "/v1/"
COMMAND_ID = b"x-keyload-command-id"
_HEAVY_PREFIX = "/v1/query"
_SWITCH = {"true": True, "false": False}


def normal_path(path: str) -> str:
    """Paths are compared without case and one trailing slash (ADM-3)."""
    return path.lower().removesuffix("/")


ROUTES: dict[str, Operation] = {
    normal_path(operation.http_route): operation for operation in OPERATIONS.values()
}


def find(path: str) -> Operation | None:
    """The operation of a normal path."""
    return ROUTES.get(path)


def admission_class(path: str, operation: Operation | None) -> AdmissionClass:
    """The class of a normal path, known or not (ADM-1, ADM-2)."""
    if operation is not None:
        return operation.admission_class
    return "data-heavy" if path.startswith(_HEAVY_PREFIX) else "data-other"


class Executor(Protocol):
    """An `Invoker` that also takes the canonical JSON texts that decoding met, so that none is read twice."""

    async def __call__(
        self,
        caller: Caller,
        operation: Operation,
        command_id: str | None,
        request: Any,
        texts: Texts | None = None,
    ) -> Outcome:
        """Execute one call; a failure is the outcome's problem."""
        ...


class Router:
    """Decodes a request, has it executed and forms the answer."""

    def __init__(self, invoke: Executor) -> None:
        self._invoke = invoke

    async def serve(
        self,
        operation: Operation | None,
        method: str,
        query: bytes,
        headers: Headers,
        caller: Caller,
        body: bytes,
    ) -> Response:
        """The answer to an admitted request. Raises KeyLoadError when it was not executed."""
        if operation is None or operation.http_method != method:
            raise _no_route(operation)
        texts: Texts = {}
        try:
            request = decode(operation, query, body, texts)
            command_id = _identity(operation, headers, request)
        except KeyLoadError as error:
            if error.code is ErrorCode.VALIDATION:
                error.example = _example(operation)
            raise
        outcome = await self._invoke(caller, operation, command_id, request, texts)
        if outcome.problem is not None:
            if outcome.request_id is None:
                raise KeyLoadError.from_problem(outcome.problem)
            problem = with_example(outcome.problem, _example(operation))
            return responses.executed_failure(problem, outcome.request_id)
        return responses.success(outcome.payload or b"null", outcome.request_id or "")


def decode(operation: Operation, query: bytes, body: bytes, texts: Texts) -> Any:
    """The request of an operation from query and body (CON-28, CON-30); Validation for anything else.

    `texts` takes up the canonical form of each JSON text met.
    """
    value = _query(operation, query)
    if operation.http_body == "none":
        if body:
            raise _wrong("This operation takes no body.", "", "an empty body")
        return value
    tree = strict_json.parse(body, REQUEST_MAX_DEPTH)
    if operation.write_identity is None:
        return decoding.decode_request(operation, tree)
    return decoding.decode_request(operation, tree, texts=texts)


def _query(operation: Operation, query: bytes) -> bool | None:
    if operation.http_query is None:
        if query:
            raise _wrong("This operation takes no query parameter.", "/query", "no query parameter")
        return None
    expected = f"exactly one query parameter {operation.http_query}=true or {operation.http_query}=false"
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=4, errors="strict")
    except ValueError:
        pairs = []
    if len(pairs) != 1 or pairs[0][0] != operation.http_query or pairs[0][1] not in _SWITCH:
        path = f"/query/{operation.http_query}"
        raise _wrong("The query of the request is wrong.", path, expected)
    return _SWITCH[pairs[0][1]]


def _identity(operation: Operation, headers: Headers, request: Any) -> str | None:
    """The write identity beside the request; a header must agree with one in the body (HTTP-3, HTTP-4)."""
    if operation.write_identity is None:
        return None
    found = [value for name, value in headers if name == COMMAND_ID]
    header = _guid(found) if found else None
    if operation.outer_command_id:
        if header is None:
            raise _wrong_header("one guid other than zero")
        return header
    inside = write_identity_of(operation, request, None)
    if header is not None and header != inside:
        raise _wrong_header("the identity that the body carries, or no header")
    return None


def _guid(values: list[bytes]) -> str:
    if len(values) == 1 and len(values[0]) == 36:
        try:
            value = UUID(values[0].decode("ascii"))
        except ValueError:
            pass
        else:
            if value.int and str(value) == values[0].decode("ascii").lower():
                return str(value)
    raise _wrong_header("one guid other than zero")


def _wrong_header(expected: str) -> KeyLoadError:
    detail = "The header X-KeyLoad-Command-Id is missing or wrong."
    return _wrong(detail, "/headers/X-KeyLoad-Command-Id", expected)


def _wrong(detail: str, path: str, expected: str) -> KeyLoadError:
    """What is wrong beside the body; its pointers begin with `/headers` or `/query`."""
    return KeyLoadError(ErrorCode.VALIDATION, detail, path=path, expected=expected)


def _no_route(operation: Operation | None) -> KeyLoadError:
    expected = "a path and method of the list at /openapi.json"
    if operation is not None:
        expected = f"{operation.http_method} {operation.http_route}"
    return KeyLoadError(ErrorCode.NOT_FOUND, "There is no such operation.", expected=expected)


def _example(operation: Operation) -> Any:
    """The smallest valid request, nothing for operations without one."""
    return UNSET if operation.request is None else decoding.skeleton(operation.request)
