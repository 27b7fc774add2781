"""What a snapshot says of itself (CLU-15): which state it is, as of which entry, and how long and what its
image is.

Files of a shard's `snapshot` directory: `image` and `manifest.json`, the last snapshot taken here;
`incoming`, the image of one from another node, whose manifest is called `incoming.json` while it arrives,
`received.json` once it was checked, and `installing` while it replaces the state.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

import msgspec

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.storage import files
from keyload.storage.layout import Position

SNAPSHOT_DIRECTORY = "snapshot"
IMAGE = "image"
MANIFEST = "manifest.json"
INCOMING = "incoming"
INCOMING_MANIFEST = "incoming.json"
RECEIVED_MANIFEST = "received.json"
INSTALLING_MANIFEST = "installing"
MAXIMUM_MANIFEST_BYTES = 256 << 10
FORMAT = 1
CHUNK_BYTES = 256 << 10
"""A snapshot travels in pieces of this length (CLU-16)."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class SnapshotManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One snapshot of one shard. `incarnation` is the guid of the store, `index` and `term` the last entry it
    holds, `position` the shard's commit position there, `membership` the replicas there, `sha256` that of the
    image in hex digits. `id` is made of all the rest, so a manifest with a wrong byte is none."""

    format: int
    incarnation: Annotated[str, msgspec.Meta(pattern="^[0-9a-f-]{36}$")]
    shard: Annotated[int, msgspec.Meta(ge=0, le=65535)]
    index: _Count
    term: _Count
    position: _Count
    membership: bytes | None
    image_bytes: _Count
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")] = ""

    @property
    def applied(self) -> Position:
        """The last entry the image holds."""
        return Position(self.index, self.term)

    def named(self) -> SnapshotManifest:
        """The same with its id."""
        rest = msgspec.msgpack.encode(msgspec.structs.replace(self, id=""))
        return msgspec.structs.replace(self, id=hashlib.sha256(rest).hexdigest()[:32])

    def packed(self) -> bytes:
        """JSON, as it is stored and sent."""
        return msgspec.json.encode(self)


class _Versioned(msgspec.Struct):
    """What every version of the manifest has."""

    format: int


def unpack_manifest(content: bytes) -> SnapshotManifest:
    """Undo `SnapshotManifest.packed`. FormatUnsupported for an unknown version, Corruption for damage."""
    try:
        if len(content) > MAXIMUM_MANIFEST_BYTES:
            raise damaged("The manifest of a snapshot is too long.")
        if msgspec.json.decode(content, type=_Versioned).format != FORMAT:
            raise KeyLoadError(ErrorCode.FORMAT_UNSUPPORTED, "A snapshot has an unknown format.")
        manifest = msgspec.json.decode(content, type=SnapshotManifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged("The manifest of a snapshot is damaged.") from error
    if manifest.named() != manifest or manifest.packed() != content:
        raise damaged("The manifest of a snapshot does not match its id.")
    return manifest


def read_manifest(path: Path) -> SnapshotManifest | None:
    """The manifest in a file, None when there is none; errors as `unpack_manifest`."""
    content = files.read_small(path, MAXIMUM_MANIFEST_BYTES)
    return None if content is None else unpack_manifest(content)


def damaged(detail: str) -> KeyLoadError:
    """A snapshot is not what it should be."""
    return KeyLoadError(ErrorCode.CORRUPTION, detail)
