"""The one exception of the SDK."""

from __future__ import annotations

from typing import Self

import msgspec
from msgspec import UNSET

from keyload.contract import errors
from keyload.contract.errors import ErrorCode, Problem


class KeyLoadError(errors.KeyLoadError):
    """A call failed. `code`, `detail`, `path`, `expected` and `problem` say how (HTTP-22).

    `command_id` is the write identity of the call, None for a read: after `UnknownWriteOutcome` the same call
    is made again with it. `request_id` is the execution guid that the server told, if it told one.
    """

    command_id: str | None = None
    request_id: str | None = None

    def __str__(self) -> str:
        """Code and sentence, and on lines of their own what the server said about the place."""
        lines = [f"{self.code}: {self.detail}"]
        if self.path is not None:
            lines.append(f"  at {self.path or 'the whole request'}")
        if self.expected is not None:
            lines.append(f"  expected {self.expected}")
        if self.example is not UNSET:
            lines.append(f"  for example {msgspec.json.encode(self.example).decode()}")
        return "\n".join([*lines, f"  retry {self.problem.retry}"])

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
