"""Power is taken from nodes, and everything they had not synced is old, new or torn (STO-18)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec
import pytest

from harness.makers import Maker, ended
from harness.power import alone, cluster
from harness.power.alone import LIVES, Image, Run
from harness.power.cluster import Chain, Loss
from harness.seeds import VARIABLE, seed_of_run

RUNS, IMAGES_PER_LIFE = 18, 6
CHAINS, LOSSES_PER_CHAIN = 10, 5
LEAST_IMAGES = 200
LEAST_LOSSES = 50
"""What STO-18 asks for; `tests/unit/harness/test_profiles.py` holds the advertised profiles against these."""

AT_ONCE = 2
SECONDS = 900.0

Found = TypeVar("Found", bound=msgspec.Struct)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the lines of the results are kept."""
    return Path(os.environ.get("KEYLOAD_RESULTS") or tmp_path_factory.mktemp("power"))


def make(
    module: str, planned: Sequence[msgspec.Struct], seed: int, results: Path, found: type[Found]
) -> list[Found]:
    """Let two processes make the trials; one line of JSON is kept for each."""
    name = "power-" + module.rpartition(".")[2]
    makers = [
        Maker(module, planned[place::AT_ONCE], results / f"{name}-{place}", seconds=SECONDS)
        for place in range(AT_ONCE)
    ]
    with ended(makers):
        lines = [line for maker in makers for line in maker.lines()]
    (results / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"{VARIABLE}={seed}: {len(lines)} {name}\n")
    return [msgspec.json.decode(line, type=found) for line in lines]


@pytest.fixture(scope="session")
def seed() -> int:
    """The one number that all trials come from."""
    return seed_of_run()


def seeds(seed: int, kind: str, count: int) -> list[int]:
    """Seeds of the trials of one kind."""
    chance = Random(f"{seed}/{kind}")
    return [chance.randrange(2**32) for _ in range(count)]


@pytest.fixture(scope="session")
def images(results: Path, seed: int) -> list[Image]:
    """All images of a node alone."""
    planned = [Run(seed=own, images=IMAGES_PER_LIFE) for own in seeds(seed, "alone", RUNS)]
    return make(alone.__name__, planned, seed, results, Image)


@pytest.fixture(scope="session")
def losses(results: Path, seed: int) -> list[Loss]:
    """All losses of three nodes at once."""
    planned = [Chain(seed=own, losses=LOSSES_PER_CHAIN) for own in seeds(seed, "cluster", CHAINS)]
    return make(cluster.__name__, planned, seed, results, Loss)


@pytest.mark.covers("STO-5", "STO-17", "STO-18", "STO-26", "CMD-28", "TST-12")
def test_a_node_whose_power_was_lost_keeps_what_it_acknowledged(images: list[Image]) -> None:
    failures = [image for image in images if image.failure is not None]
    assert failures == []
    assert len(images) == RUNS * LIVES * IMAGES_PER_LIFE >= LEAST_IMAGES


@pytest.mark.covers("STO-18")
def test_most_images_lost_something_that_was_written(images: list[Image]) -> None:
    """Else they prove nothing: state and log were not synced, and commands were on their way."""
    assert sum(image.unsynced_state_bytes > 0 for image in images) >= len(images) // 2
    assert any(image.unsynced_bytes > image.unsynced_state_bytes for image in images)
    assert sum(image.acknowledged > 0 and image.in_doubt > 0 for image in images) >= len(images) // 2
    assert any(image.in_doubt_present for image in images)
    assert any(image.in_doubt and not image.in_doubt_present for image in images)


@pytest.mark.covers("STO-18", "STO-26", "CMD-28", "TST-12")
def test_three_nodes_that_lost_their_power_at_once_keep_what_they_acknowledged(losses: list[Loss]) -> None:
    failures = [loss for loss in losses if loss.failure is not None]
    assert failures == []
    assert len(losses) == CHAINS * LOSSES_PER_CHAIN >= LEAST_LOSSES
    assert sum(loss.acknowledged > 0 and loss.unsynced_bytes > 0 for loss in losses) >= len(losses) // 2
    assert any(loss.flickers for loss in losses)


@pytest.mark.covers("STO-18")
@pytest.mark.parametrize("broken", ["pins", "restores"])
def test_without_one_half_of_a_checkpoint_images_fail(broken: str, tmp_path: Path, seed: int) -> None:
    """The trial sees what checkpoints are for: pages that stay, and a meta page that is put back."""
    planned = [
        Run(seed=own, images=6, lives=1, pins=broken != "pins", restores=broken != "restores")
        for own in seeds(seed, broken, 2)
    ]
    makers = [
        Maker(alone.__name__, [run], tmp_path / f"broken-{place}", seconds=SECONDS)
        for place, run in enumerate(planned)
    ]
    with ended(makers):
        lines = [line for maker in makers for line in maker.lines()]
    failures = [line for line in lines if msgspec.json.decode(line, type=Image).failure is not None]
    assert failures or any(maker.process.returncode for maker in makers)
