"""The local profile: what the nodes of one machine share and keep to themselves, made once (CLI-16).

`local-profile.json` holds the incarnation, the signing key, the bootstrap key, and each node's CURVE key pair
and ports. It is private (0600) and belongs to the data beside it: without it the data cannot be opened.
"""

from __future__ import annotations

import base64
import os
import secrets
import stat
import uuid
from pathlib import Path
from typing import Annotated

import msgspec
import zmq
from msgspec import Meta

from keyload.node.checks import is_admin_key

FILE_NAME = "local-profile.json"
MAX_BYTES = 65_536


class ProfileError(Exception):
    """The profile is damaged, open to others, or does not fit the data; the text is a message for people."""


class NodeProfile(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One node: its name, its CURVE key pair in Z85, its ports on 127.0.0.1."""

    id: Annotated[str, Meta(min_length=1, max_length=256)]
    public_key: Annotated[str, Meta(min_length=40, max_length=40)]
    secret_key: Annotated[str, Meta(min_length=40, max_length=40)]
    http_port: Annotated[int, Meta(ge=1, le=65_535)]
    peer_port: Annotated[int, Meta(ge=1, le=65_535)]

    @property
    def url(self) -> str:
        """The node's public origin."""
        return f"http://127.0.0.1:{self.http_port}"


class LocalProfile(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Everything the settings of all nodes are derived from."""

    version: Annotated[int, Meta(ge=1, le=1)]
    incarnation: str
    signing_key: str
    admin_key: str
    nodes: Annotated[list[NodeProfile], Meta(min_length=1, max_length=99)]


def create(ports: list[tuple[int, int]], admin_key: str | None = None) -> LocalProfile:
    """A new profile for nodes with these (HTTP, peer) ports and fresh keys."""
    nodes: list[NodeProfile] = []
    for number, (http_port, peer_port) in enumerate(ports, 1):
        public, secret = zmq.curve_keypair()
        nodes.append(NodeProfile(f"node{number}", public.decode(), secret.decode(), http_port, peer_port))
    return LocalProfile(
        version=1,
        incarnation=str(uuid.uuid4()),
        signing_key=base64.b64encode(secrets.token_bytes(32)).decode(),
        admin_key=admin_key or f"root.{secrets.token_urlsafe(32)}",
        nodes=nodes,
    )


def load_or_create(
    directory: Path, ports: list[tuple[int, int]], admin_key: str | None = None
) -> LocalProfile:
    """The profile kept in `directory`, made there when it holds neither profile nor node data.

    Raises ProfileError for a profile that is invalid, for node data without one, and when the ports differ
    from those the existing data was made with.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / FILE_NAME
    data = sorted(child.name for child in directory.glob("node*") if child.is_dir())
    if not os.path.lexists(path):
        if data:
            raise ProfileError(
                f"{directory} holds data of {', '.join(data)} but no {FILE_NAME}; "
                "put the profile back or remove the data too."
            )
        profile = create(ports, admin_key)
        _write(path, profile)
        return profile
    profile = load(path)
    if [(node.http_port, node.peer_port) for node in profile.nodes] != ports:
        if data:
            raise ProfileError(
                f"{path}: the number or the addresses of the nodes differ from those of the existing data."
            )
        profile = _moved(profile, ports)
        _write(path, profile)
    return profile


def load(path: Path) -> LocalProfile:
    """Read and check a profile; raises ProfileError."""
    content = _read_private(path)
    try:
        profile = msgspec.json.decode(content, type=LocalProfile)
        if _is_sound(profile):
            return profile
    except (msgspec.DecodeError, ValueError, zmq.ZMQError):
        pass
    raise ProfileError(f"{path}: this is not a valid local profile.")


def _read_private(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}.") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode) or mode & 0o077:
            raise ProfileError(f"{path}: must be a regular file that only its owner can read.")
        content = os.read(descriptor, MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_BYTES:
        raise ProfileError(f"{path}: larger than {MAX_BYTES} bytes.")
    return content


def _is_sound(profile: LocalProfile) -> bool:
    pairs = all(
        zmq.curve_public(node.secret_key.encode("ascii")) == node.public_key.encode("ascii")
        for node in profile.nodes
    )
    names = [node.id for node in profile.nodes]
    signing = base64.b64decode(profile.signing_key, validate=True)
    known = uuid.UUID(profile.incarnation).int != 0
    expected = [f"node{number}" for number in range(1, len(names) + 1)]
    return pairs and known and names == expected and len(signing) == 32 and is_admin_key(profile.admin_key)


def _moved(profile: LocalProfile, ports: list[tuple[int, int]]) -> LocalProfile:
    """The same store at other addresses, allowed while there is no data."""
    fresh = create(ports, profile.admin_key)
    return msgspec.structs.replace(fresh, incarnation=profile.incarnation, signing_key=profile.signing_key)


def _write(path: Path, profile: LocalProfile) -> None:
    """Put the profile in place durably and whole, private from its first byte."""
    draft = path.with_suffix(".new")
    content = msgspec.json.format(msgspec.json.encode(profile)) + b"\n"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
