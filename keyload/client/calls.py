"""One function per operation: its typed arguments become a `Call`. Both shells are built from these."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from keyload.client.core import Call, action, identity, read, write
from keyload.contract.admin import (
    ADMIN_ADMISSION,
    ADMIN_BACKUP,
    ADMIN_DISPATCH,
    BackupReceipt,
    NodeAdmissionStatus,
)
from keyload.contract.catalog import (
    ADMIN_RESOURCES_LIST,
    RESOURCES_CONFIGURE,
    AdminResourcesPage,
    AdminResourcesRequest,
    ConfigureResourceRequest,
    ResourceDefinition,
)
from keyload.contract.cluster import (
    ADMIN_PARTITION_PLACEMENT_BIND,
    ADMIN_PARTITION_PLACEMENT_READ,
    ADMIN_STATUS,
    AtomicPartitionPlacementReadRequest,
    AtomicPartitionPlacementResolution,
    BindAtomicPartitionPlacementRequest,
    NodeStatus,
)
from keyload.contract.commands import DOCUMENTS_COMMIT, CommandRequest
from keyload.contract.documents import DOCUMENTS_GET, DocumentResult, GetDocumentRequest
from keyload.contract.mutations import Mutation
from keyload.contract.security import (
    CREDENTIALS_CONFIGURE,
    PRINCIPALS_CONFIGURE,
    ApiKeyRecord,
    ConfigureApiKeyRequest,
    ConfigurePrincipalRequest,
    PrincipalRecord,
)
from keyload.contract.shared import CommitReceipt, EntityRef, PartitionRef


def documents_get(reference: EntityRef) -> Call[DocumentResult | None]:
    """Read one document."""
    request = GetDocumentRequest(reference=reference)
    return read(DOCUMENTS_GET, request, DocumentResult | None)


def documents_commit(
    partition: PartitionRef, mutations: Sequence[Mutation], ownership_epoch: int, command_id: str | None
) -> Call[CommitReceipt]:
    """Commit mutations to one partition."""
    request = CommandRequest(
        command_id=identity(command_id),
        partition=partition,
        mutations=tuple(mutations),
        ownership_epoch=ownership_epoch,
    )
    return write(DOCUMENTS_COMMIT, request, request.command_id, CommitReceipt)


def resources_configure(
    tenant_id: str,
    database_id: str,
    definition: ResourceDefinition,
    expected_schema_version: int | None,
    command_id: str | None,
) -> Call[ResourceDefinition]:
    """Create or change a resource."""
    request = ConfigureResourceRequest(
        tenant_id=tenant_id,
        database_id=database_id,
        definition=definition,
        expected_schema_version=UNSET if expected_schema_version is None else expected_schema_version,
    )
    return write(RESOURCES_CONFIGURE, request, identity(command_id), ResourceDefinition)


def principals_configure(principal: PrincipalRecord, command_id: str | None) -> Call[PrincipalRecord]:
    """Create or replace a principal."""
    request = ConfigurePrincipalRequest(principal=principal)
    return write(PRINCIPALS_CONFIGURE, request, identity(command_id), PrincipalRecord)


def credentials_configure(api_key: ApiKeyRecord, command_id: str | None) -> Call[bool]:
    """Store, replace or revoke an API key."""
    request = ConfigureApiKeyRequest(api_key=api_key)
    return write(CREDENTIALS_CONFIGURE, request, identity(command_id), bool)


def admin_dispatch(paused: bool, command_id: str | None) -> Call[bool]:
    """Pause or resume delivery."""
    query = f"?{ADMIN_DISPATCH.http_query}={'true' if paused else 'false'}"
    return write(ADMIN_DISPATCH, paused, identity(command_id), bool, query)


def admin_backup() -> Call[BackupReceipt]:
    """Make a backup at the node that answers."""
    return action(ADMIN_BACKUP, BackupReceipt)


def admin_status() -> Call[NodeStatus]:
    """Read the state of a node."""
    return read(ADMIN_STATUS, None, NodeStatus)


def admin_admission() -> Call[NodeAdmissionStatus]:
    """Read the admission counters of a node."""
    return read(ADMIN_ADMISSION, None, NodeAdmissionStatus)


def admin_resources_list(
    tenant_id: str, database_id: str, after_name: str | None, limit: int
) -> Call[AdminResourcesPage]:
    """Read a page of the resources of a database."""
    request = AdminResourcesRequest(
        tenant_id=tenant_id, database_id=database_id, after_name=after_name, limit=limit
    )
    return read(ADMIN_RESOURCES_LIST, request, AdminResourcesPage)


def admin_partition_placement_read(partition: PartitionRef) -> Call[AtomicPartitionPlacementResolution]:
    """Read where a partition lives."""
    request = AtomicPartitionPlacementReadRequest(version=1, partition=partition)
    return read(ADMIN_PARTITION_PLACEMENT_READ, request, AtomicPartitionPlacementResolution)


def admin_partition_placement_bind(
    expected_revision: int, partition: PartitionRef, physical_shard_id: str, command_id: str | None
) -> Call[bool]:
    """Assign a partition to a shard."""
    request = BindAtomicPartitionPlacementRequest(
        version=1,
        expected_revision=expected_revision,
        partition=partition,
        physical_shard_id=physical_shard_id,
    )
    return write(ADMIN_PARTITION_PLACEMENT_BIND, request, identity(command_id), bool)
