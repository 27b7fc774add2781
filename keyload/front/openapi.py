"""`GET /openapi.json`: the HTTP API as an OpenAPI 3.1 document, made from the declarations of the operations.

It takes a key like every route (SEC-8); any current principal may read it, as any may see the metadata of
operations through MCP (MCP-30).
"""

from __future__ import annotations

from functools import cache
from itertools import groupby
from typing import Any

import msgspec

from keyload.codec.examples import skeleton
from keyload.codec.schema import Builder, Schema
from keyload.contract.errors import ERRORS, ErrorCode, KeyLoadError, Problem
from keyload.contract.formats import SCALARS
from keyload.contract.operation import Operation
from keyload.contract.operations import OPERATIONS
from keyload.front.responses import Response

PATH = "/openapi.json"
VERSION = "3.1.1"
_SCHEMAS = "#/components/schemas/"
_OUTPUT = "Output"
_KEY = "key"
_DESCRIPTION = (
    "One database server for AI agents. Every operation has one route, one request and one result; every "
    "failure is a Problem whose errorCode says what to do. A write carries an identity chosen by its caller: "
    "while its outcome is unknown, the identical request is sent again until a definite answer comes."
)


@cache
def response() -> Response:
    """The document as an answer."""
    body = msgspec.json.encode(document())
    return Response(200, ((b"content-type", b"application/json"), (b"cache-control", b"private")), body)


def document() -> dict[str, Any]:
    """The document of all operations that this version implements."""
    into = Builder(output=False, location=_SCHEMAS)
    out = Builder(output=True, location=_SCHEMAS, suffix=_OUTPUT)
    paths = {
        operation.http_route: {operation.http_method.lower(): _operation(operation, into, out)}
        for operation in OPERATIONS.values()
    }
    schemas = into.definitions | out.definitions | {"Problem": out.record(Problem)}
    return {
        "openapi": VERSION,
        "info": {"title": "KeyLoad", "version": "1", "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "security": [{_KEY: []}],
        "tags": [{"name": name} for name in dict.fromkeys(each.feature for each in OPERATIONS.values())],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "headers": _headers(),
            "securitySchemes": {
                _KEY: {"type": "http", "scheme": "bearer", "description": "API key, `<key id>.<secret>`."}
            },
        },
    }


def _operation(operation: Operation, into: Builder, out: Builder) -> dict[str, Any]:
    result = out.result(operation.result, array=operation.result_is_array, nullable=operation.result_nullable)
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.title,
        "description": operation.description,
        "tags": [operation.feature],
        "responses": {
            "200": {
                "description": "The result; `null` where there is none.",
                "headers": {"X-KeyLoad-Request-Id": {"$ref": "#/components/headers/RequestId"}},
                "content": {"application/json": {"schema": result}},
            },
            **_failures(operation),
        },
        "x-keyload-hints": {
            "readOnly": operation.read_only,
            "destructive": operation.destructive,
            "idempotent": operation.idempotent,
        },
    }
    if parameters := _parameters(operation):
        described["parameters"] = parameters
    if operation.http_body == "request":
        content = {"schema": into.kind(operation.request), "example": skeleton(operation.request)}
        described["requestBody"] = {"required": True, "content": {"application/json": content}}
    return described


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if operation.write_identity is not None:
        inside = not operation.outer_command_id
        found.append(
            {
                "name": "X-KeyLoad-Command-Id",
                "in": "header",
                "required": operation.outer_command_id,
                "description": "Write identity: a guid other than zero"
                + (", the same as in the body." if inside else ", kept until the outcome is known."),
                "schema": SCALARS["guid"].schema,
            }
        )
    if operation.http_query is not None:
        found.append(
            {
                "name": operation.http_query,
                "in": "query",
                "required": True,
                "description": operation.request_meaning,
                "schema": SCALARS["boolean"].schema,
            }
        )
    return found


def _failures(operation: Operation) -> dict[str, Any]:
    """The answers under each status of the codes that an operation may give."""
    ordered = sorted(operation.errors, key=lambda code: ERRORS[code].http_status)
    return {
        str(status): _failure(operation, status, list(codes))
        for status, codes in groupby(ordered, key=lambda code: ERRORS[code].http_status)
    }


def _failure(operation: Operation, status: int, codes: list[ErrorCode]) -> dict[str, Any]:
    names = [str(code) for code in codes]
    schema: Schema = {"$ref": _SCHEMAS + "Problem", "properties": {"errorCode": {"enum": names}}}
    headers = {"X-KeyLoad-Request-Id": {"$ref": "#/components/headers/RequestId"}}
    if status == ERRORS[ErrorCode.RESOURCE_EXHAUSTED].http_status:
        headers["Retry-After"] = {"$ref": "#/components/headers/RetryAfter"}
    if status == ERRORS[ErrorCode.UNAUTHENTICATED].http_status:
        headers = {"WWW-Authenticate": {"$ref": "#/components/headers/Challenge"}}
    examples = {str(code): {"value": _problem(operation, code)} for code in codes}
    return {
        "description": " ".join(f"`{code}`: {ERRORS[code].meaning}" for code in codes),
        "headers": headers,
        "content": {"application/problem+json": {"schema": schema, "examples": examples}},
    }


def _problem(operation: Operation, code: ErrorCode) -> Problem:
    error = KeyLoadError(code, ERRORS[code].meaning)
    if code is ErrorCode.VALIDATION and operation.http_body == "request":
        error.path, error.expected, error.example = "", "an object", skeleton(operation.request)
    return error.problem


def _headers() -> dict[str, Any]:
    return {
        "RequestId": {
            "description": "Guid of this execution; absent when the request failed before it was executed.",
            "schema": SCALARS["guid"].schema,
        },
        "RetryAfter": {
            "description": "Seconds after which to send the request again.",
            "schema": {"type": "integer", "minimum": 1},
        },
        "Challenge": {"description": "`Bearer`.", "required": True, "schema": {"const": "Bearer"}},
    }
