"""The checker against brute force on small histories, and against documents that are wrong on purpose."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.history.calls import Call, Kind, Outcome
from harness.history.document import NEVER_USED, State, after
from harness.history.linearizability import check_document
from tests.unit.harness.registers import BROKEN, KEY, Register, race

SEEDS = 30
SMALL = 7


def explainable(state: State, calls: list[Call]) -> bool:
    """Try every order that keeps the order of time; open calls may be left out."""
    if all(call.outcome is Outcome.UNKNOWN for call in calls):
        return True
    for call in calls:
        others = [other for other in calls if other is not call]
        if any(other.outcome is not Outcome.UNKNOWN and other.end < call.start for other in others):
            continue
        changed = after(state, call)
        if changed is not None and explainable(changed, others):
            return True
    return False


def any_call(chance: Random) -> Call:
    """Any call with any answer, possible or not."""
    kind = chance.choice([Kind.GET, Kind.GET, Kind.PUT, Kind.PUT, Kind.PATCH, Kind.DELETE])
    start = chance.randint(0, 6)
    call = Call(client=0, key=KEY, kind=kind, start=start, end=start + chance.randint(0, 5))
    value = chance.choice([(1,), (2,)])
    if kind is Kind.GET:
        call.outcome = Outcome.DONE
        if chance.random() < 0.6:
            call.revision, call.found = chance.randint(1, 2), value
        return call
    call.value = None if kind is Kind.DELETE else value
    call.expected = chance.choice([1, 2] if kind is Kind.PATCH else [None, None, 0, 1])
    call.outcome = chance.choice([*Outcome, Outcome.DONE])
    if call.outcome is Outcome.DONE:
        call.revision = chance.randint(1, 3)
    if call.outcome is Outcome.UNKNOWN:
        call.end = None
    return call


@pytest.mark.covers("CLU-14", "TST-11")
@settings(max_examples=3000, deadline=None, derandomize=True)
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_any_answers_are_judged_as_by_brute_force(seed: int, count: int) -> None:
    chance = Random(seed)
    calls = [any_call(chance) for _ in range(count)]
    assert check_document(calls).linearizable is explainable(NEVER_USED, calls)


@pytest.mark.covers("CLU-14", "TST-11")
@settings(max_examples=1500, deadline=None, derandomize=True)
@given(st.integers(0, 2**32), st.sampled_from([Register, *BROKEN]))
def test_small_races_are_judged_as_by_brute_force(seed: int, kind: type[Register]) -> None:
    chance = Random(seed)
    calls = race(kind(chance), chance, 3, SMALL)
    answered = [call for call in calls if call.kind is not Kind.GET or call.outcome is not Outcome.UNKNOWN]
    assert check_document(calls).linearizable is explainable(NEVER_USED, answered)


@pytest.mark.covers("CLU-14")
@pytest.mark.parametrize("clients", [2, 6, 12])
def test_a_right_document_passes(clients: int) -> None:
    for seed in range(SEEDS):
        chance = Random(seed)
        verdict = check_document(race(Register(chance), chance, clients, 120))
        assert verdict.linearizable is True, (seed, verdict.reason)


@pytest.mark.covers("CLU-14", "TST-11")
@pytest.mark.parametrize("kind", BROKEN)
def test_a_wrong_document_is_found(kind: type[Register]) -> None:
    found = 0
    for seed in range(SEEDS):
        chance = Random(seed)
        found += check_document(race(kind(chance), chance, 4, 60)).linearizable is False
    assert found >= SEEDS * 2 // 3


@pytest.mark.covers("CLU-14")
def test_a_bound_that_is_passed_decides_nothing() -> None:
    calls = [
        Call(client=n, key=KEY, kind=Kind.PUT, start=0, value=(n,), command_id=str(n)) for n in range(12)
    ]
    read = Call(client=99, key=KEY, kind=Kind.GET, start=1, end=2, outcome=Outcome.DONE)
    read.revision, read.found = 12, (99,)
    assert check_document([*calls, read], max_configurations=5000).linearizable is None
    assert check_document([*calls, read], max_calls=12).linearizable is None
    read.revision, read.found = 2, (3,)
    assert check_document([*calls, read], max_configurations=5000).linearizable is True
