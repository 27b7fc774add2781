"""In-memory documents for tests of the checker: a right one, wrong ones, and clients that race on them."""

from __future__ import annotations

from random import Random

from harness.history.calls import Call, Kind, Outcome, Value
from harness.history.document import NEVER_USED, State

Answer = tuple[Outcome, int | None, Value | None]
"""Outcome, revision told, value found."""

KEY = "one"


def read(state: State) -> Answer:
    return Outcome.DONE, None if state[1] is None else state[0], state[1]


def write(state: State, call: Call) -> tuple[State, Answer]:
    revision, value = state
    if call.kind is not Kind.PUT and value is None:
        return state, (Outcome.MISSING, None, None)
    if call.expected is not None and call.expected != revision:
        return state, (Outcome.CONFLICT, None, None)
    return (revision + 1, call.value), (Outcome.DONE, revision + 1, None)


class Register:
    """One document that answers a repeated command with its stored outcome."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.state: State = NEVER_USED
        self.former: State = NEVER_USED
        self.outcomes: dict[str, Answer] = {}

    def run(self, call: Call) -> Answer:
        if call.kind is Kind.GET:
            return self.read(call)
        assert call.command_id is not None
        if call.command_id not in self.outcomes:
            self.outcomes[call.command_id] = self.write(call)
        return self.outcomes[call.command_id]

    def read(self, call: Call) -> Answer:
        return read(self.state)

    def write(self, call: Call) -> Answer:
        before = self.state
        self.state, answer = write(self.state, call)
        if self.state != before:
            self.former = before
        return answer


class StaleReads(Register):
    """A replica that answers from before the last write."""

    def read(self, call: Call) -> Answer:
        return read(self.former if self.chance.random() < 0.3 else self.state)


class LosesUpdates(Register):
    """Acknowledges writes that are gone afterwards."""

    def write(self, call: Call) -> Answer:
        before = self.state
        answer = super().write(call)
        if self.chance.random() < 0.2:
            self.state = before
        return answer


class ForgetsOutcomes(Register):
    """Executes a repeated command again."""

    def run(self, call: Call) -> Answer:
        self.outcomes.clear()
        return super().run(call)


class IgnoresRevisions(Register):
    """Takes no notice of the expected revision."""

    def write(self, call: Call) -> Answer:
        self.state = (self.state[0] + 1, call.value)
        return Outcome.DONE, self.state[0], None


class RefusedYetDone(Register):
    """Refuses a stale write and applies it all the same."""

    def write(self, call: Call) -> Answer:
        answer = super().write(call)
        if answer[0] is Outcome.CONFLICT:
            self.state = (self.state[0] + 1, call.value)
        return answer


class ShowsUncommitted(Register):
    """Lets a read see the next revision of a write that never happens."""

    def read(self, call: Call) -> Answer:
        if self.chance.random() < 0.2:
            return Outcome.DONE, self.state[0] + 1, (-1,)
        return super().read(call)


class TwoLeaders(Register):
    """Two replicas that each take writes of half of the clients, and later one history wins."""

    def __init__(self, chance: Random) -> None:
        super().__init__(chance)
        self.states = [NEVER_USED, NEVER_USED]

    def run(self, call: Call) -> Answer:
        self.state = self.states[call.client % 2]
        answer = super().run(call)
        self.states[call.client % 2] = self.state
        if self.chance.random() < 0.2:
            self.states = [self.state, self.state]
        return answer


class WrongRevisions(Register):
    """Tells revisions of receipts one too high."""

    def write(self, call: Call) -> Answer:
        outcome, revision, found = super().write(call)
        return outcome, None if revision is None else revision + 1, found


class MixesStates(Register):
    """Answers a read with the revision of one state and the value of another."""

    def read(self, call: Call) -> Answer:
        if self.state[1] is None or self.former[1] is None:
            return super().read(call)
        return Outcome.DONE, self.state[0], self.former[1]


class ForgetsDeletions(Register):
    """Shows a deleted document for a while."""

    def read(self, call: Call) -> Answer:
        return read(self.former if self.state[1] is None else self.state)


BROKEN = (
    StaleReads,
    LosesUpdates,
    ForgetsOutcomes,
    IgnoresRevisions,
    RefusedYetDone,
    ShowsUncommitted,
    TwoLeaders,
    WrongRevisions,
    MixesStates,
    ForgetsDeletions,
)


class _Racer:
    """One client: its present call and what becomes of it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.call: Call | None = None
        self.answer: Answer | None = None
        self.knows = 0


def race(register: Register, chance: Random, clients: int, count: int) -> list[Call]:
    """A history of `count` calls: clients begin, take effect and end in a random order; one answer in eight
    is lost, and then the command is sent again or given up, now and then before it has arrived.
    """
    racers = [_Racer(number) for number in range(clients)]
    history: list[Call] = []
    late: list[Call] = []
    now = 0
    while len(history) < count or any(racer.call for racer in racers):
        now += 1
        racer = chance.choice(racers)
        if late and chance.random() < 0.2:
            register.run(late.pop())
        if racer.call is None:
            if len(history) < count:
                racer.call = _next(chance, racer, now, len(history))
                history.append(racer.call)
        elif racer.answer is None:
            _send(register, chance, racer, late)
        else:
            _end(racer, now)
    return history


def _next(chance: Random, racer: _Racer, now: int, number: int) -> Call:
    kind = chance.choice([Kind.GET, Kind.GET, Kind.PUT, Kind.PUT, Kind.PATCH, Kind.DELETE])
    demands = kind is Kind.PATCH or (kind is not Kind.GET and chance.random() < 0.4)
    return Call(
        client=racer.number,
        key=KEY,
        kind=kind,
        start=now,
        value=(number,) if kind in (Kind.PUT, Kind.PATCH) else None,
        expected=racer.knows if demands else None,
        command_id=None if kind is Kind.GET else str(number),
    )


def _send(register: Register, chance: Random, racer: _Racer, late: list[Call]) -> None:
    call = racer.call
    assert call is not None
    lost = chance.random()
    if lost >= 1 / 8:
        racer.answer = register.run(call)
        return
    if call.kind is Kind.GET or lost < 1 / 16:
        racer.call = None  # given up: it may still arrive
        late.append(call)
    else:
        register.run(call)  # the answer is lost; it will be sent again


def _end(racer: _Racer, now: int) -> None:
    call, answer = racer.call, racer.answer
    assert call is not None
    assert answer is not None
    call.outcome, call.revision, call.found = answer
    call.end = now
    racer.knows = call.revision or racer.knows
    racer.call = racer.answer = None
