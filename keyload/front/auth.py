"""Who calls: the key of a request, checked against a catalog confirmed after the request arrived (SEC-1..4,
SEC-41).

Every failure is the same `Unauthenticated`, so that nobody learns which key ids exist.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Iterable

from keyload.codec.instants import parse_instant
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.limits import whole
from keyload.front.calls import Caller
from keyload.front.workers import WorkerHub

MAX_KEY_BYTES = whole("apiKey.maxBytes")
_SCHEME = b"bearer "
_NO_VERIFIER = "0" * 64

Headers = Iterable[tuple[bytes, bytes]]


def wall_ticks() -> int:
    """The wall clock in ticks of 100 nanoseconds."""
    return time.time_ns() // 100


class Authenticator:
    """Turns the headers of a request into its caller; `clock` gives the node's time in ticks (SEC-4)."""

    def __init__(self, hub: WorkerHub, clock: Callable[[], int] = wall_ticks) -> None:
        self._hub = hub
        self._clock = clock

    async def verify(self, headers: Headers) -> Caller:
        """The caller of a request that has just arrived. Raises Unauthenticated, or OwnershipLost when the
        catalog cannot be confirmed.
        """
        key_id, digest = _credential(headers)
        await self._hub.confirm()
        catalog = self._hub.catalog
        key = catalog.key(key_id)
        matches = hmac.compare_digest(digest, key.verifier if key is not None else _NO_VERIFIER)
        if key is None or not matches or key.revoked or self._expired(key.expires_at):
            raise unauthenticated()
        principal = catalog.principal(key.principal_id)
        if principal is None or principal.revoked or self._expired(principal.expires_at):
            raise unauthenticated()
        return Caller(principal, key_id, catalog.version)

    def _expired(self, instant: str | None) -> bool:
        return instant is not None and parse_instant(instant) <= self._clock()


def unauthenticated() -> KeyLoadError:
    """The one answer to every missing, wrong or ended identity (CON-31)."""
    return KeyLoadError(ErrorCode.UNAUTHENTICATED, "There is no valid current identity.")


def _credential(headers: Headers) -> tuple[str, str]:
    """Key id and SHA-256 of the whole key text, lower-case hex, of the one `Authorization` header."""
    found = [value for name, value in headers if name == b"authorization"]
    if len(found) != 1 or found[0][:7].lower() != _SCHEME:
        raise unauthenticated()
    text = found[0][7:]
    key_id, _, secret = text.partition(b".")
    if not key_id or not secret or len(text) > MAX_KEY_BYTES:
        raise unauthenticated()
    try:
        return key_id.decode(), hashlib.sha256(text).hexdigest()
    except UnicodeDecodeError:
        raise unauthenticated() from None
