"""The key that a call carries and whom it stands for: one decision for the front and for the workers, which
make it again in the cut that they execute in (SEC-1..SEC-4, SEC-41).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

import msgspec

from keyload.codec.instants import parse_instant
from keyload.contract.limits import whole
from keyload.contract.security import ApiKeyRecord

MAX_KEY_BYTES = whole("apiKey.maxBytes")
_SCHEME = b"bearer "
_NO_VERIFIER = "0" * 64


class Credential(msgspec.Struct, frozen=True, array_like=True):
    """A key as the server handles it: the id, empty for no key at all, and the lower-case hex SHA-256 of the
    whole key text. The secret itself is never handed on."""

    key_id: str
    digest: str


def credential_of(headers: Sequence[bytes]) -> Credential:
    """What a request says by its `Authorization` headers: the credential of no key unless there is exactly
    one and it names a key (SEC-1)."""
    header = headers[0] if len(headers) == 1 else b""
    text = header[7:] if header[:7].lower() == _SCHEME else b""
    key_id, _, secret = text.partition(b".")
    if not secret or len(text) > MAX_KEY_BYTES:
        key_id = b""
    digest = hashlib.sha256(text[:MAX_KEY_BYTES]).hexdigest()
    return Credential(key_id.decode("utf-8", "replace"), digest)


def principal_of(credential: Credential, key: ApiKeyRecord | None, instant: int) -> str | None:
    """Id of the principal that a credential stands for at an instant in ticks, None when for nobody.

    `key` is the stored record of its id, if any; an unknown id is compared as long as a wrong secret.
    """
    verifier = _NO_VERIFIER if key is None else key.verifier
    matches = hmac.compare_digest(credential.digest, verifier)
    if key is None or not matches or key.revoked or expired(key.expires_at, instant):
        return None
    return key.principal_id


def expired(end: str | None, instant: int) -> bool:
    """Whether a key or principal that ends at `end`, if ever, has ended at an instant in ticks (SEC-4)."""
    return end is not None and parse_instant(end) <= instant
