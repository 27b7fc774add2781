"""The shape of one operation's declaration; the declarations stand beside the records they use."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from keyload.contract.errors import COMMON, COMMON_OF_COMMANDS, ErrorCode

Kind = Literal["read", "command", "action", "adapter"]
Lane = Literal["control", "delivery", "heavy-read", "data"]
AdmissionClass = Literal["control", "data-heavy", "data-other"]


class RequiredGrant(msgspec.Struct, frozen=True, kw_only=True):
    """One right a caller needs: a name of `any_of` over the scope `on`, under the condition `when` if any."""

    any_of: tuple[str, ...]
    on: str
    when: str | None = None


class Operation(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One named call, in the words of docs/contract section 1.

    `request` is a `Record` type, `bool`, or None when there is no request; `result` a `Record` type or
    `bool`. `request_meaning` says in one sentence what a request without members means. `partition_path`
    leads by attribute names from the request to its `PartitionRef`; None for global operations.
    Operations are compared by identity: there is one object per name.
    """

    name: str
    title: str
    description: str
    feature: str
    aliases: tuple[str, ...]
    stage: int
    kind: Kind
    capability: str
    request: Any
    result: Any
    result_nullable: bool = False
    result_is_array: bool = False
    outer_command_id: bool = False
    write_identity: str | None = None
    partition_path: tuple[str, ...] | None = None
    http_method: Literal["GET", "POST"]
    http_route: str
    http_query: str | None = None
    request_meaning: str | None = None
    lane: Lane
    admission_class: AdmissionClass
    read_only: bool
    destructive: bool
    idempotent: bool
    required_grants: tuple[RequiredGrant, ...]
    notable_errors: tuple[ErrorCode, ...]

    @property
    def arguments(self) -> tuple[str, ...]:
        """Members of the argument envelope (CON-39)."""
        if self.request is None:
            return ()
        return ("commandId", "request") if self.outer_command_id else ("request",)

    @property
    def errors(self) -> tuple[ErrorCode, ...]:
        """All codes it may answer, in the order of the error table (CON-49). Every reply has a bound, so
        BudgetExceeded is always one of them (ADM-26).
        """
        of_commands = COMMON_OF_COMMANDS if self.write_identity else ()
        own = {*COMMON, *of_commands, *self.notable_errors, ErrorCode.BUDGET_EXCEEDED}
        return tuple(code for code in ErrorCode if code in own)

    @property
    def runs_long(self) -> bool:
        """Whether it is a read that may take up to `read.deadlineSeconds`; others end within one page."""
        return self.admission_class == "data-heavy"

    @property
    def http_body(self) -> Literal["request", "none"]:
        """Whether the HTTP form carries the request as its body (CON-28)."""
        return "none" if self.request is None or self.http_query is not None else "request"
