"""The first cluster administrator of an empty store (SEC-6, DECISIONS 12)."""

from __future__ import annotations

from keyload.contract.security import ApiKeyRecord, PrincipalRecord
from keyload.contract.tables import KEYS, PRINCIPALS
from keyload.models.catalog.rows import FreshCatalog, put_row
from keyload.storage.txn import Txn

ROOT_PRINCIPAL = "root"
SYSTEM_TENANT = "system"


def bootstrap(txn: Txn, key_id: str, verifier: str) -> bool:
    """Write principal and key into an empty store; False, and nothing written, when it holds any
    principal."""
    if FreshCatalog(txn).holds_principals():
        return False
    principal = PrincipalRecord(
        id=ROOT_PRINCIPAL, tenant_id=SYSTEM_TENANT, grants=(), field_grants=(), cluster_administrator=True
    )
    put_row(txn, PRINCIPALS, (principal.id,), principal)
    key = ApiKeyRecord(id=key_id, principal_id=principal.id, verifier=verifier)
    put_row(txn, KEYS, (key.id,), key)
    return True
