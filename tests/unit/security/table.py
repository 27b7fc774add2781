"""Who may call what: one row for each operation, and for each mutation of a commit.

`ok` and `null` are results, `redacted` one without its protected field, `denied` is PermissionDenied and
`unknown` Unauthenticated. The target is a document of project p1 with a protected field, or the tenant,
database or collection around it. Who sees some rows only may give no principal and no key that sees all.
"""

from __future__ import annotations

from keyload.contract.security import PrincipalRecord, ScopeGrant

TENANT, FOREIGN, DATABASE, OTHER_DATABASE, DOMAIN, COLLECTION = (
    "acme",
    "other",
    "shop",
    "attic",
    "sales",
    "orders",
)

_TABLE = """
                                         administrator  full    reader  stranger  elsewhere  rows    fields    revoked  expired
keyload_documents_get                    ok             ok      ok      denied    denied     null    redacted  unknown  unknown
keyload_documents_commit putDocument     ok             ok      denied  denied    denied     denied  denied    unknown  unknown
keyload_documents_commit patchDocument   ok             ok      denied  denied    denied     denied  denied    unknown  unknown
keyload_documents_commit deleteDocument  ok             ok      denied  denied    denied     denied  ok        unknown  unknown
keyload_resources_configure              ok             ok      denied  denied    denied     ok      ok        unknown  unknown
keyload_principals_configure             ok             ok      denied  denied    denied     denied  ok        unknown  unknown
keyload_credentials_configure            ok             ok      denied  denied    denied     denied  ok        unknown  unknown
keyload_admin_backup                     ok             denied  denied  denied    denied     denied  denied    unknown  unknown
keyload_admin_admission                  ok             denied  denied  denied    denied     denied  denied    unknown  unknown
keyload_admin_status                     ok             denied  denied  denied    denied     denied  denied    unknown  unknown
keyload_admin_dispatch                   ok             denied  denied  denied    denied     denied  denied    unknown  unknown
keyload_admin_resources_list             ok             denied  denied  denied    denied     denied  denied    unknown  unknown
keyload_admin_partition_placement_read   ok             denied  denied  denied    denied     denied  denied    unknown  unknown
keyload_admin_partition_placement_bind   ok             denied  denied  denied    denied     denied  denied    unknown  unknown
"""  # noqa: E501 - a table


def _parsed() -> dict[str, dict[str, str]]:
    head, *lines = (line.split() for line in _TABLE.strip().splitlines())
    return {" ".join(line[: -len(head)]): dict(zip(head, line[-len(head) :], strict=True)) for line in lines}


TABLE = _parsed()
"""Outcome by row and caller."""

CALLERS = tuple(next(iter(TABLE.values())))


def _grant(capabilities: str = "All", database: str = "*", resource: str = "*") -> ScopeGrant:
    return ScopeGrant(database=database, resource=resource, capabilities=capabilities)


EVERYTHING = (_grant(),)
PRINCIPALS = (
    PrincipalRecord(id="full", tenant_id=TENANT, grants=EVERYTHING, field_grants=("*",)),
    PrincipalRecord(
        id="reader",
        tenant_id=TENANT,
        grants=(_grant("DocumentsRead, Query, EventsRead, ChangesRead, Diagnose"),),
        field_grants=("*",),
    ),
    PrincipalRecord(id="stranger", tenant_id=FOREIGN, grants=EVERYTHING, field_grants=("*",)),
    PrincipalRecord(
        id="elsewhere",
        tenant_id=TENANT,
        grants=(_grant(database=OTHER_DATABASE), _grant(database=DATABASE, resource="others")),
        field_grants=("*",),
    ),
    PrincipalRecord(
        id="rows",
        tenant_id=TENANT,
        grants=EVERYTHING,
        field_grants=("*",),
        restrict_rows=True,
        owner_id="rows",
        projects=("p2",),
    ),
    PrincipalRecord(id="fields", tenant_id=TENANT, grants=EVERYTHING, field_grants=("other.read",)),
    PrincipalRecord(id="revoked", tenant_id=TENANT, grants=EVERYTHING, field_grants=("*",), revoked=True),
    PrincipalRecord(
        id="expired",
        tenant_id=TENANT,
        grants=EVERYTHING,
        field_grants=("*",),
        expires_at="2020-01-01T00:00:00+00:00",
    ),
)
"""All callers but the administrator, whom the node has from its start."""

HOMES = {"stranger": (FOREIGN, DATABASE), "elsewhere": (TENANT, OTHER_DATABASE)}
"""Where a caller may read; everybody else at the place of the targets."""
