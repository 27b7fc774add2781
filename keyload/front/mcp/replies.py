"""What the host writes itself: structured answers, early errors, and the splice that puts an answer in.

The SDK copies and validates whatever a handler returns, several times, and would spell numbers anew. So a
handler returns a one-time placeholder instead of the answer, and the answer's bytes take its place while
the response is sent (MCP-27): numbers and text stay as the worker wrote them, and a large result costs one
copy.
"""

from __future__ import annotations

import json
import secrets
from typing import Any, cast

import msgspec

from keyload.contract.errors import ERRORS, ErrorCode, KeyLoadError, Problem
from keyload.front.mcp.preflight import FrameError

SERVER_ERROR = -32000
MAX_DATA_REPLY = 16_777_216
MAX_CONTROL_REPLY = 65_536
JSON_HEADERS = [(b"content-type", b"application/json")]


class Answer(msgspec.Struct, frozen=True):
    """One tool answer: `structured` is the JSON text of `{result, requestId}` or `{error, requestId}`."""

    structured: bytes
    is_error: bool
    summary: str
    request_id: str | None = None


def success(result: bytes, request_id: str | None, summary: str) -> Answer:
    """The answer that carries a result as it is (MCP-21)."""
    structured = b'{"result":' + result + b',"requestId":' + msgspec.json.encode(request_id) + b"}"
    return Answer(structured, False, summary, request_id)


def failure(problem: Problem, request_id: str | None = None) -> Answer:
    """The answer that carries a problem (MCP-21, CON-42)."""
    error = msgspec.json.encode(problem)
    structured = b'{"error":' + error + b',"requestId":' + msgspec.json.encode(request_id) + b"}"
    return Answer(structured, True, f"{problem.error_code}: {problem.detail}", request_id)


def problem_tree(problem: Problem) -> dict[str, Any]:
    """A problem as a plain JSON tree, for `data` of a protocol error."""
    return cast("dict[str, Any]", msgspec.to_builtins(problem))


def early_error(error: KeyLoadError) -> tuple[int, bytes]:
    """HTTP status and body of a failure before an MCP answer exists: JSON-RPC with id null (MCP-6)."""
    code = error.rpc_code if isinstance(error, FrameError) else SERVER_ERROR
    body = {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": code, "message": str(error.code), "data": problem_tree(error.problem)},
    }
    return ERRORS[error.code].http_status, msgspec.json.encode(body)


class Placeholder:
    """Stands for one answer inside the SDK's reply; its key is random, so no data can contain it."""

    def __init__(self) -> None:
        self._key = secrets.token_hex(16)

    @property
    def structured(self) -> dict[str, Any]:
        """What the handler returns as structured content."""
        return {self._key: 0}

    def splice(self, body: bytes, answer: Answer, cap: int) -> tuple[bytes, bytes, bytes]:
        """The reply with the answer in place, in three parts; a BudgetExceeded failure when it passes `cap`.

        A revision of the protocol without structured content leaves no placeholder: then the reply stays.
        """
        before, found, after = body.partition(b'{"' + self._key.encode() + b'":0}')
        if not found:
            return body, b"", b""
        if len(before) + len(answer.structured) + len(after) <= cap:
            return before, answer.structured, after
        refusal = too_large(answer, cap)
        return self.splice(self._failed(body, refusal), refusal, MAX_DATA_REPLY)

    def _failed(self, body: bytes, answer: Answer) -> bytes:
        """The reply, still with its placeholder, turned into a failed one."""
        reply = json.loads(body)
        reply["result"].update(content=[{"type": "text", "text": answer.summary}], isError=True)
        return json.dumps(reply, separators=(",", ":")).encode()


def too_large(answer: Answer, cap: int) -> Answer:
    """What is answered when a reply passes its cap; its effect, if any, is committed (ADM-26)."""
    detail = (
        f"The reply is larger than {cap} bytes; the effect of a write is committed. Read in smaller pages."
    )
    return failure(KeyLoadError(ErrorCode.BUDGET_EXCEEDED, detail).problem, answer.request_id)
