"""Binary objects: what a blob store may hold (spec blobs.md)."""

from __future__ import annotations

from typing import Annotated

from keyload.contract.base import Member, Record


class BlobPolicy(Record, frozen=True, kw_only=True):
    """Limits of one blob store in one partition."""

    max_blob_bytes: Annotated[
        int,
        Member(scalar="int64", min=1, max=1073741824, meaning="Greatest blob; not above maxReservedBytes."),
    ] = 67108864
    max_reserved_bytes: Annotated[
        int, Member(scalar="int64", min=1, max=1073741824, meaning="Stored plus reserved bytes.")
    ] = 268435456
    max_object_keys: Annotated[
        int,
        Member(
            scalar="int32",
            min=1,
            max=8192,
            meaning="Blob ids ever used; an id keeps its place after deletion.",
        ),
    ] = 4096
    max_versions: Annotated[
        int, Member(scalar="int32", min=1, max=16384, meaning="Versions not yet reclaimed.")
    ] = 8192
    max_uploads: Annotated[int, Member(scalar="int32", min=1, max=1024, meaning="Active uploads.")] = 128
    upload_ttl_seconds: Annotated[
        int, Member(scalar="int32", min=60, max=86400, meaning="Life of an upload.")
    ] = 3600
