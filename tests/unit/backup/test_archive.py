"""Archives: from a backup and back, and everything that is refused (BKP-7..BKP-11, BKP-26)."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest

from keyload import backup
from keyload.backup import archive, staging
from keyload.backup import manifest as manifests
from keyload.backup.archive import ArchiveWriter
from keyload.backup.manifest import IDENTITY, MANIFEST, FileEntry
from keyload.backup.streams import Tally, new_file
from keyload.contract.errors import ErrorCode, KeyLoadError

from .support import SIZES, content, left_over, make_backup


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KeyLoadError) as failure:
        call()
    return failure.value.code


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    make_backup(tmp_path / "b")
    backup.pack(tmp_path / "b", tmp_path / "a")
    return tmp_path / "a"


@pytest.mark.covers("BKP-7", "BKP-9")
def test_an_archive_gives_the_backup_back(tmp_path: Path) -> None:
    manifest = make_backup(tmp_path / "b")
    made = backup.pack(tmp_path / "b", tmp_path / "a")
    listed = backup.inspect(tmp_path / "a")
    assert listed == made
    assert (listed.id, listed.position) == (manifest.id, manifest.shards[0].position)
    assert listed.bytes == (tmp_path / "a").stat().st_size
    assert [entry.name for entry in listed.entries] == [MANIFEST, *(file.name for file in manifest.files)]
    assert backup.unpack(tmp_path / "a", tmp_path / "c") == made
    assert content(tmp_path / "c") == content(tmp_path / "b")
    assert backup.check(tmp_path / "c").manifest == manifest
    assert left_over(tmp_path) == ["a", "b", "c"]
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o700


@pytest.mark.covers("BKP-7")
def test_no_record_is_longer_than_a_mebibyte(packed: Path) -> None:
    whole, place, lengths = packed.read_bytes(), 16, []
    while place < len(whole):
        length = int.from_bytes(whole[place + 8 : place + 12], "little")
        lengths.append(length)
        place += 16 + length
    assert place == len(whole)
    assert max(lengths) == 1 << 20


@pytest.mark.covers("BKP-8")
def test_a_copy_is_identical_and_stands_under_its_hash(packed: Path, tmp_path: Path) -> None:
    artifact, path = backup.copy(packed, tmp_path / "store")
    assert path == tmp_path / "store" / artifact.sha256
    assert path.read_bytes() == packed.read_bytes()
    assert backup.copy(packed, tmp_path / "store") == (artifact, path)
    path.write_bytes(path.read_bytes()[:-1])
    assert code_of(lambda: backup.copy(packed, tmp_path / "store")) == ErrorCode.CORRUPTION
    assert left_over(tmp_path / "store") == [artifact.sha256]


@pytest.mark.covers("BKP-10", "BKP-26")
def test_one_flipped_byte_of_an_archive_is_always_seen(packed: Path, tmp_path: Path) -> None:
    chance = Random(26)
    whole = packed.read_bytes()
    places = [*range(64), *(chance.randrange(len(whole)) for _ in range(100)), *range(-60, 0)]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << chance.randrange(8)
        packed.write_bytes(damaged)
        code = code_of(lambda: backup.inspect(packed))
        assert code in (ErrorCode.CORRUPTION, ErrorCode.FORMAT_UNSUPPORTED), place
    packed.write_bytes(damaged)
    assert code_of(lambda: backup.unpack(packed, tmp_path / "c")) == ErrorCode.CORRUPTION
    assert code_of(lambda: backup.copy(packed, tmp_path / "store")) == ErrorCode.CORRUPTION
    assert left_over(tmp_path) == ["a", "b"]


@pytest.mark.covers("BKP-10", "BKP-26")
def test_one_flipped_byte_of_a_backup_is_always_seen(tmp_path: Path) -> None:
    make_backup(tmp_path / "b", (100_000, 5_000))
    chance = Random(27)
    files = sorted((tmp_path / "b").iterdir())
    for _ in range(100):
        path = chance.choice(files)
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        code = code_of(lambda: backup.pack(tmp_path / "b", tmp_path / "a"))
        assert code in (ErrorCode.CORRUPTION, ErrorCode.FORMAT_UNSUPPORTED), path
        path.write_bytes(whole)
    assert left_over(tmp_path) == ["b"]


@pytest.mark.covers("BKP-10")
@pytest.mark.parametrize("length", [0, 5, 16, 40, 2000, -1, -33])
def test_an_archive_that_is_cut_off_or_goes_on_is_refused(packed: Path, length: int) -> None:
    whole = packed.read_bytes()
    packed.write_bytes(whole[:length])
    assert code_of(lambda: backup.inspect(packed)) in (ErrorCode.CORRUPTION, ErrorCode.FORMAT_UNSUPPORTED)
    packed.write_bytes(whole + b"\0")
    assert code_of(lambda: backup.inspect(packed)) == ErrorCode.CORRUPTION


@pytest.mark.covers("BKP-10")
def test_a_backup_with_missing_surplus_or_linked_files_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "b"
    make_backup(directory)
    (directory / "surplus").touch()
    assert code_of(lambda: backup.check(directory)) == ErrorCode.CORRUPTION
    (directory / "surplus").rename(tmp_path / "elsewhere")
    (directory / IDENTITY).rename(tmp_path / "identity")
    assert code_of(lambda: backup.check(directory)) == ErrorCode.CORRUPTION
    (directory / IDENTITY).symlink_to(tmp_path / "identity")
    assert code_of(lambda: backup.check(directory)) == ErrorCode.CORRUPTION
    (directory / IDENTITY).unlink()
    os.mkfifo(directory / IDENTITY)
    assert code_of(lambda: backup.check(directory)) == ErrorCode.CORRUPTION
    (directory / MANIFEST).unlink()
    assert code_of(lambda: backup.check(directory)) == ErrorCode.FORMAT_UNSUPPORTED
    assert code_of(lambda: backup.check(tmp_path / "absent")) == ErrorCode.NOT_FOUND


@pytest.mark.covers("BKP-10")
def test_a_manifest_of_another_format_is_told_from_a_damaged_one(tmp_path: Path) -> None:
    make_backup(tmp_path / "b")
    path = tmp_path / "b" / MANIFEST
    whole = path.read_bytes()
    for text, code in (
        (whole.replace(b'"format": 1', b'"format": 2'), ErrorCode.FORMAT_UNSUPPORTED),
        (b'{"other": "thing"}', ErrorCode.FORMAT_UNSUPPORTED),
        (b"[]", ErrorCode.CORRUPTION),
        (b"\xff", ErrorCode.CORRUPTION),
        (whole + b" ", ErrorCode.CORRUPTION),
        (whole + b" " * manifests.MANIFEST_BYTES, ErrorCode.CORRUPTION),
    ):
        path.write_bytes(text)
        assert code_of(lambda: backup.check(tmp_path / "b")) == code, text[:40]


def archive_of(path: Path, entries: list[tuple[str, bytes]]) -> None:
    """An archive that is whole in itself, whatever its entries are called."""
    written: list[FileEntry] = []
    for name, text in entries:
        tally = Tally()
        tally.add(text)
        written.append(tally.entry(name))
    with new_file(path) as sink:
        writer = ArchiveWriter(sink, written)
        for _, text in entries:
            writer.add(iter([text[at : at + archive.PIECE_BYTES] for at in range(0, len(text), 1 << 20)]))
        writer.finish()


@pytest.mark.covers("BKP-9", "BKP-10", "BKP-12")
@pytest.mark.parametrize("name", ["../out", "/tmp/out", "sub/out", "..", "shard-1.image", "shard-9.image"])
def test_names_that_the_manifest_does_not_hold_are_never_written(tmp_path: Path, name: str) -> None:
    make_backup(tmp_path / "b", (1000, 1000))
    entries = [(path, (tmp_path / "b" / path).read_bytes()) for path in (MANIFEST, IDENTITY)]
    archive_of(tmp_path / "a", [*entries, (name, b"x"), ("shard-0.image", b"y" * 1000)])
    assert code_of(lambda: backup.unpack(tmp_path / "a", tmp_path / "deep")) == ErrorCode.CORRUPTION
    assert left_over(tmp_path) == ["a", "b"]


@pytest.mark.covers("BKP-10")
def test_entries_missing_surplus_or_repeated_are_refused(tmp_path: Path) -> None:
    make_backup(tmp_path / "b", (1000, 1000))
    names = [MANIFEST, IDENTITY, "shard-0.image", "shard-1.image"]
    whole = [(name, (tmp_path / "b" / name).read_bytes()) for name in names]
    cases = [
        (whole[:-1], ErrorCode.CORRUPTION),
        ([*whole, ("more", b"x")], ErrorCode.CORRUPTION),
        ([*whole, whole[-1]], ErrorCode.CORRUPTION),
        ([whole[0], whole[1], whole[3], whole[2]], ErrorCode.CORRUPTION),
        ([whole[1], whole[0], *whole[2:]], ErrorCode.CORRUPTION),
        (whole[1:], ErrorCode.FORMAT_UNSUPPORTED),
        (whole[:1], ErrorCode.CORRUPTION),
    ]
    for number, (entries, code) in enumerate(cases):
        archive_of(tmp_path / f"a{number}", entries)
        assert code_of(lambda path=tmp_path / f"a{number}": backup.inspect(path)) == code, number
    archive_of(tmp_path / "good", whole)
    assert backup.inspect(tmp_path / "good").id == f"{2:032x}"


@pytest.mark.covers("BKP-10")
def test_a_manifest_or_identity_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    make_backup(tmp_path / "b", (1000, 1000))
    manifest = manifests.decode((tmp_path / "b" / MANIFEST).read_bytes())
    swapped = msgspec.structs.replace(manifest, shards=manifest.shards[::-1])
    with pytest.raises(KeyLoadError, match="damaged"):
        manifests.decode(manifests.encode(swapped))
    fewer = msgspec.structs.replace(manifest, shards=manifest.shards[:1])
    identity = (tmp_path / "b" / IDENTITY).read_bytes()
    with pytest.raises(KeyLoadError, match="does not belong"):
        manifests.decode_identity(identity, fewer)
    with pytest.raises(KeyLoadError, match="damaged"):
        manifests.decode_identity(b"{}", manifest)


@pytest.mark.covers("BKP-11")
def test_memory_does_not_grow_with_the_backup(tmp_path: Path) -> None:
    """Three times the backup takes the same memory, but for a record."""
    small, large = peak_of(tmp_path / "small", 2 << 20), peak_of(tmp_path / "large", 6 << 20)
    assert large - small < 1 << 20


def peak_of(directory: Path, image_bytes: int) -> int:
    """The most memory that packing, listing, unpacking and copying take at once, in bytes."""
    directory.mkdir()
    make_backup(directory / "b", (image_bytes, 1000))
    tracemalloc.start()
    try:
        backup.pack(directory / "b", directory / "a")
        backup.inspect(directory / "a")
        backup.unpack(directory / "a", directory / "c")
        backup.copy(directory / "a", directory / "store")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.covers("CLI-5", "BKP-12")
def test_targets_that_are_taken_are_refused(packed: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("kept")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    before = content(tmp_path)
    for name in ("file", "full", "link"):
        assert code_of(lambda name=name: backup.unpack(packed, tmp_path / name)) == ErrorCode.CONFLICT
        assert code_of(lambda name=name: backup.pack(tmp_path / "b", tmp_path / name)) == ErrorCode.CONFLICT
    assert code_of(lambda: backup.unpack(packed, tmp_path / "no" / "c")) == ErrorCode.NOT_FOUND
    assert content(tmp_path) == before
    backup.unpack(packed, tmp_path / "empty")
    assert content(tmp_path / "empty") == content(tmp_path / "b")


@pytest.mark.covers("BKP-13", "CLI-7")
def test_an_interruption_leaves_nothing_and_leftovers_are_taken_over(packed: Path, tmp_path: Path) -> None:
    def interrupted_directory() -> None:
        with staging.directory_for(tmp_path / "c") as stage:
            (stage / "half").write_text("x")
            raise KeyboardInterrupt

    def interrupted_file() -> None:
        with staging.file_for(tmp_path / "f") as sink:
            sink.write(b"half")
            raise KeyboardInterrupt

    for interrupted in (interrupted_directory, interrupted_file):
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    assert left_over(tmp_path) == ["a", "b"]
    (tmp_path / ".c.partial").mkdir()
    (tmp_path / ".c.partial" / "old").mkdir()
    (tmp_path / ".c.partial" / "half").write_text("of a killed process")
    backup.unpack(packed, tmp_path / "c")
    assert content(tmp_path / "c") == content(tmp_path / "b")
    assert left_over(tmp_path) == ["a", "b", "c"]


@pytest.mark.covers("CLI-5")
def test_two_commands_never_make_the_same_target(packed: Path, tmp_path: Path) -> None:
    with staging.directory_for(tmp_path / "c") as stage:
        (stage / "mine").write_text("x")
        assert code_of(lambda: backup.unpack(packed, tmp_path / "c")) == ErrorCode.CONFLICT
    assert left_over(tmp_path / "c") == ["mine"]


@pytest.mark.covers("BKP-10")
def test_sizes_of_the_fixture_reach_over_records() -> None:
    assert max(SIZES) > archive.PIECE_BYTES
    assert archive.PIECE_BYTES in SIZES
