"""Every script under scenarios/ shows what it shows; its `# covers` line names what it proves."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.simulator.checker import Violation
from keyload.consensus import ConsensusError, Raft
from tests.unit.consensus import mutants_membership as mutants
from tests.unit.consensus.mutants import CommitsEarlierTermsByCounting
from tests.unit.consensus.scenario import SCENARIOS, play


def _scenarios() -> list[object]:
    parameters: list[object] = []
    for path in sorted(SCENARIOS.glob("*.txt")):
        covered = next(line for line in path.read_text().splitlines() if line.startswith("# covers "))
        marks = pytest.mark.covers(*covered.split()[2:])
        parameters.append(pytest.param(path, id=path.stem, marks=marks))
    return parameters


@pytest.mark.parametrize("path", _scenarios())
def test_scenario(path: Path) -> None:
    for commands, expected, output in play(path.read_text()):
        assert output == expected, "\n".join(commands)


@pytest.mark.covers("CLU-7", "CLU-14")
def test_figure_8_tells_a_leader_that_counts_earlier_terms() -> None:
    script = (SCENARIOS / "five_figure_8.txt").read_text()
    with pytest.raises((Violation, ConsensusError)):
        list(play(script, CommitsEarlierTermsByCounting))


BROKEN: list[tuple[type[Raft], str]] = [
    (mutants.NeedNotJoin, "first_start_waits_for_all"),
    (mutants.BelievesOneWelcome, "first_start_waits_for_all"),
    (mutants.TakesWelcomesOfFormerLives, "welcome_of_a_former_life"),
    (mutants.InvitesUnasked, "stale_leader_lets_nobody_join"),
    (mutants.InvitesOnAnOldRound, "stale_leader_lets_nobody_join"),
    (mutants.TakesAllLivesForOne, "ack_of_a_former_life"),
    (mutants.JoinsBeforeItsLog, "join_waits_for_the_log"),
    (mutants.CountsWhoHasNotJoined, "stale_leader_lets_nobody_join"),
    (mutants.ReadsWithWhoHasNotJoined, "stale_leader_lets_nobody_join"),
    (mutants.CommitsForAFormerLife, "commit_for_a_former_life"),
    (mutants.ChangesWhileOneIsUnderway, "one_change_at_a_time"),
    (mutants.ChangesBeforeItsOwnTerm, "a_change_waits_for_the_own_term"),
    (mutants.CountsLearners, "one_change_at_a_time"),
    (mutants.KeepsTheAnswersOfBefore, "snapshot_forgets_what_was_not_written"),
]


@pytest.mark.covers("CLU-7", "CLU-15", "CLU-18", "CLU-19")
@pytest.mark.parametrize(("mutant", "name"), BROKEN, ids=[case[0].__name__ for case in BROKEN])
def test_a_script_tells_a_broken_rule(mutant: type[Raft], name: str) -> None:
    """A promise to the clients is broken, not only an expectation."""
    with pytest.raises((Violation, ConsensusError)):
        list(play((SCENARIOS / f"{name}.txt").read_text(), mutant))


@pytest.mark.covers("CLU-19")
@pytest.mark.parametrize(
    ("mutant", "name"),
    [
        (mutants.KeepsACutMembership, "membership_falls_back"),
        (mutants.CountsItselfWhenRemoved, "removed_leader_leaves"),
    ],
)
def test_a_script_shows_another_course(mutant: type[Raft], name: str) -> None:
    played = play((SCENARIOS / f"{name}.txt").read_text(), mutant)
    assert any(output != expected for _, expected, output in played)
