"""The images of a power loss are those a disk could hold, and all of them come up (STO-18)."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from harness.power.images import PAGE, SECTOR, Disk, torn
from harness.power.record import Recorder

IMAGES = 60

pytestmark = pytest.mark.covers("STO-18")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory whose syncs and renames are noted from now on; `old` and its sibling were there before."""
    place = tmp_path / "root"
    (place / "sub").mkdir(parents=True)
    (place / "old").write_bytes(b"old" * 3000)
    for name in ("fsync", "fdatasync", "rename", "replace", "unlink"):
        monkeypatch.setattr(os, name, getattr(os, name))  # put back afterwards
    Recorder(place, tmp_path / "side", None).install()
    return place


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def images(root: Path) -> list[dict[str, bytes]]:
    """The files of many images."""
    disk = Disk(root, root.parent / "side")
    found: list[dict[str, bytes]] = []
    for seed in range(IMAGES):
        target = root.parent / f"image-{seed}"
        disk.image(target, Random(seed))
        found.append(
            {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}
        )
    return found


def test_what_was_synced_is_in_every_image_as_it_was_then(root: Path) -> None:
    (root / "new").write_bytes(b"1")
    sync(root / "new")
    sync(root)
    assert images(root) == [{"old": b"old" * 3000, "new": b"1"}] * IMAGES


def test_what_was_written_later_is_old_new_or_torn(root: Path) -> None:
    (root / "old").write_bytes(b"new" * 3000)
    found = {image["old"] for image in images(root)}
    assert {b"old" * 3000, b"new" * 3000} < found
    for content in found:
        for start in range(0, 9000, SECTOR):
            assert content[start : start + SECTOR] in (
                (b"old" * 3000)[start : start + SECTOR],
                (b"new" * 3000)[start : start + SECTOR],
            )


def test_a_sync_that_did_not_end_makes_nothing_durable(root: Path) -> None:
    (root / "old").write_bytes(b"new" * 3000)
    recorder = Recorder(root, root.parent / "side", None)
    descriptor = os.open(root / "old", os.O_RDONLY)
    recorder.begin_file(descriptor)
    os.close(descriptor)
    recorder.begin_directory(str(root))
    (root / "fresh").write_bytes(b"")
    found = images(root)
    assert {image["old"] for image in found} > {b"old" * 3000}
    assert {"fresh" in image for image in found} == {True, False}


def test_a_rename_is_there_or_not_until_its_directory_is_synced(root: Path) -> None:
    (root / "draft").write_bytes(b"draft")
    sync(root / "draft")
    (root / "draft").replace(root / "old")
    assert {image["old"] for image in images(root)} == {b"old" * 3000, b"draft"}


def test_after_the_sync_of_its_directory_a_rename_is_there(root: Path) -> None:
    (root / "draft").write_bytes(b"draft")
    sync(root / "draft")
    (root / "draft").replace(root / "old")
    sync(root)
    assert images(root) == [{"old": b"draft"}] * IMAGES


def test_names_change_in_their_order(root: Path) -> None:
    for number in range(4):
        (root / f"segment-{number}").write_bytes(b"%d" % number)
        sync(root / f"segment-{number}")
    sync(root)
    for number in range(4):
        (root / f"segment-{number}").unlink()
    left = {tuple(sorted(name for name in image if name != "old")) for image in images(root)}
    every = tuple(f"segment-{number}" for number in range(4))
    assert left == {every[first:] for first in range(5)}


def test_a_file_moved_to_another_directory_is_in_one_of_them(root: Path) -> None:
    (root / "old").rename(root / "sub" / "moved")
    places = {tuple(image) for image in images(root)}
    assert places == {("old",), ("sub/moved",)}


def test_the_length_of_a_file_lies_between_the_old_and_the_new_one() -> None:
    lengths = {len(torn(b"a" * PAGE, b"b" * 5 * PAGE, Random(seed))) for seed in range(50)}
    assert min(lengths) == PAGE
    assert max(lengths) == 5 * PAGE
    assert len(lengths) > 5
    assert torn(b"", b"", Random(1)) == b""
