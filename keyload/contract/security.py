"""Principals, their grants and the API keys that stand for them (spec security.md)."""

from __future__ import annotations

from typing import Annotated

from keyload.contract.base import Member, Record
from keyload.contract.errors import ErrorCode
from keyload.contract.operation import Operation, RequiredGrant


class ScopeGrant(Record, frozen=True, kw_only=True):
    """Capabilities over one scope."""

    database: Annotated[
        str,
        Member(format="identifier", meaning="Database id, or * for any database of the principal's tenant."),
    ]
    resource: Annotated[str, Member(format="identifier", meaning="Resource name, or * for any resource.")]
    capabilities: Annotated[str, Member(scalar="flags", meaning="Capabilities granted.")]


class PrincipalRecord(Record, frozen=True, kw_only=True):
    """A principal with its rights."""

    id: Annotated[str, Member(format="identifier", meaning="Principal id.")]
    tenant_id: Annotated[str, Member(format="identifier", meaning="Tenant whose data the grants open.")]
    grants: Annotated[
        tuple[ScopeGrant, ...],
        Member(
            min_items=0,
            max_items=256,
            meaning="Capability grants; one single grant must hold every capability that a step needs.",
        ),
    ]
    field_grants: Annotated[
        tuple[str, ...],
        Member(
            min_items=0,
            max_items=256,
            item_format="identifier",
            meaning="Field grant names such as pii.read; * stands for all.",
        ),
    ]
    cluster_administrator: Annotated[
        bool, Member(meaning="Passes every capability, row and field check, with the exceptions of CON-94.")
    ] = False
    owner_id: Annotated[
        str | None, Member(format="identifier", meaning="Identity used for row ownership.")
    ] = None
    projects: Annotated[
        tuple[str, ...],
        Member(
            min_items=0, max_items=256, item_format="identifier", meaning="Projects whose rows are visible."
        ),
    ] = ()
    restrict_rows: Annotated[
        bool, Member(meaning="True limits reads and writes to rows that ownerId or projects match.")
    ] = False
    revoked: Annotated[bool, Member(meaning="True refuses every call with Unauthenticated.")] = False
    expires_at: Annotated[
        str | None, Member(scalar="timestamp", meaning="Instant from which every call is Unauthenticated.")
    ] = None
    policy_epoch: Annotated[
        int,
        Member(
            scalar="int64",
            min=1,
            meaning=(
                "Version of the rights, bound into every cursor and token. The stored value never "
                "falls: a change of any other member stores the greater of the value sent and stored + "
                "1."
            ),
        ),
    ] = 1


class ConfigurePrincipalRequest(Record, frozen=True, kw_only=True):
    """Creates or replaces a principal."""

    principal: Annotated[PrincipalRecord, Member(meaning="Complete wanted record.")]


class ApiKeyRecord(Record, frozen=True, kw_only=True):
    """Stored form of an API key; the key text itself is never sent or stored."""

    id: Annotated[
        str, Member(format="keyId", meaning="Key id: the part of the key text before the first dot.")
    ]
    principal_id: Annotated[
        str, Member(format="identifier", meaning="Existing principal that the key stands for, else NotFound.")
    ]
    verifier: Annotated[
        str,
        Member(format="sha256Hex", meaning="SHA-256 of the whole key text, keyId, dot and secret included."),
    ]
    expires_at: Annotated[
        str | None, Member(scalar="timestamp", meaning="Instant from which the key is Unauthenticated.")
    ] = None
    revoked: Annotated[bool, Member(meaning="True makes the key Unauthenticated.")] = False


class ConfigureApiKeyRequest(Record, frozen=True, kw_only=True):
    """Stores, replaces or revokes an API key."""

    api_key: Annotated[ApiKeyRecord, Member(meaning="Complete wanted record.")]


PRINCIPALS_CONFIGURE = Operation(
    name="keyload_principals_configure",
    title="Configure a principal",
    description="Creates or replaces a user or agent identity with its rights.",
    feature="security",
    aliases=(
        "create a user",
        "grant permissions to an agent",
        "change access rights",
        "revoke a user",
        "limit visible rows",
    ),
    stage=1,
    kind="command",
    capability="ConfigurePrincipal",
    request=ConfigurePrincipalRequest,
    result=PrincipalRecord,
    outer_command_id=True,
    write_identity="commandId",
    http_method="POST",
    http_route="/v1/admin/principals",
    lane="data",
    admission_class="data-other",
    read_only=False,
    destructive=True,
    idempotent=True,
    required_grants=(
        RequiredGrant(
            any_of=("ClusterAdministrator", "SecurityManage"), on="database * of request.principal.tenantId"
        ),
    ),
    notable_errors=(
        ErrorCode.CONFLICT,
        ErrorCode.PERMISSION_DENIED,
        ErrorCode.UNKNOWN_WRITE_OUTCOME,
    ),
)
"""Configure a principal."""

CREDENTIALS_CONFIGURE = Operation(
    name="keyload_credentials_configure",
    title="Configure an API key",
    description="Stores, replaces or revokes the verifier of an API key; the key itself is never sent.",
    feature="security",
    aliases=("create an API key", "rotate a credential", "revoke an API key", "set a key expiry"),
    stage=1,
    kind="command",
    capability="ConfigureApiKey",
    request=ConfigureApiKeyRequest,
    result=bool,
    outer_command_id=True,
    write_identity="commandId",
    http_method="POST",
    http_route="/v1/admin/api-keys",
    lane="data",
    admission_class="data-other",
    read_only=False,
    destructive=True,
    idempotent=True,
    required_grants=(
        RequiredGrant(
            any_of=("ClusterAdministrator", "SecurityManage"), on="database * of the key principal's tenant"
        ),
    ),
    notable_errors=(
        ErrorCode.NOT_FOUND,
        ErrorCode.CONFLICT,
        ErrorCode.PERMISSION_DENIED,
        ErrorCode.UNKNOWN_WRITE_OUTCOME,
    ),
)
"""Configure an API key."""
