"""The one exception of the SDK."""

from __future__ import annotations

from typing import Self

from keyload.contract import errors
from keyload.contract.errors import ErrorCode, Problem


class KeyLoadError(errors.KeyLoadError):
    """A call failed. `code`, `detail`, `path`, `expected` and `problem` say how (HTTP-22).

    `command_id` is the write identity of the call, None for a read: after `UnknownWriteOutcome` the same call
    is made again with it. `request_id` is the execution guid that the server told, if it told one.
    """

    command_id: str | None = None
    request_id: str | None = None

    @classmethod
    def of(cls, problem: Problem, command_id: str | None, request_id: str | None = None) -> Self:
        """The exception for a problem the server sent."""
        error = cls.from_problem(problem)
        assert isinstance(error, cls)
        error.command_id = command_id
        error.request_id = request_id
        return error

    @classmethod
    def local(cls, code: ErrorCode, detail: str, command_id: str | None) -> Self:
        """The exception for something the client itself found."""
        error = cls(code, detail)
        error.command_id = command_id
        return error
