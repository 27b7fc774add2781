"""keyload_principals_configure: who exists and what they may do (SEC-10, SEC-11, SEC-13, SEC-14, CON-100,
CON-101)."""

from __future__ import annotations

from msgspec.structs import replace

from keyload.contract import capabilities
from keyload.contract.errors import ErrorCode
from keyload.contract.security import ConfigurePrincipalRequest, PrincipalRecord
from keyload.contract.tables import PRINCIPALS
from keyload.models.catalog.rows import FreshCatalog, put_row
from keyload.models.context import CommandContext, CommandHandler, refuse
from keyload.models.security.rights import ANY, Rights

SECURITY_MANAGE = capabilities.mask("SecurityManage")
_GREATEST_EPOCH = 2**63 - 1


def require_manager(rights: Rights) -> None:
    """`PermissionDenied` unless the caller may manage the security of its own tenant at all (SEC-10)."""
    if not rights.administrator and not rights.granted(rights.record.tenant_id, ANY, ANY, SECURITY_MANAGE):
        refuse(ErrorCode.PERMISSION_DENIED, "The caller may not manage principals and keys.")


def require_reach(rights: Rights, target: PrincipalRecord) -> None:
    """`PermissionDenied` when a caller that is no administrator would touch one, or another tenant
    (SEC-11)."""
    if not rights.administrator and (
        target.cluster_administrator or target.tenant_id != rights.record.tenant_id
    ):
        refuse(ErrorCode.PERMISSION_DENIED, "The caller may not touch this principal.")


def _authorize(context: CommandContext, request: ConfigurePrincipalRequest) -> None:
    require_manager(context.rights)
    require_reach(context.rights, request.principal)


def _configure(context: CommandContext, request: ConfigurePrincipalRequest) -> PrincipalRecord:
    wanted = request.principal
    stored = FreshCatalog(context.txn).principal(wanted.id)
    if stored is not None:
        require_reach(context.rights, stored)
    require_holding(context.rights, wanted)
    if stored is not None:
        if stored.tenant_id != wanted.tenant_id:
            refuse(ErrorCode.CONFLICT, "A principal of that id belongs to another tenant.")
        wanted = _with_epoch(stored, wanted)
    put_row(context.txn, PRINCIPALS, (wanted.id,), wanted)
    return wanted


def require_holding(rights: Rights, wanted: PrincipalRecord) -> None:
    """`PermissionDenied` when a caller would give more than it holds: each grant must lie inside one own
    grant, so that none adds up, and who sees some rows only lets nobody see others (SEC-11)."""
    if rights.administrator:
        return
    if rights.restricted and not (
        wanted.restrict_rows
        and wanted.owner_id in (None, rights.owner_id)
        and rights.projects.issuperset(wanted.projects)
    ):
        refuse(ErrorCode.PERMISSION_DENIED, "The caller may not open rows that it does not see.")
    for grant in wanted.grants:
        if not rights.covers(grant.database, grant.resource, capabilities.mask(grant.capabilities)):
            refuse(ErrorCode.PERMISSION_DENIED, "The caller may not give a capability that it lacks.")
    for name in wanted.field_grants:
        if not rights.holds(name):
            refuse(ErrorCode.PERMISSION_DENIED, "The caller may not give a field grant that it lacks.")


def _with_epoch(stored: PrincipalRecord, wanted: PrincipalRecord) -> PrincipalRecord:
    if replace(wanted, policy_epoch=stored.policy_epoch) == stored:
        return stored
    if stored.policy_epoch == _GREATEST_EPOCH:
        refuse(ErrorCode.RESOURCE_EXHAUSTED, "The policy epoch cannot rise further.")
    return replace(wanted, policy_epoch=max(wanted.policy_epoch, stored.policy_epoch + 1))


CONFIGURE = CommandHandler(authorize=_authorize, execute=_configure)
