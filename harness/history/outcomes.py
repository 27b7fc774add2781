"""Checks of a history beside the search: one outcome for each command, one effect, no old reads.

They say nothing the search would not find too, but they have no bound and name the fault (CMD-18, CMD-28,
CMD-29, CLU-24).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

from harness.history.calls import Call, Kind, Outcome, by_key
from harness.history.linearizability import MAX_CALLS, MAX_CONFIGURATIONS, check_history


def judge(
    calls: Sequence[Call], max_calls: int = MAX_CALLS, max_configurations: int = MAX_CONFIGURATIONS
) -> list[str]:
    """Everything that is wrong with a history, as texts; a search that passed its bound is wrong too."""
    found = [fault for check in (contradictions, doubled_effects, old_reads) for fault in check(calls)]
    for key, verdict in check_history(calls, max_calls, max_configurations).items():
        if verdict.linearizable is not True:
            word = "not linearizable" if verdict.linearizable is False else "not decided"
            found.append(f"{key}: {word}: {verdict.reason}")
    return found


def contradictions(calls: Iterable[Call]) -> Iterator[str]:
    """Commands that were answered in more than one way, and command ids used for two calls."""
    ids = Counter(call.command_id for call in calls if call.command_id is not None)
    yield from (f"{command} names {count} calls" for command, count in ids.items() if count > 1)
    for call in calls:
        if len(call.answers) > 1:
            yield f"{call.key}: {call.command_id} was answered in different ways: {call.answers}"


def doubled_effects(calls: Iterable[Call]) -> Iterator[str]:
    """Revisions that two commands were told, positions against the order of revisions, elements that a
    document holds twice or that nobody wrote.
    """
    for key, own in by_key(calls).items():
        written = {element for call in own for element in call.value or ()}
        told = [call for call in own if call.kind is not Kind.GET and call.outcome is Outcome.DONE]
        counts = Counter(call.revision for call in told)
        yield from (f"{key}: revision {one} was told to {n} commands" for one, n in counts.items() if n > 1)
        placed = sorted((call.revision or 0, call.position) for call in told if call.position is not None)
        for (revision, position), (later, beyond) in pairwise(placed):
            if beyond is not None and position is not None and beyond <= position:
                yield f"{key}: revision {later} has position {beyond}, revision {revision} has {position}"
        for call in own:
            if call.kind is Kind.GET and call.found is not None:
                if len(set(call.found)) < len(call.found):
                    yield f"{key}: an element is there twice: {call}"
                if not written.issuperset(call.found):
                    yield f"{key}: an element was written by nobody: {call}"


def old_reads(calls: Iterable[Call]) -> Iterator[str]:
    """Answers that tell an older revision than an answer that had arrived before they were asked for."""
    for key, own in by_key(calls).items():
        told = sorted((call.end, call.revision) for call in own if _tells(call) and call.end is not None)
        ends = [end for end, _ in told]
        newest = list(accumulate((revision or 0 for _, revision in told), max))
        for call in own:
            before = bisect_left(ends, call.start)
            if before and _tells(call) and (call.revision or 0) < newest[before - 1]:
                yield f"{key}: revision {newest[before - 1]} was known before: {call}"


def _tells(call: Call) -> bool:
    return call.outcome is Outcome.DONE and call.revision is not None
