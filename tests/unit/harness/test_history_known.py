"""Histories whose judgement is known: what a right document may show, and what it may never show."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.history.calls import Attempt, Call, Kind, Outcome, load, save
from harness.history.linearizability import check_history
from harness.history.outcomes import contradictions, doubled_effects, judge, old_reads


def put(start: int, end: int, element: int, revision: int, expected: int | None = None) -> Call:
    return write(Kind.PUT, start, end, (element,), revision, expected)


def patch(start: int, end: int, value: tuple[int, ...], revision: int) -> Call:
    """An acknowledged append: it demands the revision before."""
    return write(Kind.PATCH, start, end, value, revision, revision - 1)


def write(
    kind: Kind, start: int, end: int, value: tuple[int, ...] | None, revision: int, expected: int | None
) -> Call:
    return Call(
        client=0,
        key="k",
        kind=kind,
        start=start,
        end=end,
        outcome=Outcome.DONE,
        value=value,
        expected=expected,
        revision=revision,
    )


def delete(start: int, end: int, revision: int) -> Call:
    return write(Kind.DELETE, start, end, None, revision, None)


def get(start: int, end: int, revision: int, *found: int) -> Call:
    call = Call(client=1, key="k", kind=Kind.GET, start=start, end=end, outcome=Outcome.DONE)
    call.revision, call.found = (revision, found) if revision else (None, None)
    return call


def refused(call: Call, outcome: Outcome = Outcome.CONFLICT) -> Call:
    call.outcome, call.revision = outcome, None
    return call


def lost(call: Call) -> Call:
    """The answer never came."""
    call.outcome, call.revision, call.end = Outcome.UNKNOWN, None, None
    return call


POSSIBLE = {
    "nothing at all": [],
    "reads of nothing": [get(0, 1, 0), get(2, 3, 0)],
    "one after the other": [put(0, 1, 1, 1), get(2, 3, 1, 1), put(4, 5, 2, 2), get(6, 7, 2, 2)],
    "a read beside a write sees the old": [put(0, 1, 1, 1), put(2, 9, 2, 2), get(3, 4, 1, 1)],
    "a read beside a write sees the new": [put(0, 1, 1, 1), put(2, 9, 2, 2), get(3, 4, 2, 2)],
    "two reads beside a write, old before new": [put(0, 9, 1, 1), get(1, 2, 0), get(3, 4, 1, 1)],
    "writes at once in either order": [put(0, 9, 1, 2), put(0, 9, 2, 1), get(10, 11, 2, 1)],
    "of two inserts one wins": [put(0, 9, 1, 1, 0), refused(put(0, 9, 2, 0, 0)), get(10, 11, 1, 1)],
    "a stale write is refused": [
        put(0, 1, 1, 1),
        put(2, 3, 2, 2, 1),
        refused(put(4, 5, 3, 0, 1)),
        get(6, 7, 2, 2),
    ],
    "appends in a chain": [put(0, 1, 1, 1), patch(2, 3, (1, 2), 2), patch(4, 5, (1, 2, 3), 3)],
    "an append to nothing is missing": [refused(patch(0, 1, (1,), 2), Outcome.MISSING), get(2, 3, 0)],
    "an unknown write never happens": [put(0, 1, 1, 1), lost(put(2, 3, 2, 2)), get(9, 10, 1, 1)],
    "an unknown write happens late": [
        put(0, 1, 1, 1),
        lost(put(2, 3, 2, 2)),
        get(9, 10, 1, 1),
        get(20, 21, 2, 2),
    ],
    "an unknown write is refused by a later one": [
        put(0, 1, 1, 1),
        lost(put(2, 3, 2, 2, 1)),
        put(4, 5, 3, 2),
        get(6, 7, 2, 3),
    ],
    "an unknown write explains a gap of revisions": [
        put(0, 1, 1, 1),
        lost(put(2, 3, 2, 2)),
        put(4, 5, 3, 3),
    ],
    "deleted and written again": [
        put(0, 1, 1, 1),
        delete(2, 3, 2),
        get(4, 5, 0),
        put(6, 7, 2, 3),
        get(8, 9, 3, 2),
    ],
    "a second deletion is missing": [
        put(0, 1, 1, 1),
        delete(2, 3, 2),
        refused(delete(4, 5, 3), Outcome.MISSING),
    ],
    "ended when the other begins counts as at once": [put(0, 1, 1, 1), put(1, 2, 2, 2), get(2, 3, 1, 1)],
}

IMPOSSIBLE = {
    "a stale read": [put(0, 1, 1, 1), put(2, 3, 2, 2), get(4, 5, 1, 1)],
    "a read that goes back beside a write": [
        put(0, 1, 1, 1),
        put(2, 9, 2, 2),
        get(3, 4, 2, 2),
        get(5, 6, 1, 1),
    ],
    "a lost update": [put(0, 1, 1, 1), put(2, 3, 2, 2), put(4, 5, 3, 2)],
    "an acknowledged write is gone": [put(0, 1, 1, 1), get(2, 3, 0)],
    "a value that nobody wrote": [put(0, 1, 1, 1), get(2, 3, 1, 7)],
    "a revision that nobody made": [put(0, 1, 1, 1), get(2, 3, 2, 1)],
    "a write is seen before it begins": [get(0, 1, 1, 1), put(2, 3, 1, 1)],
    "both of two inserts win": [put(0, 9, 1, 1, 0), put(0, 9, 2, 2, 0)],
    "an insert is refused without reason": [refused(put(0, 1, 1, 0, 0)), get(2, 3, 0)],
    "a refused write shows": [put(0, 1, 1, 1), refused(put(2, 3, 2, 0, 0)), get(4, 5, 2, 2)],
    "a doubled append": [put(0, 1, 1, 1), patch(2, 3, (1, 2), 2), get(4, 5, 3, 1, 2, 2)],
    "a lost append": [put(0, 1, 1, 1), patch(2, 3, (1, 2), 2), patch(4, 5, (1, 3), 2)],
    "a command that took effect twice": [put(0, 1, 1, 1), put(2, 3, 2, 3), get(4, 5, 3, 2)],
    "an unknown write shows and is gone": [
        put(0, 1, 1, 1),
        lost(put(2, 3, 2, 2)),
        get(4, 5, 2, 2),
        get(6, 7, 1, 1),
    ],
    "an unknown write shows before it begins": [
        put(0, 1, 1, 1),
        get(2, 3, 2, 2),
        lost(put(4, 5, 2, 2)),
    ],
    "an unknown write happens twice": [
        put(0, 1, 1, 1),
        lost(put(2, 3, 2, 2)),
        get(4, 5, 2, 2),
        put(6, 7, 3, 3),
        get(8, 9, 4, 2),
    ],
    "two leaders": [put(0, 9, 1, 1), put(0, 9, 2, 1)],
    "a deleted document comes back": [put(0, 1, 1, 1), delete(2, 3, 2), get(4, 5, 1, 1)],
    "a deletion takes no effect": [put(0, 1, 1, 1), delete(2, 3, 2), patch(4, 5, (1, 2), 3)],
    "two clients see two orders": [
        put(0, 9, 1, 1),
        lost(put(0, 1, 2, 2)),
        get(2, 3, 1, 2),
        get(4, 5, 1, 1),
    ],
}


@pytest.mark.covers("CLU-14", "CLU-24", "TST-11")
@pytest.mark.parametrize("name", POSSIBLE)
def test_a_right_document_may_show(name: str) -> None:
    assert [one for one in check_history(POSSIBLE[name]).values() if not one.linearizable] == []


@pytest.mark.covers("CLU-14", "CLU-24", "TST-11")
@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_right_document_never_shows(name: str) -> None:
    verdict = check_history(IMPOSSIBLE[name])["k"]
    assert verdict.linearizable is False
    assert "no order explains" in verdict.reason


@pytest.mark.covers("CLU-24", "CMD-30")
def test_old_reads_are_named() -> None:
    assert list(old_reads(IMPOSSIBLE["a stale read"])) != []
    assert list(old_reads(IMPOSSIBLE["a read that goes back beside a write"])) != []
    assert [name for name, calls in POSSIBLE.items() if list(old_reads(calls))] == []


@pytest.mark.covers("CMD-18", "CMD-28", "CMD-29")
def test_doubled_effects_are_named() -> None:
    for name in ("a doubled append", "two leaders", "a lost update", "a value that nobody wrote"):
        assert list(doubled_effects(IMPOSSIBLE[name])) != [], name
    assert [name for name, calls in POSSIBLE.items() if list(doubled_effects(calls))] == []
    first, second = put(0, 1, 1, 1), put(2, 3, 2, 2)
    first.position, second.position = 9, 8
    assert list(doubled_effects([first, second])) == ["k: revision 2 has position 8, revision 1 has 9"]


@pytest.mark.covers("CMD-18", "CMD-28")
def test_a_command_with_two_answers_is_named() -> None:
    call = put(0, 1, 1, 1)
    call.command_id = "c"
    call.answers = ["a"]
    assert list(contradictions([call])) == []
    call.answers.append("b")
    assert len(list(contradictions([call]))) == 1
    assert len(list(contradictions([call, call]))) == 3


@pytest.mark.covers("TST-11")
def test_a_verdict_over_a_bound_is_no_pass() -> None:
    assert judge(POSSIBLE["one after the other"]) == []
    assert "not decided" in judge(POSSIBLE["one after the other"], max_configurations=1)[0]
    assert "not decided" in judge(POSSIBLE["one after the other"], max_calls=3)[0]
    assert any("not linearizable" in fault for fault in judge(IMPOSSIBLE["two leaders"]))


def test_a_history_is_kept_and_read_again(tmp_path: Path) -> None:
    calls = [*POSSIBLE["appends in a chain"], *POSSIBLE["an unknown write never happens"]]
    calls[0].attempts.append(Attempt(1, "sdk", 0, 1, "DONE"))
    save(calls, tmp_path / "history.jsonl")
    assert load(tmp_path / "history.jsonl") == calls
