"""The SDK without I/O: what to send, what an answer means, whether to send again (HTTP-22..27).

A shell (blocking or async) asks a `Progress` for the next request, performs it, and tells what happened; it
gets back either the result, a pause before the next try, or an exception.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar
from uuid import UUID, uuid4

import msgspec

from keyload.client.errors import KeyLoadError
from keyload.contract.errors import UNSTORED, ErrorCode, Problem
from keyload.contract.limits import whole
from keyload.contract.operation import Operation

T = TypeVar("T")

MAX_PROBLEM_BYTES: Final = whole("http.maxClientProblemBytes")
MAX_REPLY_BYTES: Final = whole("http.maxDataReplyBytes")
DEFAULT_TIMEOUT: Final = 30.0
DEFAULT_RETRIES: Final = 8
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0
_KEY = re.compile(r"[!-~]+")  # what an HTTP header can carry
_REPEATABLE = {ErrorCode.UNKNOWN_WRITE_OUTCOME, ErrorCode.OWNERSHIP_LOST}
_TELLS_NOTHING = UNSTORED | {ErrorCode.RESOURCE_EXHAUSTED, ErrorCode.PERMISSION_DENIED}
"""Refusals of a repeat that leave open what became of an earlier try (CON-62, CON-63, ADM-15)."""

_encoder = msgspec.json.Encoder(decimal_format="number")
_problems = msgspec.json.Decoder(Problem)


class Call(msgspec.Struct, Generic[T], frozen=True):
    """One call of an operation, ready to be sent as often as needed; `decode` reads its result.

    `command_id` is None for reads, and for an action, whose repeat would be another one (HTTP-21).
    """

    operation: Operation
    command_id: str | None
    target: str
    body: bytes
    decode: Callable[[bytes], T]


class HttpRequest(msgspec.Struct, frozen=True):
    """What a shell sends next; `timeout` is what is left of the call's time, in seconds."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes
    timeout: float


class Answer(msgspec.Struct, frozen=True):
    """What a shell got: `body` is None when it was longer than `cap(status)`."""

    status: int
    body: bytes | None
    request_id: str | None = None


class Done(msgspec.Struct, Generic[T], frozen=True):
    """The call succeeded."""

    value: T


class Again(msgspec.Struct, frozen=True):
    """Send again after `pause` seconds."""

    pause: float


def write(operation: Operation, request: Any, command_id: str, result: Any, query: str = "") -> Call[Any]:
    """A call with a write identity; `result` is the type of its result."""
    return _call(operation, request, command_id, result, query)


def read(operation: Operation, request: Any, result: Any) -> Call[Any]:
    """A call without effect."""
    return _call(operation, request, None, result, "")


def action(operation: Operation, result: Any) -> Call[Any]:
    """A call with an effect but no identity: it is sent once."""
    return _call(operation, None, None, result, "")


def _call(operation: Operation, request: Any, command_id: str | None, result: Any, query: str) -> Call[Any]:
    body = _encoder.encode(request) if operation.http_body == "request" else b""
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(result, float_hook=Decimal)
    return Call(operation, command_id, operation.http_route + query, body, decoder.decode)


def identity(command_id: str | None) -> str:
    """A write identity in canonical form, a fresh one for None. ValueError when it is no nonzero guid."""
    if command_id is None:
        return str(uuid4())
    value = UUID(command_id)
    if not value.int:
        raise ValueError("a command id is a guid other than zero")
    return str(value)


def cap(status: int) -> int:
    """Most bytes of a body that a shell reads."""
    return MAX_REPLY_BYTES if status == 200 else MAX_PROBLEM_BYTES


class Nodes:
    """The addresses of a cluster: any node serves, and the one that served last is asked first."""

    def __init__(self, addresses: str | Sequence[str], key: str) -> None:
        texts = [addresses] if isinstance(addresses, str) else list(addresses)
        if not texts or not all(text.startswith(("http://", "https://")) for text in texts):
            raise ValueError("give at least one address that begins with http:// or https://")
        if not _KEY.fullmatch(key):
            raise ValueError(
                "a key is not empty and has neither spaces, line ends nor characters beyond ASCII"
            )
        self._addresses = [text.rstrip("/") for text in texts]
        self._current = 0
        self.headers = {"authorization": f"Bearer {key}", "accept-encoding": "identity"}

    @property
    def address(self) -> str:
        """The node to ask now."""
        return self._addresses[self._current]

    def leave(self, address: str) -> None:
        """Prefer the next node, unless another call already did so."""
        if self.address == address:
            self._current = (self._current + 1) % len(self._addresses)


class Progress(Generic[T]):
    """One call on its way to an answer. `start` and all later instants are monotonic seconds."""

    def __init__(
        self,
        call: Call[T],
        nodes: Nodes,
        start: float,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        retries: int = DEFAULT_RETRIES,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._call = call
        self._nodes = nodes
        self._deadline = start + timeout
        self._left = retries
        self._pause = FIRST_PAUSE
        self._draw = draw
        self._in_doubt = False
        self._address = nodes.address
        self._changes = call.operation.kind != "read"
        self._once = self._changes and call.command_id is None

    def request(self, now: float) -> HttpRequest:
        """What to send now; raises the timeout of HTTP-25 when the time is over."""
        if now >= self._deadline:
            raise self.timed_out()
        self._address = self._nodes.address
        headers = dict(self._nodes.headers)
        if self._call.command_id is not None:
            headers["x-keyload-command-id"] = self._call.command_id
        if self._call.body:
            headers["content-type"] = "application/json"
        method, url = self._call.operation.http_method, self._address + self._call.target
        return HttpRequest(method, url, headers, self._call.body, self._deadline - now)

    def answered(self, answer: Answer, now: float) -> Done[T] | Again:
        """Judge a complete answer."""
        if answer.status == 200 and answer.body is not None:
            try:
                return Done(self._call.decode(answer.body))
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return self._repeat(self._broken("The result cannot be decoded."), now)
        error = self._problem(answer)
        if error is None:
            return self._repeat(self._broken("The answer of the server is not a problem it may send."), now)
        if error.code in _REPEATABLE:
            return self._repeat(error, now)
        raise self._in_view_of_earlier_tries(error)

    def refused(self, now: float) -> Done[T] | Again:
        """The node could not be reached: nothing was sent."""
        error = self._broken("The node cannot be reached.")
        return self._repeat(error, now, sent=False)

    def broken(self, now: float) -> Done[T] | Again:
        """The connection broke after something was sent (HTTP-24)."""
        return self._repeat(self._broken("The connection broke before the answer was complete."), now)

    def timed_out(self) -> KeyLoadError:
        """The failure of a call whose time is over (HTTP-25)."""
        code = ErrorCode.UNKNOWN_WRITE_OUTCOME if self._changes else ErrorCode.CANCELLED
        return KeyLoadError.local(code, "The call took longer than its timeout.", self._call.command_id)

    def _problem(self, answer: Answer) -> KeyLoadError | None:
        """The problem of a failure status, None when there is no valid one (HTTP-23)."""
        if answer.body is None:
            return None
        try:
            problem = _problems.decode(answer.body)
            error = KeyLoadError.of(problem, self._call.command_id, answer.request_id)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError):
            return None
        return error if problem.status == answer.status == error.problem.status else None

    def _broken(self, detail: str) -> KeyLoadError:
        code = ErrorCode.UNKNOWN_WRITE_OUTCOME if self._changes else ErrorCode.OWNERSHIP_LOST
        return KeyLoadError.local(code, detail, self._call.command_id)

    def _repeat(self, error: KeyLoadError, now: float, *, sent: bool = True) -> Again:
        """Another try at another node, or the error when tries or time are used up."""
        self._in_doubt = self._in_doubt or (sent and error.code is ErrorCode.UNKNOWN_WRITE_OUTCOME)
        pause = self._pause * (0.5 + self._draw() / 2)
        if self._left <= 0 or now + pause >= self._deadline or (sent and self._once):
            raise self._in_view_of_earlier_tries(error)
        self._left -= 1
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._nodes.leave(self._address)
        return Again(pause)

    def _in_view_of_earlier_tries(self, error: KeyLoadError) -> KeyLoadError:
        """Once a write may have been committed, only a definite answer ends the doubt (CON-66)."""
        if not self._in_doubt or error.code not in _TELLS_NOTHING:
            return error
        if error.code is ErrorCode.UNKNOWN_WRITE_OUTCOME:
            return error
        doubt = self._broken(
            f"An earlier try may have been committed; the last one was answered {error.code}."
        )
        doubt.request_id = error.request_id
        return doubt
