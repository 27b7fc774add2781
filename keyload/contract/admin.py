"""Administration of a node: the dispatch switch, backups and the admission gates (spec admission.md)."""

from __future__ import annotations

from typing import Annotated

from keyload.contract.base import Member, Record
from keyload.contract.errors import ErrorCode
from keyload.contract.operation import Operation, RequiredGrant


class CommandAdmissionLimits(Record, frozen=True, kw_only=True):
    """Limits of the command stage."""

    max_commands: Annotated[int, Member(scalar="int32", min=1, meaning="Data commands held at once.")]
    max_retained_bytes: Annotated[int, Member(scalar="int64", min=1, meaning="Bytes held by data commands.")]
    max_tenant_commands: Annotated[int, Member(scalar="int32", min=1, meaning="Data commands of one tenant.")]
    max_principal_commands: Annotated[
        int, Member(scalar="int32", min=1, meaning="Data commands of one principal.")
    ]
    reserved_control_commands: Annotated[
        int, Member(scalar="int32", min=1, meaning="Control commands held at once.")
    ]
    reserved_control_bytes: Annotated[
        int, Member(scalar="int64", min=1, meaning="Bytes held by control commands.")
    ]
    max_control_payload_bytes: Annotated[
        int, Member(scalar="int32", min=1, meaning="Greatest payload of one control command.")
    ]
    max_tenant_control_commands: Annotated[
        int, Member(scalar="int32", min=1, meaning="Control commands of one tenant.")
    ]
    max_principal_control_commands: Annotated[
        int, Member(scalar="int32", min=1, meaning="Control commands of one principal.")
    ]


class CommandAdmissionSnapshot(Record, frozen=True, kw_only=True):
    """What is held now."""

    commands: Annotated[int, Member(scalar="int32", min=0, meaning="Data entries.")]
    retained_bytes: Annotated[int, Member(scalar="int64", min=0, meaning="Bytes of data entries.")]
    control_commands: Annotated[int, Member(scalar="int32", min=0, meaning="Control entries.")]
    control_retained_bytes: Annotated[int, Member(scalar="int64", min=0, meaning="Bytes of control entries.")]
    active_tenant_scopes: Annotated[
        int, Member(scalar="int32", min=0, meaning="Tenants with at least one entry.")
    ]
    active_principal_scopes: Annotated[
        int, Member(scalar="int32", min=0, meaning="Principals with at least one entry.")
    ]


class HttpAdmissionLimits(Record, frozen=True, kw_only=True):
    """Limits of the HTTP stage."""

    max_requests: Annotated[int, Member(scalar="int32", min=1, meaning="Data requests held at once.")]
    max_reserved_bytes: Annotated[
        int, Member(scalar="int64", min=1, meaning="Bytes reserved by data requests.")
    ]
    max_tenant_requests: Annotated[int, Member(scalar="int32", min=1, meaning="Data requests of one tenant.")]
    max_principal_requests: Annotated[
        int, Member(scalar="int32", min=1, meaning="Data requests of one principal.")
    ]
    reserved_control_requests: Annotated[
        int, Member(scalar="int32", min=1, meaning="Control requests held at once.")
    ]
    reserved_control_bytes: Annotated[
        int, Member(scalar="int64", min=1, meaning="Bytes reserved by control requests.")
    ]
    max_tenant_control_requests: Annotated[
        int, Member(scalar="int32", min=1, meaning="Control requests of one tenant.")
    ]
    max_principal_control_requests: Annotated[
        int, Member(scalar="int32", min=1, meaning="Control requests of one principal.")
    ]
    max_body_bytes: Annotated[int, Member(scalar="int32", min=1, max=33554432, meaning="Greatest data body.")]
    max_control_body_bytes: Annotated[
        int, Member(scalar="int32", min=1, meaning="Greatest control body; not above maxBodyBytes.")
    ]
    heavy_read_reserved_bytes: Annotated[
        int, Member(scalar="int64", min=0, max=1073741824, meaning="Working space reserved for a heavy read.")
    ]
    other_reserved_bytes: Annotated[
        int,
        Member(
            scalar="int64", min=0, max=1073741824, meaning="Working space reserved for other data requests."
        ),
    ]


class HttpAdmissionStatus(Record, frozen=True, kw_only=True):
    """HTTP stage."""

    limits: Annotated[HttpAdmissionLimits, Member(meaning="Limits.")]
    node: Annotated[CommandAdmissionSnapshot, Member(meaning="Everything held by the node.")]
    verified_scopes: Annotated[
        CommandAdmissionSnapshot, Member(meaning="The share that belongs to verified callers.")
    ]


class NodeAdmissionStatus(Record, frozen=True, kw_only=True):
    """Admission limits and use."""

    limits: Annotated[CommandAdmissionLimits, Member(meaning="Limits of the command stage.")]
    usage: Annotated[CommandAdmissionSnapshot, Member(meaning="Use of the command stage.")]
    http: Annotated[
        HttpAdmissionStatus | None, Member(meaning="HTTP stage; null when the node serves no HTTP.")
    ]


class BackupReceipt(Record, frozen=True, kw_only=True):
    """A finished backup."""

    id: Annotated[str, Member(format="identifier", meaning="Backup id, 32 lowercase hex digits.")]
    position: Annotated[
        int,
        Member(
            scalar="int64",
            min=0,
            meaning=(
                "Position of the system shard inside the backup; the manifest holds that of every shard."
            ),
        ),
    ]


ADMIN_DISPATCH = Operation(
    name="keyload_admin_dispatch",
    title="Pause or resume delivery",
    description=(
        "Stops or restarts the delivery of queue messages and subscription events of the whole store."
    ),
    feature="admin",
    aliases=(
        "pause all workers",
        "resume delivery after a restore",
        "stop dispatch",
        "freeze queue delivery",
    ),
    stage=1,
    kind="command",
    capability="SetDispatch",
    request=bool,
    result=bool,
    outer_command_id=True,
    write_identity="commandId",
    http_method="POST",
    http_route="/v1/admin/dispatch",
    http_query="paused",
    request_meaning="True pauses delivery, false resumes it.",
    lane="control",
    admission_class="control",
    read_only=False,
    destructive=True,
    idempotent=True,
    required_grants=(RequiredGrant(any_of=("ClusterAdministrator",), on="caller"),),
    notable_errors=(
        ErrorCode.PERMISSION_DENIED,
        ErrorCode.CONFLICT,
        ErrorCode.UNKNOWN_WRITE_OUTCOME,
    ),
)
"""Pause or resume delivery."""

ADMIN_ADMISSION = Operation(
    name="keyload_admin_admission",
    title="Read admission status",
    description="Shows the admission limits of the node and how much of them is in use.",
    feature="admin",
    aliases=(
        "is the server overloaded",
        "show admission limits",
        "how many requests are in flight",
        "why do I get ResourceExhausted",
    ),
    stage=1,
    kind="read",
    capability="Admission",
    request=None,
    result=NodeAdmissionStatus,
    http_method="GET",
    http_route="/v1/admin/admission",
    lane="data",
    admission_class="data-other",
    read_only=True,
    destructive=False,
    idempotent=True,
    required_grants=(RequiredGrant(any_of=("ClusterAdministrator",), on="caller"),),
    notable_errors=(ErrorCode.PERMISSION_DENIED,),
)
"""Read admission status."""

ADMIN_BACKUP = Operation(
    name="keyload_admin_backup",
    title="Create a backup",
    description=(
        "Writes a backup of the node that answers and returns its id; every call may make another one."
    ),
    feature="admin",
    aliases=(
        "back up the database",
        "take a snapshot of the node",
        "save a copy of all data",
        "export a backup archive",
    ),
    stage=1,
    kind="action",
    capability="Backup",
    request=None,
    result=BackupReceipt,
    http_method="POST",
    http_route="/v1/admin/backup",
    lane="data",
    admission_class="data-other",
    read_only=False,
    destructive=False,
    idempotent=False,
    required_grants=(RequiredGrant(any_of=("ClusterAdministrator",), on="caller"),),
    notable_errors=(ErrorCode.PERMISSION_DENIED, ErrorCode.UNKNOWN_WRITE_OUTCOME),
)
"""Create a backup."""
