"""Archives: from a backup and back, listed, copied (BKP-7..BKP-10)."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from keyload.backup import manifest as manifests
from keyload.backup.archive import ArchiveReader, ArchiveWriter, check_entries
from keyload.backup.checking import check
from keyload.backup.manifest import IDENTITY, MANIFEST, MANIFEST_BYTES, FileEntry, Manifest, damaged
from keyload.backup.staging import directory_for, file_for
from keyload.backup.streams import Tally, checked, drain, open_source, pieces, write_file
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import files
from keyload.storage.directory import IDENTITY_BYTES


class Artifact(msgspec.Struct, frozen=True, rename="camel"):
    """What an archive is: id and system position of its backup, length and hash of the file, its entries."""

    id: str
    position: int
    bytes: int
    sha256: str
    entries: tuple[FileEntry, ...]


def pack(source: Path, target: Path) -> Artifact:
    """Write the backup `source` into the new file `target`; both checked on the way (BKP-7)."""
    backup = check(source)
    content = manifests.encode(backup.manifest)
    tally = Tally()
    tally.add(content)
    entries = (tally.entry(MANIFEST), *backup.manifest.files)
    with file_for(target) as sink:
        writer = ArchiveWriter(sink, entries)
        for entry in entries:
            writer.add(checked(entry, pieces(source / entry.name)))
        writer.finish()
    return Artifact(
        backup.manifest.id, backup.manifest.position, sink.tally.bytes, sink.tally.sha256, entries
    )


def inspect(source: Path) -> Artifact:
    """Check all of an archive and tell what it is."""
    with _opened(source) as reader:
        return _walk(reader, None)


def unpack(source: Path, target: Path) -> Artifact:
    """Make the directory `target` out of an archive, once everything in it is checked (BKP-9)."""
    with directory_for(target) as stage, _opened(source) as reader:
        return _walk(reader, stage)


def copy(source: Path, store: Path) -> tuple[Artifact, Path]:
    """Copy an archive into the directory `store` under its SHA-256, and read the copy again (BKP-8).

    A copy that is there already is checked and kept.
    """
    artifact = inspect(source)
    if not store.is_dir():
        files.private_directory(store)
    target = store / artifact.sha256
    if not os.path.lexists(target):
        with file_for(target) as sink:
            for piece in pieces(source):
                sink.write(piece)
            if sink.tally.sha256 != artifact.sha256:
                raise damaged("The archive changed while it was copied.")
    tally = Tally()
    drain(pieces(target), tally.add)
    if (tally.bytes, tally.sha256) != (artifact.bytes, artifact.sha256):
        raise damaged("The copy in the store differs from the archive.")
    return artifact, target


@contextmanager
def _opened(source: Path) -> Generator[ArchiveReader, None, None]:
    try:
        descriptor = open_source(source)
    except FileNotFoundError as error:
        raise KeyLoadError(ErrorCode.NOT_FOUND, f"{source}: there is no such file.") from error
    try:
        yield ArchiveReader(descriptor)
    finally:
        os.close(descriptor)


def _walk(reader: ArchiveReader, stage: Path | None) -> Artifact:
    """Read all entries, into `stage` when there is one; no name is used before the manifest allows it."""
    contents = reader.contents()
    entry, content = next(contents)
    if entry.bytes > MANIFEST_BYTES:
        raise damaged("The manifest in the archive is longer than one may be.")
    text = b"".join(content)
    manifest = manifests.decode(text)
    check_entries(reader.entries, manifest)
    if stage is not None:
        write_file(stage / MANIFEST, iter([text]))
    for entry, content in contents:
        if entry.name == IDENTITY:
            content = iter([_identity(content, manifest)])
        if stage is None:
            drain(content)
        else:
            write_file(stage / entry.name, content)
    return Artifact(manifest.id, manifest.position, reader.bytes, reader.sha256, reader.entries)


def _identity(content: Iterator[bytes], manifest: Manifest) -> bytes:
    """The identity in an archive, which the manifest bounds to 4 KiB."""
    text = b"".join(content)
    if len(text) > IDENTITY_BYTES:
        raise damaged("The identity in the archive is longer than one may be.")
    manifests.decode_identity(text, manifest)
    return text
