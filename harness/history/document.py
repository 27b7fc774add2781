"""The sequential model of one document, which an order of calls is held against (DOC-1..DOC-17)."""

from __future__ import annotations

from harness.history.calls import Call, Kind, Outcome, Value

State = tuple[int, Value | None]
"""Revision, 0 before the first, and value, None while there is no live document."""

NEVER_USED: State = (0, None)


def after(state: State, call: Call) -> State | None:
    """The state when a call takes effect in `state` and is answered as it was; None when no such answer can
    come from `state`. An unknown outcome fits every state.
    """
    if call.kind is Kind.GET:
        told = None if call.found is None else (call.revision, call.found)
        return state if told == (None if state[1] is None else state) else None
    refused = _refusal(state, call)
    changed = (state[0] + 1, call.value) if refused is None else state
    if call.outcome is Outcome.UNKNOWN:
        return changed
    if call.outcome is Outcome.DONE:
        return changed if refused is None and changed[0] == call.revision else None
    return state if refused is call.outcome else None


def _refusal(state: State, call: Call) -> Outcome | None:
    revision, value = state
    if call.kind is not Kind.PUT and value is None:
        return Outcome.MISSING
    return Outcome.CONFLICT if call.expected is not None and call.expected != revision else None
