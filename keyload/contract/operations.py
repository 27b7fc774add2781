"""All operations this version implements, and how to find identity and partition in a request."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from keyload.contract import admin, catalog, cluster, commands, documents, security
from keyload.contract.operation import Operation, RequiredGrant
from keyload.contract.shared import PartitionRef

__all__ = ["OPERATIONS", "Operation", "RequiredGrant", "partition_of", "write_identity_of"]

_OPERATIONS = (
    documents.DOCUMENTS_GET,
    admin.ADMIN_BACKUP,
    admin.ADMIN_ADMISSION,
    cluster.ADMIN_STATUS,
    cluster.ADMIN_PARTITION_PLACEMENT_READ,
    commands.DOCUMENTS_COMMIT,
    catalog.RESOURCES_CONFIGURE,
    security.PRINCIPALS_CONFIGURE,
    security.CREDENTIALS_CONFIGURE,
    admin.ADMIN_DISPATCH,
    cluster.ADMIN_PARTITION_PLACEMENT_BIND,
    catalog.ADMIN_RESOURCES_LIST,
)

OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {operation.name: operation for operation in _OPERATIONS}
)
"""Operations by name, in catalog order."""


def partition_of(operation: Operation, request: Any) -> PartitionRef | None:
    """The partition a decoded request addresses; None for a global operation (CMD-15)."""
    if operation.partition_path is None:
        return None
    value = request
    for attribute in operation.partition_path:
        value = getattr(value, attribute)
    return value


def write_identity_of(operation: Operation, request: Any, command_id: str | None) -> str | None:
    """The guid text under which the outcome of a call is kept (CMD-14); None for calls without one.

    `command_id` is the outer identity of the five operations that carry it beside the request.
    """
    match operation.write_identity:
        case "commandId":
            return command_id
        case "request.commandId":
            return request.command_id
        case "request.requestId":
            return request.request_id
        case _:
            return None
