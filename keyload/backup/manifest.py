"""What a backup consists of: its manifest, and the names its files may have (spec backup.md, data kept).

The manifest is written last, so a directory without it is no backup (BKP-4). It covers every other file by
length and SHA-256, and itself by a checksum.
"""

from __future__ import annotations

import hashlib
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage.directory import IDENTITY_BYTES, Identity

FORMAT = 1
MANIFEST = "manifest.json"
IDENTITY = "identity.json"
MANIFEST_BYTES = 256 << 10
"""Largest manifest."""

SYSTEM_SHARD = 0

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Id = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]


class _Stored(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of what stands in a manifest."""


class FileEntry(_Stored, frozen=True, kw_only=True):
    """One file of a backup, or one entry of an archive."""

    name: Annotated[str, Meta(min_length=1, max_length=64)]
    bytes: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    sha256: Hash


class ShardImage(_Stored, frozen=True, kw_only=True):
    """The image of one shard: the last entry of its log that is applied in it, the commit position of the
    shard, and the file.
    """

    shard: Annotated[int, Meta(ge=0, le=65_535)]
    index: Count
    term: Count
    position: Count
    file: FileEntry


class Manifest(_Stored, frozen=True, kw_only=True):
    """Everything that belongs to one backup; `checksum` is over the manifest with an empty checksum."""

    format: int = FORMAT
    id: Id
    incarnation: Annotated[str, Meta(pattern="^[0-9a-f-]{36}$")]
    identity: FileEntry
    shards: Annotated[tuple[ShardImage, ...], Meta(min_length=1)]
    checksum: str = ""

    @property
    def position(self) -> int:
        """Commit position of the system shard, by which people tell backups apart."""
        return self.shards[SYSTEM_SHARD].position

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """Every file but the manifest itself."""
        return (self.identity, *(image.file for image in self.shards))


class _Format(msgspec.Struct):
    """The only member that every version of a manifest has."""

    format: object = None


def image_name(shard: int) -> str:
    """Name of the file that holds the image of a shard."""
    return f"shard-{shard}.image"


def encode(manifest: Manifest) -> bytes:
    """The file `manifest.json`. ResourceExhausted when it would be larger than one may be."""
    bare = replace(manifest, checksum="")
    content = _text(replace(bare, checksum=hashlib.sha256(_text(bare)).hexdigest()))
    if len(content) > MANIFEST_BYTES:
        detail = f"The manifest of the backup would be larger than {MANIFEST_BYTES} bytes."
        raise KeyLoadError(ErrorCode.RESOURCE_EXHAUSTED, detail)
    return content


def decode(content: bytes | None) -> Manifest:
    """Undo `encode`, checking every byte.

    FormatUnsupported when there is no manifest or one of another format; Corruption for anything else.
    """
    if content is None:
        raise KeyLoadError(ErrorCode.FORMAT_UNSUPPORTED, "There is no manifest, so this is no backup.")
    try:
        if len(content) <= MANIFEST_BYTES:
            if msgspec.json.decode(content, type=_Format).format != FORMAT:
                detail = "The manifest of the backup has an unknown format."
                raise KeyLoadError(ErrorCode.FORMAT_UNSUPPORTED, detail)
            manifest = msgspec.json.decode(content, type=Manifest)
            if encode(manifest) == content and _is_sound(manifest):
                return manifest
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    raise damaged("The manifest of the backup is damaged.")


def decode_identity(content: bytes, manifest: Manifest) -> Identity:
    """The identity of the node that was backed up; Corruption when it does not belong to the manifest."""
    try:
        identity = msgspec.json.decode(content, type=Identity)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise damaged("The identity in the backup is damaged.") from None
    if identity.incarnation != manifest.incarnation or identity.guard.shards + 1 != len(manifest.shards):
        raise damaged("The identity in the backup does not belong to its manifest.")
    return identity


def damaged(detail: str) -> KeyLoadError:
    """The failure of a backup or an archive that is not as it was made."""
    return KeyLoadError(ErrorCode.CORRUPTION, detail)


def _is_sound(manifest: Manifest) -> bool:
    """Whether the shards are 0, 1, 2 ... and every file has the one name and size it may have."""
    return (
        manifest.identity.name == IDENTITY
        and manifest.identity.bytes <= IDENTITY_BYTES
        and all(
            image.shard == number and image.file.name == image_name(number)
            for number, image in enumerate(manifest.shards)
        )
    )


def _text(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest))
