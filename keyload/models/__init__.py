"""One package per model: pure functions over a transaction, bound to operations and mutation kinds by name
here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from keyload.models import batches
from keyload.models.catalog import dispatch, resources
from keyload.models.cluster import placement, status
from keyload.models.context import CommandHandler, MutationHandler, ReadHandler
from keyload.models.documents import reads, writes
from keyload.models.security import credentials, principals

COMMANDS: Mapping[str, CommandHandler] = MappingProxyType(
    {
        "keyload_documents_commit": batches.COMMIT,
        "keyload_resources_configure": resources.CONFIGURE,
        "keyload_principals_configure": principals.CONFIGURE,
        "keyload_credentials_configure": credentials.CONFIGURE,
        "keyload_admin_dispatch": dispatch.DISPATCH,
        "keyload_admin_partition_placement_bind": placement.BIND,
    }
)
"""Commands by the name of their operation."""

MUTATIONS: Mapping[str, MutationHandler] = MappingProxyType(
    {"putDocument": writes.PUT, "patchDocument": writes.PATCH, "deleteDocument": writes.DELETE}
)
"""Mutations by kind."""

READS: Mapping[str, ReadHandler] = MappingProxyType(
    {
        "keyload_documents_get": reads.GET,
        "keyload_admin_resources_list": resources.LIST,
        "keyload_admin_status": status.STATUS,
        "keyload_admin_partition_placement_read": placement.READ,
    }
)
"""Reads by the name of their operation."""

__all__ = ["COMMANDS", "MUTATIONS", "READS"]
