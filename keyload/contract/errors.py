"""The 24 error codes, the `Problem` they travel as, and the exception that carries it (CON-48, HTTP-16)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from keyload.contract.base import Member, Record


class ErrorCode(StrEnum):
    """Stable code of a failure; clients act on it, never on the text."""

    VALIDATION = "Validation"
    NOT_FOUND = "NotFound"
    CONFLICT = "Conflict"
    REVISION_CONFLICT = "RevisionConflict"
    DUPLICATE_EVENT_ID = "DuplicateEventId"
    PERMISSION_DENIED = "PermissionDenied"
    UNAUTHENTICATED = "Unauthenticated"
    RESOURCE_EXHAUSTED = "ResourceExhausted"
    BUDGET_EXCEEDED = "BudgetExceeded"
    UNSUPPORTED_CAPABILITY = "UnsupportedCapability"
    UNKNOWN_WRITE_OUTCOME = "UnknownWriteOutcome"
    RECOVERY_REQUIRED = "RecoveryRequired"
    TOKEN_INVALIDATED = "TokenInvalidated"  # noqa: S105 - a code, no secret
    CURSOR_EXPIRED = "CursorExpired"
    HISTORY_UNAVAILABLE = "HistoryUnavailable"
    INDEX_NOT_READY = "IndexNotReady"
    LEASE_EXPIRED = "LeaseExpired"
    STALE_LEASE = "StaleLease"
    DISPATCH_PAUSED = "DispatchPaused"
    OWNERSHIP_LOST = "OwnershipLost"
    CORRUPTION = "Corruption"
    FORMAT_UNSUPPORTED = "FormatUnsupported"
    CLOCK_UNCERTAIN = "ClockUncertain"
    CANCELLED = "Cancelled"


class ErrorRule(msgspec.Struct, frozen=True):
    """How one code is answered: HTTP status, whether a repeat helps, and its meaning for people."""

    code: ErrorCode
    http_status: int
    retry: str
    meaning: str


_RULES = (
    ErrorRule(ErrorCode.VALIDATION, 400, "no", "The request or a value in it is not acceptable."),
    ErrorRule(
        ErrorCode.NOT_FOUND,
        404,
        "refresh",
        "The addressed thing does not exist, or a start vertex is not visible.",
    ),
    ErrorRule(
        ErrorCode.CONFLICT,
        409,
        "refresh",
        "The change clashes with current state: identity or id reused with other content, unique key taken, "
        "definition differs.",
    ),
    ErrorRule(
        ErrorCode.REVISION_CONFLICT,
        409,
        "refresh",
        "An expected revision, version or generation is not the current one.",
    ),
    ErrorRule(
        ErrorCode.DUPLICATE_EVENT_ID,
        409,
        "no",
        "An event with this id and equal content is already stored in that stream or topic generation.",
    ),
    ErrorRule(
        ErrorCode.PERMISSION_DENIED, 403, "no", "The caller lacks a grant, row access or a field grant."
    ),
    ErrorRule(ErrorCode.UNAUTHENTICATED, 401, "no", "There is no valid current identity."),
    ErrorRule(
        ErrorCode.RESOURCE_EXHAUSTED,
        429,
        "later",
        "A capacity is used up: quota, queue, body size, admission.",
    ),
    ErrorRule(
        ErrorCode.BUDGET_EXCEEDED,
        429,
        "no",
        "This one call would pass its work, size, count or time bound; make it smaller.",
    ),
    ErrorRule(
        ErrorCode.UNSUPPORTED_CAPABILITY,
        422,
        "no",
        "The request asks for something this version does not offer.",
    ),
    ErrorRule(
        ErrorCode.UNKNOWN_WRITE_OUTCOME,
        503,
        "sameIdentity",
        "A write may or may not have been committed.",
    ),
    ErrorRule(ErrorCode.RECOVERY_REQUIRED, 503, "later", "The store must recover before it serves again."),
    ErrorRule(
        ErrorCode.TOKEN_INVALIDATED,
        400,
        "refresh",
        "A token, cursor, generation or stored identity belongs to another scope, life or incarnation.",
    ),
    ErrorRule(
        ErrorCode.CURSOR_EXPIRED, 400, "refresh", "A query or event cursor is too old or no longer fits."
    ),
    ErrorRule(
        ErrorCode.HISTORY_UNAVAILABLE,
        400,
        "refresh",
        "The history asked for was removed; take a new starting point.",
    ),
    ErrorRule(ErrorCode.INDEX_NOT_READY, 400, "later", "A needed index does not cover the cut yet."),
    ErrorRule(ErrorCode.LEASE_EXPIRED, 400, "refresh", "The lease ended."),
    ErrorRule(ErrorCode.STALE_LEASE, 409, "refresh", "The token is not that of the current lease."),
    ErrorRule(ErrorCode.DISPATCH_PAUSED, 400, "later", "Delivery or the resource is paused."),
    ErrorRule(
        ErrorCode.OWNERSHIP_LOST,
        503,
        "later",
        "This node does not own the data now, or its parts disagree.",
    ),
    ErrorRule(ErrorCode.CORRUPTION, 400, "no", "Stored data is damaged or contradicts itself."),
    ErrorRule(ErrorCode.FORMAT_UNSUPPORTED, 400, "no", "A stored format or schema version is not supported."),
    ErrorRule(ErrorCode.CLOCK_UNCERTAIN, 503, "later", "The clock cannot be trusted for this step."),
    ErrorRule(ErrorCode.CANCELLED, 400, "later", "The call was cancelled before it took effect."),
)

ERRORS: dict[ErrorCode, ErrorRule] = {rule.code: rule for rule in _RULES}

COMMON: tuple[ErrorCode, ...] = (
    ErrorCode.VALIDATION,
    ErrorCode.UNAUTHENTICATED,
    ErrorCode.PERMISSION_DENIED,
    ErrorCode.RESOURCE_EXHAUSTED,
    ErrorCode.CANCELLED,
    ErrorCode.OWNERSHIP_LOST,
    ErrorCode.RECOVERY_REQUIRED,
    ErrorCode.CORRUPTION,
    ErrorCode.FORMAT_UNSUPPORTED,
)
"""Codes that any operation may answer (CON-49)."""

COMMON_OF_COMMANDS: tuple[ErrorCode, ...] = (
    ErrorCode.CONFLICT,
    ErrorCode.TOKEN_INVALIDATED,
    ErrorCode.CLOCK_UNCERTAIN,
    ErrorCode.UNKNOWN_WRITE_OUTCOME,
)
"""Codes that any command may answer beside those (CON-49)."""

UNSTORED: frozenset[ErrorCode] = frozenset(
    {
        ErrorCode.UNAUTHENTICATED,
        ErrorCode.CORRUPTION,
        ErrorCode.OWNERSHIP_LOST,
        ErrorCode.CLOCK_UNCERTAIN,
        ErrorCode.RECOVERY_REQUIRED,
        ErrorCode.CANCELLED,
        ErrorCode.UNKNOWN_WRITE_OUTCOME,
    }
)
"""Codes that never become the stored outcome of a command (CMD-21, CON-62)."""

_RETRY_MEMBER = {"no": "never", "refresh": "never", "later": "later", "sameIdentity": "sameId"}


class Problem(Record, frozen=True, kw_only=True):
    """Safe error value: the body of every HTTP failure and the error member of every tool failure."""

    type: Annotated[str, Member(meaning='The text "urn:keyload:error:" followed by the error code.')]
    title: Annotated[str, Member(meaning="The error code.")]
    status: Annotated[
        int,
        Member(scalar="int32", min=400, max=503, meaning="HTTP status of the code in the error table."),
    ]
    detail: Annotated[
        str,
        Member(
            meaning="Short human text; never holds payloads, keys, tokens or the existence of hidden rows."
        ),
    ]
    error_code: Annotated[str, Member(meaning="The error code again, for programs.")]
    path: Annotated[
        str | UnsetType,
        Member(meaning="JSON pointer of the wrong member inside the request, when there is one."),
    ] = UNSET
    expected: Annotated[
        str | UnsetType,
        Member(meaning="What was expected there: type, range, allowed names, nearest known name."),
    ] = UNSET
    example: Annotated[
        Any,
        Member(
            scalar="json",
            meaning="Smallest valid request skeleton of the operation, for Validation only.",
        ),
    ] = UNSET
    retry: Annotated[
        str | UnsetType,
        Member(meaning="never, sameId or later: whether repeating can help, as in the error table."),
    ] = UNSET


class KeyLoadError(Exception):
    """A failure with one code and a safe sentence; the only exception that crosses a room's border.

    `detail` is one sentence without payloads, field values, keys or tokens (CON-55). `path` is the JSON
    pointer of the wrong member inside the request, `expected` what was expected there.
    """

    def __init__(
        self,
        code: ErrorCode,
        detail: str,
        *,
        path: str | None = None,
        expected: str | None = None,
        example: Any = UNSET,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.path = path
        self.expected = expected
        self.example = example

    @property
    def problem(self) -> Problem:
        """The value sent to the caller (HTTP-16)."""
        rule = ERRORS[self.code]
        return Problem(
            type=f"urn:keyload:error:{self.code}",
            title=str(self.code),
            status=rule.http_status,
            detail=self.detail,
            error_code=str(self.code),
            path=UNSET if self.path is None else self.path,
            expected=UNSET if self.expected is None else self.expected,
            example=self.example,
            retry=_RETRY_MEMBER[rule.retry],
        )

    @classmethod
    def from_problem(cls, problem: Problem) -> KeyLoadError:
        """Rebuild the exception on the other side of a wire."""
        return cls(
            ErrorCode(problem.error_code),
            problem.detail,
            path=None if problem.path is UNSET else problem.path,
            expected=None if problem.expected is UNSET else problem.expected,
            example=problem.example,
        )
