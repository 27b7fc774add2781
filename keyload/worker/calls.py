"""What a worker remembers of the calls it has taken: who asked, until when, and what was attached."""

from __future__ import annotations

from typing import Final

import msgspec

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.link.messages import Barrier, Command, Read

OWN_FRONT: Final = 0
"""`origin` of a call that this node's front sent; other origins are node numbers."""


class CommandCall:
    """A command on its way through this worker.

    `origin` and `call` say whom to answer. `deadline` is on the worker's monotonic clock, in seconds.
    `submitted` turns true once the command may have reached a log, here or on another node; from then on a
    lost answer is an unknown outcome. `held` is what admission charged for it, 0 when it was not charged.
    `control` is the command's lane, `tenant` the one it is counted under.
    """

    __slots__ = (
        "answered",
        "call",
        "command",
        "deadline",
        "evidence",
        "held",
        "origin",
        "submitted",
        "tenant",
    )

    def __init__(self, command: Command, origin: int, call: int, deadline: float) -> None:
        self.command = command
        self.origin = origin
        self.call = call
        self.deadline = deadline
        self.evidence: tuple[bytes, ...] = ()
        self.submitted = False
        self.answered = False
        self.held = 0
        self.tenant = ""


class ReadCall:
    """A read, or the confirmation of the catalog, that waits for its barrier."""

    __slots__ = ("deadline", "message", "waiting_command")

    def __init__(
        self, message: Read | Barrier, deadline: float, waiting_command: CommandCall | None = None
    ) -> None:
        self.message = message
        self.deadline = deadline
        self.waiting_command = waiting_command
        """The command whose evidence this read fetches, when no front asked for it."""


_problem_encoder = msgspec.msgpack.Encoder()

DETAILS = {
    ErrorCode.OWNERSHIP_LOST: "No leader of the data could be reached in time; nothing was submitted.",
    ErrorCode.UNKNOWN_WRITE_OUTCOME: "The write was submitted, its outcome is not known; repeat it unchanged.",
    ErrorCode.RECOVERY_REQUIRED: "The data is still being recovered on this node.",
    ErrorCode.RESOURCE_EXHAUSTED: "The node holds as many commands as it may; repeat the call later.",
}


def problem(error: KeyLoadError) -> bytes:
    """The error as it travels in a refusal."""
    return _problem_encoder.encode(error.problem)


def refusal(code: ErrorCode) -> bytes:
    """The fixed problem of a code that speaks of this worker, not of the request."""
    return problem(KeyLoadError(code, DETAILS[code]))
