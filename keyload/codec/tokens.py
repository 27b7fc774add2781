"""Opaque signed texts: cursors and tokens (SEC-33).

A token is base64url without padding of a 32-byte HMAC-SHA256 and the content. The MAC covers purpose and
content, so a token of one purpose never passes for another. What the content binds (incarnation, principal,
scope, end) is the caller's affair.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.limits import TOKEN_MAX_CHARS

_MAC_BYTES = 32


def sign(key: bytes, purpose: str, content: bytes) -> str:
    """The token of `content` for `purpose`; opaque to everybody without `key`."""
    return base64.urlsafe_b64encode(_mac(key, purpose, content) + content).rstrip(b"=").decode("ascii")


def verify(key: bytes, purpose: str, token: str, *, max_chars: int = TOKEN_MAX_CHARS) -> bytes:
    """The content of a token made by `sign` with the same key and purpose.

    TokenInvalidated for every other text, without saying why. The comparison takes constant time.
    """
    raw = _decoded(token) if len(token) <= max_chars else b""
    mac, content = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(key, purpose, content)):
        raise KeyLoadError(ErrorCode.TOKEN_INVALIDATED, "The token is not valid here.")
    return content


def _mac(key: bytes, purpose: str, content: bytes) -> bytes:
    name = purpose.encode("utf-8")
    return hmac.digest(key, len(name).to_bytes(4, "big") + name + content, hashlib.sha256)


def _decoded(token: str) -> bytes:
    """Bytes of an exact base64url text; empty for any other text."""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
    exact = base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii") == token
    return raw if exact else b""
