"""keyload_credentials_configure: keys that stand for principals (SEC-2, SEC-10, SEC-11, SEC-14, SEC-15)."""

from __future__ import annotations

from keyload.contract.errors import ErrorCode
from keyload.contract.security import ConfigureApiKeyRequest
from keyload.contract.tables import KEYS
from keyload.models.catalog.rows import FreshCatalog, put_row
from keyload.models.context import CommandContext, CommandHandler, refuse
from keyload.models.security.principals import require_holding, require_manager, require_reach


def _authorize(context: CommandContext, request: ConfigureApiKeyRequest) -> None:
    require_manager(context.rights)
    catalog = FreshCatalog(context.txn)
    former = catalog.key(request.api_key.id)
    for principal_id in {request.api_key.principal_id} | ({former.principal_id} if former else set[str]()):
        principal = catalog.principal(principal_id)
        if principal is not None:
            require_reach(context.rights, principal)


def _configure(context: CommandContext, request: ConfigureApiKeyRequest) -> bool:
    principal = FreshCatalog(context.txn).principal(request.api_key.principal_id)
    if principal is None:
        refuse(ErrorCode.NOT_FOUND, "The principal of the key does not exist.", "/apiKey/principalId")
    if not request.api_key.revoked:
        require_holding(context.rights, principal)  # whoever makes a key gives what it opens
    put_row(context.txn, KEYS, (request.api_key.id,), request.api_key)
    return True


CONFIGURE = CommandHandler(authorize=_authorize, execute=_configure)
