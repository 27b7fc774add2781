"""Whose rights a call has: key and principal as one version of the catalog has them (SEC-3, SEC-4,
SEC-41)."""

from __future__ import annotations

from collections.abc import Callable

from keyload.codec.credentials import Credential, principal_of
from keyload.contract.security import PrincipalRecord
from keyload.models.context import CatalogView
from keyload.models.security.rights import Rights, rights_of


def rights_of_call(
    catalog: CatalogView,
    principal_id: str,
    credential: Credential | None,
    instant: int,
    parse: Callable[[PrincipalRecord], Rights] = rights_of,
) -> Rights | None:
    """The rights of who calls. None when the principal may not act at that instant, in ticks, or the
    credential no longer stands for it; without a credential the server acts for the principal.

    The front has asked the same of a version that may be older than `catalog`: what was revoked since then
    must not meet rights that were given later.
    """
    record = catalog.principal(principal_id)
    if record is None:
        return None
    if credential is not None:
        key = catalog.key(credential.key_id)
        if principal_of(credential, key, instant) != principal_id:
            return None
    rights = parse(record)
    return rights if rights.valid_at(instant) else None
