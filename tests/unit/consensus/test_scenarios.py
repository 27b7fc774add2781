"""Every script under scenarios/ shows what it shows; its `# covers` line names what it proves."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.simulator.checker import Violation
from keyload.consensus import ConsensusError
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
