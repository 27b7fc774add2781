"""What one read may look at: records, stored bytes and time (contract README section 15, DECISIONS on
budgets)."""

from __future__ import annotations

from collections.abc import Callable

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.limits import whole

MAX_RECORDS = whole("read.maxExaminedRecords")
MAX_BYTES = whole("read.maxReadBytes")


def _never() -> bool:
    return False


class Budget:
    """Counts down while a handler reads; `BudgetExceeded` when a bound is passed, never when it is just
    reached.

    `late` is asked now and then whether the call's deadline has passed; the worker that owns the clock gives
    it.
    """

    __slots__ = ("_bytes", "_late", "_records")

    def __init__(
        self,
        records: int = MAX_RECORDS,
        stored_bytes: int = MAX_BYTES,
        late: Callable[[], bool] = _never,
    ) -> None:
        self._records = records
        self._bytes = stored_bytes
        self._late = late

    def charge(self, records: int, stored_bytes: int) -> None:
        """Account for records and stored bytes that were really read."""
        self._records -= records
        self._bytes -= stored_bytes
        if self._records < 0:
            raise KeyLoadError(ErrorCode.BUDGET_EXCEEDED, "The read examines too many records.")
        if self._bytes < 0:
            raise KeyLoadError(ErrorCode.BUDGET_EXCEEDED, "The read takes in too many stored bytes.")
        if self._late():
            raise KeyLoadError(ErrorCode.BUDGET_EXCEEDED, "The read takes too long.")
