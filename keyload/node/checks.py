"""What several settings must agree on (CLU-1..CLU-4, ADM-19)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from itertools import combinations
from uuid import UUID

import zmq

from keyload.link.addresses import Address, Origin, is_loopback, is_private, read_address, read_origin
from keyload.node.settings import NodeSettings

MIN_ADMIN_SECRET = 32
MAX_KEY_BYTES = 512
_IDENTIFIER_BYTES = 256
_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def check(settings: NodeSettings) -> str | None:
    """One message about the first fault, None when the settings make a node."""
    try:
        for fault in _faults(settings):
            return fault
    except _FaultError as fault:
        return str(fault)
    return None


class _FaultError(Exception):
    """A fault found deep inside a check."""


def _faults(settings: NodeSettings) -> Iterator[str]:
    yield from _identity(settings)
    yield from _secrets(settings)
    yield from _endpoint("publicEndpoint", settings.public_endpoint, settings)
    yield from _listening(settings)
    yield from _timings(settings)
    yield from _admission(settings)
    yield from _peers(settings)


def _identity(settings: NodeSettings) -> Iterator[str]:
    if not is_identifier(settings.node_id):
        yield "Setting nodeId: expected 1..256 bytes of text without control characters."
    if "\0" in settings.data_directory:
        yield "Setting dataDirectory: expected a path without NUL."
    if not _GUID.fullmatch(settings.incarnation) or UUID(settings.incarnation).int == 0:
        yield "Setting incarnation: expected a GUID that is not all zero."


def is_identifier(text: str) -> bool:
    """1..256 UTF-8 bytes, not blank, no control character (CMD-4)."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return False
    return 0 < size <= _IDENTIFIER_BYTES and bool(text.strip()) and text.isprintable()


def _secrets(settings: NodeSettings) -> Iterator[str]:
    try:
        valid = len(base64.b64decode(settings.signing_key, validate=True)) == 32
    except (binascii.Error, ValueError):
        valid = False
    if not valid:
        yield "Setting signingKey: expected base64 of exactly 32 bytes."
    if settings.admin_key is not None and not is_admin_key(settings.admin_key):
        yield (
            "Setting adminKey: expected root. and a secret of at least 32 visible ASCII characters, "
            "512 bytes at most."
        )
    token = settings.scrape_token
    if token is not None and not (MIN_ADMIN_SECRET <= len(token) <= MAX_KEY_BYTES and _is_visible(token)):
        yield "Setting scrapeToken: expected 32 to 512 visible ASCII characters."


def is_admin_key(key: str) -> bool:
    """`root.` + at least 32 characters that can travel in a header (SEC-1, SEC-6)."""
    identifier, dot, secret = key.partition(".")
    return (
        identifier == "root"
        and dot == "."
        and len(secret) >= MIN_ADMIN_SECRET
        and _is_visible(key)
        and len(key) <= MAX_KEY_BYTES
    )


def _is_visible(text: str) -> bool:
    return all("!" <= character <= "~" for character in text)


def _endpoint(name: str, text: str, settings: NodeSettings) -> Iterator[str]:
    origin = _origin(name, text)
    if origin.scheme == "https":
        return
    host = origin.address.host
    allowed = settings.allow_loopback_http and is_loopback(host)
    allowed = allowed or (settings.allow_private_network_http and is_private(host))
    if not allowed:
        yield (
            f"Setting {name}: plain HTTP needs allowLoopbackHttp for a loopback address or "
            "allowPrivateNetworkHttp for a private one."
        )


def _listening(settings: NodeSettings) -> Iterator[str]:
    if settings.listen is not None:
        _address("listen", settings.listen)
    elif _origin("publicEndpoint", settings.public_endpoint).scheme == "https":
        yield "Setting listen: is needed with an HTTPS publicEndpoint, which a proxy in front serves."


def _timings(settings: NodeSettings) -> Iterator[str]:
    timings = settings.timings
    if timings.tick_ms > timings.heartbeat_ms:
        yield "Setting timings.tickMs: must not be above timings.heartbeatMs."
    if timings.heartbeat_ms * 5 > timings.election_ms_min:
        yield "Setting timings.electionMsMin: must be at least five times timings.heartbeatMs."
    if timings.election_ms_min >= timings.election_ms_max:
        yield "Setting timings.electionMsMax: must be above timings.electionMsMin."


def _admission(settings: NodeSettings) -> Iterator[str]:
    if settings.http.max_control_body_bytes > settings.http.max_body_bytes:
        yield "Setting http.maxControlBodyBytes: must not be above http.maxBodyBytes."
    http, command = settings.admission.http, settings.admission.command
    if http.reserved_control_requests >= http.max_requests:
        yield "Setting admission.http.reservedControlRequests: must be below admission.http.maxRequests."
    if http.reserved_control_bytes >= http.max_reserved_bytes:
        yield "Setting admission.http.reservedControlBytes: must be below admission.http.maxReservedBytes."
    if command.reserved_control_commands >= command.max_commands:
        yield (
            "Setting admission.command.reservedControlCommands: must be below admission.command.maxCommands."
        )
    if command.reserved_control_bytes >= command.max_retained_bytes:
        yield (
            "Setting admission.command.reservedControlBytes: must be below "
            "admission.command.maxRetainedBytes."
        )


def _peers(settings: NodeSettings) -> Iterator[str]:
    peers = settings.peers
    if not peers:
        if settings.peer_secret_key is not None:
            yield "Setting peerSecretKey: is for a cluster, but there are no peers."
        return
    if len(peers) < 3 or len(peers) % 2 == 0:
        yield "Setting peers: expected an odd number of voters, at least 3."
    for place, peer in enumerate(peers):
        if not is_identifier(peer.id):
            yield f"Setting peers[{place}].id: expected 1..256 bytes of text without control characters."
        yield from _endpoint(f"peers[{place}].publicEndpoint", peer.public_endpoint, settings)
        if not _is_curve_key(peer.public_key):
            yield f"Setting peers[{place}].publicKey: expected a CURVE key of 40 Z85 characters."
        address = _address(f"peers[{place}].peerAddress", peer.peer_address)
        if address.port + settings.workers - 1 > 65_535:
            yield f"Setting peers[{place}].peerAddress: its port leaves no room for every worker."
    yield from _distinct(settings)
    yield from _own_entry(settings)


def _distinct(settings: NodeSettings) -> Iterator[str]:
    members = ((peer.id, peer.public_endpoint, peer.peer_address, peer.public_key) for peer in settings.peers)
    names = ("id", "publicEndpoint", "peerAddress", "publicKey")
    for name, values in zip(names, zip(*members, strict=True), strict=True):
        if len(set(values)) != len(values):
            yield f"Setting peers: {name} must differ between all voters."
    if len(set(settings.numbers)) != len(settings.numbers):
        yield "Setting peers: number must differ between all voters; without one it is the place in the list."
    addresses = [_address("peers.peerAddress", peer.peer_address) for peer in settings.peers]
    for one, other in combinations(addresses, 2):
        if one.host == other.host and abs(one.port - other.port) < settings.workers:
            yield "Setting peers: peerAddress ports of one host must be as far apart as there are workers."


def _own_entry(settings: NodeSettings) -> Iterator[str]:
    own = next((peer for peer in settings.peers if peer.id == settings.node_id), None)
    if own is None:
        yield "Setting peers: the node itself (nodeId) is not among the voters."
        return
    if own.public_endpoint != settings.public_endpoint:
        yield "Setting publicEndpoint: differs from the node's own entry in peers."
    secret = settings.peer_secret_key
    if secret is None:
        yield "Setting peerSecretKey: is needed in a cluster."
    elif not _is_curve_key(secret):
        yield "Setting peerSecretKey: expected a CURVE key of 40 Z85 characters."
    elif zmq.curve_public(secret.encode()) != own.public_key.encode():
        yield "Setting peerSecretKey: does not belong to the publicKey of the node's own entry in peers."


def _is_curve_key(text: str) -> bool:
    try:
        zmq.curve_public(text.encode("ascii"))
    except (ValueError, zmq.ZMQError):
        return False
    return len(text) == 40


def _origin(name: str, text: str) -> Origin:
    try:
        return read_origin(text)
    except ValueError as error:
        raise _FaultError(f"Setting {name}: {error}.") from None


def _address(name: str, text: str) -> Address:
    try:
        return read_address(text)
    except ValueError as error:
        raise _FaultError(f"Setting {name}: {error}.") from None
