"""keyload_resources_configure and keyload_admin_resources_list (CON-103, DOC-25..DOC-28, SEC-12,
SEC-36..SEC-39)."""

from __future__ import annotations

from itertools import islice

from msgspec import UNSET
from msgspec.structs import replace

from keyload.contract import capabilities
from keyload.contract.catalog import (
    AdminResourceInfo,
    AdminResourcesPage,
    AdminResourcesRequest,
    ConfigureResourceRequest,
    ResourceDefinition,
)
from keyload.contract.errors import ErrorCode
from keyload.contract.tables import RESOURCES
from keyload.models.catalog.definitions import check_definition
from keyload.models.catalog.rows import FreshCatalog, put_row
from keyload.models.context import CommandContext, CommandHandler, ReadContext, ReadHandler, refuse

SCHEMA_MANAGE = capabilities.mask("SchemaManage")
_GREATEST_VERSION = 2**63 - 1
_CHANGEABLE = "the stored definition with other fieldPolicies, headerPolicies or paused"


def _authorize(context: CommandContext, request: ConfigureResourceRequest) -> None:
    context.rights.require(request.tenant_id, request.database_id, request.definition.name, SCHEMA_MANAGE)


def _configure(context: CommandContext, request: ConfigureResourceRequest) -> ResourceDefinition:
    wanted = request.definition
    check_definition(wanted)
    stored = FreshCatalog(context.txn).resource(request.tenant_id, request.database_id, wanted.name)
    if request.expected_schema_version is not UNSET:
        _check_replacement(stored, wanted, request.expected_schema_version)
    elif stored is not None:
        if stored != wanted:
            detail = "A resource of that name exists and is defined differently."
            refuse(ErrorCode.UNSUPPORTED_CAPABILITY, detail, "/definition", "the stored definition")
        return stored
    elif wanted.schema_version != 1:
        refuse(ErrorCode.VALIDATION, "A new resource has schema version 1.", "/definition/schemaVersion", "1")
    put_row(context.txn, RESOURCES, (request.tenant_id, request.database_id, wanted.name), wanted)
    return wanted


def _check_replacement(stored: ResourceDefinition | None, wanted: ResourceDefinition, expected: int) -> None:
    if stored is None or stored.schema_version != expected:
        detail = "The resource has another schema version."
        refuse(ErrorCode.REVISION_CONFLICT, detail, "/expectedSchemaVersion", "the stored schemaVersion")
    if expected == _GREATEST_VERSION:
        refuse(ErrorCode.RESOURCE_EXHAUSTED, "The schema version cannot rise further.")
    if wanted.schema_version != expected + 1:
        refuse(
            ErrorCode.VALIDATION,
            "The new schema version is not one above the expected one.",
            "/definition/schemaVersion",
            str(expected + 1),
        )
    same = replace(wanted, schema_version=stored.schema_version)
    if same == stored:
        detail = "The new definition changes nothing."
        refuse(ErrorCode.VALIDATION, detail, "/definition", _CHANGEABLE)
    if stored != replace(
        same,
        field_policies=stored.field_policies,
        header_policies=stored.header_policies,
        paused=stored.paused,
    ):
        detail = "Only policies and the pause switch of a resource can change."
        refuse(ErrorCode.UNSUPPORTED_CAPABILITY, detail, "/definition", _CHANGEABLE)


def _authorize_list(context: ReadContext, request: AdminResourcesRequest) -> None:
    context.rights.require_administrator()


def _list(context: ReadContext, request: AdminResourcesRequest) -> AdminResourcesPage:
    rows = FreshCatalog(context.reader).resources_after(
        request.tenant_id, request.database_id, request.after_name, context.budget.charge
    )
    found = list(islice(rows, request.limit + 1))
    page = found[: request.limit]
    return AdminResourcesPage(
        items=tuple(_info(row) for row in page),
        next_after_name=page[-1].name if len(found) > len(page) else None,
        cut_position=context.cut,
    )


def _info(row: ResourceDefinition) -> AdminResourceInfo:
    return AdminResourceInfo(
        name=row.name,
        kind=row.kind,
        transaction_domain_id=row.transaction_domain_id,
        schema_version=row.schema_version,
        index_count=len(row.indexes),
        paused=row.paused,
    )


CONFIGURE = CommandHandler(authorize=_authorize, execute=_configure)
LIST = ReadHandler(authorize=_authorize_list, execute=_list)
