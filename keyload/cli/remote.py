"""Commands that ask a running node: its status, new keys, revoked keys (CLI-3, CLI-4)."""

from __future__ import annotations

import hashlib
import http.client
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import rich

from keyload.cli.commands import UsageError, Words
from keyload.client import Client
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.security import ApiKeyRecord
from keyload.link.addresses import Origin, read_origin
from keyload.node.profile import ProfileError, load

T = TypeVar("T")
DEFAULT_URL = "http://127.0.0.1:5101"
CALL_SECONDS = 10.0
ADMINISTRATOR = "root"
_PROBE_SECONDS = 5.0


def status(words: Words) -> int:
    """Print NodeStatus of the node at a url."""
    url = words.operands[0]
    with _client(url, words.operands[1] if len(words.operands) > 1 else None) as client:
        show(explained(url, client.admin_status))
    return 0


def create_key(words: Words) -> int:
    """Store a fresh key for a principal and print it, this once."""
    identifier = f"k{secrets.token_hex(8)}"
    text = f"{identifier}.{secrets.token_urlsafe(32)}"
    record = ApiKeyRecord(id=identifier, principal_id=words.operands[0], verifier=_verifier(text))
    _configure(words, record)
    show({"id": identifier, "key": text})
    return 0


def revoke_key(words: Words) -> int:
    """Store a revoked record under a key id; the former key, if there was one, is refused from then on."""
    nobody = _verifier(secrets.token_urlsafe(32))
    record = ApiKeyRecord(id=words.operands[0], principal_id=ADMINISTRATOR, verifier=nobody, revoked=True)
    _configure(words, record)
    show({"id": record.id, "revoked": True})
    return 0


def _configure(words: Words, record: ApiKeyRecord) -> None:
    url = words.options.get("--url", DEFAULT_URL)
    with _client(url, words.options.get("--profile")) as client:
        explained(url, lambda: client.credentials_configure(record, timeout=CALL_SECONDS))


def _verifier(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _client(url: str, profile: str | None) -> Client:
    try:
        origin = read_origin(url.rstrip("/"))
    except ValueError as error:
        raise UsageError(f"{url}: {error}.") from None
    try:
        client = Client(url, caller_key(profile), timeout=CALL_SECONDS, retries=0)
    except ValueError as error:
        raise KeyLoadError(ErrorCode.UNAUTHENTICATED, f"KEYLOAD_API_KEY or the profile: {error}.") from None
    if not _is_reachable(origin):
        client.close()
        raise KeyLoadError(ErrorCode.OWNERSHIP_LOST, f"The node at {url} cannot be reached.")
    return client


def caller_key(profile: str | None) -> str:
    """The caller's key, from the environment or the profile; never from an argument (CLI-3)."""
    key = os.environ.get("KEYLOAD_API_KEY")
    if key is not None:
        return key
    if profile is None:
        detail = "There is no key: set KEYLOAD_API_KEY or name a profile file."
        raise KeyLoadError(ErrorCode.UNAUTHENTICATED, detail)
    try:
        return load(Path(profile)).admin_key
    except ProfileError as error:
        raise KeyLoadError(ErrorCode.VALIDATION, str(error)) from error


def _is_reachable(origin: Origin) -> bool:
    kind = http.client.HTTPSConnection if origin.scheme == "https" else http.client.HTTPConnection
    connection = kind(origin.address.host, origin.address.port, timeout=_PROBE_SECONDS)
    try:
        connection.request("GET", "/health/live")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def explained(url: str, call: Callable[[], T]) -> T:
    """Run a call; tell a wrong key and a node without majority apart (CLI-4)."""
    try:
        return call()
    except KeyLoadError as error:
        if error.code is ErrorCode.UNAUTHENTICATED:
            detail = f"The node at {url} does not know this key, or it is revoked or expired."
            raise KeyLoadError(error.code, detail) from error
        if error.code is ErrorCode.OWNERSHIP_LOST:
            detail = f"The node at {url} is up but reaches no majority of the cluster."
            raise KeyLoadError(error.code, detail) from error
        raise


def show(result: object) -> None:
    """Print a result as JSON, in colours for people."""
    text = msgspec.json.encode(result)
    if sys.stdout.isatty():
        rich.print_json(text.decode())
    else:
        sys.stdout.write(text.decode() + "\n")
