"""Who calls: the key of a request, checked against a catalog confirmed after the request arrived (SEC-1..4,
SEC-41).

Every failure is the same `Unauthenticated`, and all go the same way to it: a header that names no key is
looked up as the key of no name. So neither the answer nor the time it takes tells which key ids exist.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from keyload.codec.credentials import Credential, credential_of, expired, principal_of
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.front.calls import Caller
from keyload.front.workers import WorkerHub

Headers = Iterable[tuple[bytes, bytes]]


def wall_ticks() -> int:
    """The wall clock in ticks of 100 nanoseconds."""
    return time.time_ns() // 100


class Authenticator:
    """Turns the headers of a request into its caller; `clock` gives the node's time in ticks (SEC-4)."""

    def __init__(self, hub: WorkerHub, clock: Callable[[], int] = wall_ticks) -> None:
        self._hub = hub
        self._clock = clock

    def claim(self, headers: Headers) -> Claim:
        """What a request that has just arrived says of itself; the barrier that settles it begins now."""
        credential = credential_of([value for name, value in headers if name == b"authorization"])
        return Claim(self, credential, self._hub.confirm())

    async def verify(self, headers: Headers) -> Caller:
        """The caller of a request that has just arrived. Raises Unauthenticated, or OwnershipLost when the
        catalog cannot be confirmed.
        """
        return await self.claim(headers).confirmed()

    @property
    def catalog_changes(self) -> int:
        """How often the node's catalog has changed."""
        return self._hub.catalog.changes

    def present(self, credential: Credential) -> Caller | None:
        """The caller as the present catalog has it, None when it has no valid one."""
        catalog, now = self._hub.catalog, self._clock()
        principal_id = principal_of(credential, catalog.key(credential.key_id), now)
        principal = None if principal_id is None else catalog.principal(principal_id)
        if principal is None or principal.revoked or expired(principal.expires_at, now):
            return None
        return Caller(principal, credential, catalog.version)


class Claim:
    """A credential on its way to being confirmed.

    `caller` is what the present catalog makes of it. A read may be made for it meanwhile, but its answer
    may leave only when `stands` says, after `confirmed`, that the catalog did not change in between
    (SEC-41).
    """

    __slots__ = ("_authenticator", "_barrier", "_changes", "_credential", "caller")

    def __init__(
        self, authenticator: Authenticator, credential: Credential, barrier: asyncio.Future[int]
    ) -> None:
        self._authenticator = authenticator
        self._credential = credential
        self._barrier = barrier
        barrier.add_done_callback(_noted)
        self._changes = authenticator.catalog_changes
        self.caller = authenticator.present(credential)

    async def confirmed(self) -> Caller:
        """The caller by the catalog that the barrier confirmed. Raises Unauthenticated, or OwnershipLost when
        the barrier was not reached.
        """
        await self._barrier
        caller = self._authenticator.present(self._credential)
        if caller is None:
            raise unauthenticated()
        return caller

    def stands(self) -> bool:
        """Whether the catalog is the one `caller` was taken from."""
        return self._changes == self._authenticator.catalog_changes


def _noted(barrier: asyncio.Future[int]) -> None:
    """A barrier that failed after its request had ended otherwise needs no mention."""
    if not barrier.cancelled():
        barrier.exception()


def unauthenticated() -> KeyLoadError:
    """The one answer to every missing, wrong or ended identity (CON-31)."""
    return KeyLoadError(ErrorCode.UNAUTHENTICATED, "There is no valid current identity.")
