"""What one principal record allows: capabilities, rows, field grants (SEC-17..SEC-30).

`rights_of` parses a record once; records are immutable and one version of the catalog hands out the same
object for every call, so the parsed form is found by identity.
"""

from __future__ import annotations

from keyload.codec import instants
from keyload.contract.capabilities import mask as mask_of
from keyload.contract.errors import ErrorCode, KeyLoadError
from keyload.contract.security import PrincipalRecord

ANY = "*"
_MAX_DECISIONS = 1024
_MAX_PARSED = 1024


class Rights:
    """A principal's rights in the form in which they are asked for."""

    __slots__ = (
        "_decisions",
        "_every_field",
        "_expires",
        "_field_grants",
        "_grants",
        "administrator",
        "owner_id",
        "projects",
        "record",
        "restricted",
    )

    def __init__(self, record: PrincipalRecord) -> None:
        self.record = record
        self.administrator = record.cluster_administrator
        self.owner_id = record.owner_id
        self.projects = frozenset(record.projects)
        self.restricted = record.restrict_rows and not record.cluster_administrator
        self._grants = [
            (grant.database, grant.resource, mask_of(grant.capabilities)) for grant in record.grants
        ]
        self._field_grants = frozenset(record.field_grants)
        self._every_field = ANY in self._field_grants
        self._expires = None if record.expires_at is None else instants.parse_instant(record.expires_at)
        self._decisions: dict[tuple[str, str, str, int], bool] = {}

    def valid_at(self, instant: int) -> bool:
        """Whether the principal may act at an instant in ticks: neither revoked nor expired (SEC-3,
        SEC-4)."""
        return not self.record.revoked and (self._expires is None or instant < self._expires)

    def granted(self, tenant: str, database: str, resource: str, mask: int) -> bool:
        """Whether one single stored grant holds all capabilities of `mask`; administrators get no bonus
        (CON-94)."""
        if tenant != self.record.tenant_id:
            return False
        return any(
            (mask & held) == mask and scope in (ANY, database) and name in (ANY, resource)
            for scope, name, held in self._grants
        )

    def allows(self, tenant: str, database: str, resource: str, mask: int) -> bool:
        """Whether the principal may do what needs all capabilities of `mask` on a resource (SEC-18,
        SEC-21)."""
        question = (tenant, database, resource, mask)
        decision = self._decisions.get(question)
        if decision is None:
            decision = self.administrator or self.granted(tenant, database, resource, mask)
            if len(self._decisions) >= _MAX_DECISIONS:
                self._decisions.clear()
            self._decisions[question] = decision
        return decision

    def require(self, tenant: str, database: str, resource: str, mask: int) -> None:
        """`PermissionDenied` unless `allows`."""
        if not self.allows(tenant, database, resource, mask):
            raise KeyLoadError(
                ErrorCode.PERMISSION_DENIED, "The caller has no grant for this on the named resource."
            )

    def require_administrator(self) -> None:
        """`PermissionDenied` unless the principal is a cluster administrator (SEC-22)."""
        if not self.administrator:
            raise KeyLoadError(ErrorCode.PERMISSION_DENIED, "Only a cluster administrator may do this.")

    def holds(self, field_grant: str) -> bool:
        """Whether a named field grant is held (SEC-21, SEC-26)."""
        return self.administrator or self._every_field or field_grant in self._field_grants

    def sees_row(self, owner_id: str | None, project_id: str | None) -> bool:
        """Whether a row of that owner and project is visible and writable (SEC-23, CON-95)."""
        if not self.restricted:
            return True
        return (owner_id is not None and owner_id == self.owner_id) or project_id in self.projects

    def covers(self, database: str, resource: str, mask: int) -> bool:
        """Whether one own grant covers a whole scope, `*` included: what may be given on to others
        (SEC-11)."""
        return any(
            (mask & held) == mask and scope in (ANY, database) and name in (ANY, resource)
            for scope, name, held in self._grants
        )


_parsed: dict[int, Rights] = {}


def rights_of(record: PrincipalRecord) -> Rights:
    """The parsed form of a record, kept for as long as the same record object is asked for."""
    rights = _parsed.get(id(record))
    if rights is None or rights.record is not record:
        if len(_parsed) >= _MAX_PARSED:
            _parsed.clear()
        rights = Rights(record)
        _parsed[id(record)] = rights
    return rights
