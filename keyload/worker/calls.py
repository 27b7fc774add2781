"""What a worker remembers of the calls it has taken: who asked, until when, and what was attached."""

from __future__ import annotations

from typing import Final, NamedTuple

from keyload.contract.errors import ErrorCode
from keyload.link.messages import BackupShard, Barrier, Command, Read
from keyload.models.context import NeedsEvidence
from keyload.worker import answers
from keyload.worker.batch import Answer, Pending

OWN_FRONT: Final = 0
"""`origin` of a call that this node's front sent; other origins are node numbers."""


class CommandCall:
    """A command on its way through this worker.

    `origin` and `call` say whom to answer. `deadline` is on the worker's monotonic clock, in seconds.
    `pending` is what the executor gets. `submitted` turns true once the command may have reached a log,
    here or on another node; from then on a lost answer is an unknown outcome. `repeated` turns true when it
    is passed on again though it may be done: a refusal that comes before the stored outcome is looked up
    then tells nothing of the command. `held` is what admission charged for it, 0 when it was not charged,
    `tenant` the one it is counted under.
    """

    __slots__ = (
        "answered",
        "call",
        "deadline",
        "held",
        "origin",
        "pending",
        "repeated",
        "submitted",
        "tenant",
    )

    def __init__(self, command: Command, origin: int, call: int, deadline: float) -> None:
        self.pending = Pending(command)
        self.origin = origin
        self.call = call
        self.deadline = deadline
        self.submitted = False
        self.repeated = False
        self.answered = False
        self.held = 0
        self.tenant = ""

    @property
    def command(self) -> Command:
        """The command itself."""
        return self.pending.command


class Missing(NamedTuple):
    """A command that waits for evidence from another shard."""

    call: CommandCall
    needs: NeedsEvidence


class ReadCall(NamedTuple):
    """A read, the confirmation of the catalog, or the image of a shard, that waits for its barrier.

    The barrier must be reached until `deadline`, a long read be done until `until`. `missing` is the command
    whose evidence this read fetches, when no front asked for it.
    """

    message: Read | Barrier | BackupShard
    deadline: float
    until: float = 0.0
    missing: Missing | None = None

    def is_front_call(self, call: int) -> bool:
        """Whether this is the call that the front gave this number."""
        return self.missing is None and self.message.call == call


_DETAILS = {
    ErrorCode.OWNERSHIP_LOST: "No leader of the data could be reached in time; nothing was submitted.",
    ErrorCode.UNKNOWN_WRITE_OUTCOME: (
        "The write may have been committed; repeat it unchanged until the answer is definite."
    ),
    ErrorCode.RECOVERY_REQUIRED: "The data is still being recovered on this node.",
    ErrorCode.RESOURCE_EXHAUSTED: "The node holds as many calls as it may; repeat the call later.",
    ErrorCode.BUDGET_EXCEEDED: "The read takes too long.",
}
_REFUSALS = {code: answers.refused(code, detail) for code, detail in _DETAILS.items()}


def refusal(code: ErrorCode) -> Answer:
    """The fixed answer of a code that speaks of this worker, not of the request."""
    return _REFUSALS[code]
