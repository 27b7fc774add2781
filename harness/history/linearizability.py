"""Is there an order of the calls that explains every answer and keeps the order of time? (CLU-14, CLU-24)

The search of Wing and Gong with Lowe's just-in-time linearization: the events are taken in order of time; a
configuration is a state with the calls under way that have taken effect already. A call has to take effect at
the latest when its answer arrives, so only then are further calls put before it. Equal configurations are
kept once. A call without effect whose answer fits is put in place at once, which loses no order: it stands in
nobody's way. A call of unknown outcome never ends: it may take effect at any time after its start, or never.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from harness.history.calls import Call, Kind, Outcome, by_key
from harness.history.document import NEVER_USED, State, after

MAX_CALLS = 10_000
"""Calls on one document."""

MAX_CONFIGURATIONS = 500_000
"""Configurations looked at for one document."""

_SHOWN = 12

Configuration = tuple[State, int]
"""A state and the calls under way that have taken effect, as a set of bits by place in the history."""


class Verdict(msgspec.Struct, frozen=True):
    """`linearizable` is None when a bound was passed: then nothing is known, and the run proves nothing."""

    linearizable: bool | None
    reason: str = ""


class _BoundPassed(Exception):
    """The search became too large."""


def check_document(
    calls: Iterable[Call], max_calls: int = MAX_CALLS, max_configurations: int = MAX_CONFIGURATIONS
) -> Verdict:
    """Judge the calls on one document."""
    history = [call for call in calls if call.kind is not Kind.GET or call.outcome is not Outcome.UNKNOWN]
    if len(history) > max_calls:
        return Verdict(None, f"{len(history)} calls on one document, of at most {max_calls}")
    search = _Search(history, max_configurations)
    try:
        return search.run()
    except _BoundPassed:
        return Verdict(None, f"more than {max_configurations} configurations")


def check_history(
    calls: Iterable[Call], max_calls: int = MAX_CALLS, max_configurations: int = MAX_CONFIGURATIONS
) -> dict[str, Verdict]:
    """Judge every document by itself: operations on one document each are linearizable together exactly when
    they are for each document.
    """
    return {key: check_document(own, max_calls, max_configurations) for key, own in by_key(calls).items()}


class _Search:
    """All configurations that explain the answers so far."""

    def __init__(self, history: Sequence[Call], limit: int) -> None:
        self._history = history
        self._left = limit
        self._under_way: dict[int, Call] = {}
        self._configurations: set[Configuration] = {(NEVER_USED, 0)}

    def run(self) -> Verdict:
        """Go through the events in order of time."""
        for place, begins in _events(self._history):
            call = self._history[place]
            if begins:
                self._under_way[place] = call
                self._configurations = {self._settled(one) for one in self._configurations}
                continue
            former = self._configurations
            self._configurations = self._answered(place)
            if not self._configurations:
                return Verdict(False, self._story(call, former))
            del self._under_way[place]
        return Verdict(True)

    def _answered(self, place: int) -> set[Configuration]:
        """The configurations in which the call has taken effect, without its bit."""
        bit = 1 << place
        told = self._history[place].revision
        explained: set[Configuration] = set()
        seen = set(self._configurations)
        open_ones = list(self._configurations)
        while open_ones:
            state, done = open_ones.pop()
            if done & bit:
                explained.add((state, done ^ bit))
                continue
            for other, call in self._under_way.items():
                if done >> other & 1:
                    continue
                changed = after(state, call)
                if changed is None or changed == state or (told is not None and changed[0] > told):
                    continue  # revisions only rise: behind the one it was told the answer is lost
                following = self._settled((changed, done | 1 << other))
                if following not in seen:
                    seen.add(following)
                    open_ones.append(following)
        return explained

    def _settled(self, configuration: Configuration) -> Configuration:
        """With every definite call that changes nothing and whose answer fits."""
        self._left -= 1
        if self._left < 0:
            raise _BoundPassed
        state, done = configuration
        for place, call in self._under_way.items():
            if not done >> place & 1 and call.outcome is not Outcome.UNKNOWN and after(state, call) == state:
                done |= 1 << place
        return state, done

    def _story(self, call: Call, former: set[Configuration]) -> str:
        """What cannot be explained, and what could have been the case."""
        states = sorted({state for state, _ in former}, key=lambda state: state[0])
        others = [other for other in self._under_way.values() if other is not call]
        lines = [f"{call.key}: no order explains: {call}", "possible states before:"]
        lines += [f"  revision {revision} {value}" for revision, value in states[:_SHOWN]]
        lines += ["calls under way:", *(f"  {other}" for other in others[:_SHOWN])]
        return "\n".join(lines)


def _events(history: Sequence[Call]) -> Iterator[tuple[int, bool]]:
    """(place, whether it begins) in order of time; of one instant, beginnings come first."""
    events: list[tuple[int, int, int]] = []
    for place, call in enumerate(history):
        events.append((call.start, 0, place))
        if call.end is not None and call.outcome is not Outcome.UNKNOWN:
            events.append((call.end, 1, place))
    for _, ends, place in sorted(events):
        yield place, not ends
