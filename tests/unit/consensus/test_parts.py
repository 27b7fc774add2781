"""Configuration, majorities, windows and read groups."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from keyload.consensus import Config
from keyload.consensus.progress import Progress
from keyload.consensus.quorum import Tally, majority, reached_by_majority, tally
from keyload.consensus.reads import ForwardedReads, ReadRounds


def config(**changes: Any) -> Config:
    return Config(**{"id": 1, "rng": Random(1)} | changes)


@pytest.mark.covers("CLU-4", "CLU-5")
@pytest.mark.parametrize(
    "changes",
    [
        {"id": 0},
        {"heartbeat_ticks": 0},
        {"heartbeat_ticks": 5},
        {"election_ticks_min": 40},
        {"max_append_bytes": 0},
        {"max_inflight_messages": 0},
        {"max_inflight_bytes": 0},
        {"max_uncommitted_bytes": 0},
        {"max_committed_bytes": 0},
        {"max_reads": 0},
    ],
    ids=str,
)
def test_a_wrong_setting_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        config(**changes)


@pytest.mark.covers("CLU-4")
def test_the_bounds_of_the_timings_pass() -> None:
    assert config(heartbeat_ticks=4).heartbeat_ticks * 5 == config().election_ticks_min
    assert config(election_ticks_min=39).election_ticks_max == 40


@pytest.mark.covers("CLU-7")
def test_a_majority_has_reached_what_more_than_half_have() -> None:
    for voters in range(1, 6):
        for values in product(range(4), repeat=voters):
            expected = max(n for n in range(4) if sum(value >= n for value in values) * 2 > voters)
            assert reached_by_majority(list(values)) == expected


@pytest.mark.covers("CLU-7")
def test_an_election_is_decided_as_soon_as_it_must_be() -> None:
    for voters in range(1, 6):
        for answers in product((True, False, None), repeat=voters):
            votes = {node: answer for node, answer in enumerate(answers) if answer is not None}
            granted, refused = answers.count(True), answers.count(False)
            expected = Tally.OPEN
            if granted >= majority(voters):
                expected = Tally.WON
            elif voters - refused < majority(voters):
                expected = Tally.LOST
            assert tally(votes, voters) is expected


@pytest.mark.covers("CLU-22")
def test_the_window_counts_messages_and_bytes() -> None:
    progress = Progress(config(max_inflight_messages=3, max_inflight_bytes=100), 10)
    assert progress.acknowledged(10)
    progress.sent(11, 40)
    progress.sent(12, 40)
    assert not progress.paused
    progress.sent(13, 20)
    assert progress.paused
    assert progress.acknowledged(12)
    assert (progress.paused, progress.match, progress.next) == (False, 12, 14)
    progress.sent(14, 80)
    assert progress.paused
    progress.validate(14)


@pytest.mark.covers("CLU-14")
def test_only_the_first_refusal_of_a_lost_window_counts() -> None:
    progress = Progress(config(), 10)
    progress.acknowledged(10)
    era = progress.era
    for index in (11, 12, 13):
        progress.sent(index, 1)
    assert progress.rejected(11, 10, era)
    assert (progress.replicating, progress.next) == (False, 11)
    assert not progress.rejected(12, 10, era)
    assert progress.acknowledged(11)
    assert not progress.rejected(13, 10, era)
    assert progress.replicating


@pytest.mark.covers("CLU-14")
def test_a_stale_acknowledgement_moves_nothing() -> None:
    progress = Progress(config(), 10)
    progress.acknowledged(10)
    assert not progress.acknowledged(7)
    assert not progress.acknowledged(10)
    assert (progress.match, progress.next) == (10, 11)


@pytest.mark.covers("CLU-24")
def test_a_round_answers_itself_and_the_earlier_ones_only() -> None:
    rounds = ReadRounds()
    for context in (1, 2, 3):
        rounds.add(9, context)
        assert rounds.begin(context * 10) == context
    assert rounds.confirm(2) == [(9, 1, 10), (9, 2, 20)]
    assert rounds.count == 1
    rounds.add(8, 4)
    rounds.add(9, 5)
    assert rounds.lose(9) == [3, 5]
    assert rounds.count == 0


@pytest.mark.covers("CLU-24")
def test_only_an_open_group_is_answered() -> None:
    forwards = ForwardedReads(Random(1))
    forwards.add(1)
    first = forwards.begin()
    forwards.add(2)
    second = forwards.begin()
    forwards.add(3)
    assert forwards.answered(first - 1) == []
    assert forwards.answered(second + 1) == []
    assert forwards.answered(second) == [1, 2]
    assert forwards.answered(second) == []
    assert forwards.lose() == [3]
