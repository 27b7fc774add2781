"""References as results carry them: with the hash id of the partition written out (CMD-2)."""

from __future__ import annotations

from functools import lru_cache

from keyload.codec.identity import atomic_partition_id
from keyload.contract.shared import EntityRef, PartitionRef


@lru_cache(maxsize=16_384)
def partition_ref(partition: tuple[str, str, str, str]) -> PartitionRef:
    """The partition with its hash id."""
    tenant, database, domain, key = partition
    return PartitionRef(
        tenant_id=tenant,
        database_id=database,
        transaction_domain_id=domain,
        partition_key=key,
        atomic_partition_id=atomic_partition_id(tenant, database, domain, key),
    )


def entity_ref(partition: tuple[str, str, str, str], collection: str, document_id: str) -> EntityRef:
    """A document's identity."""
    return EntityRef(partition=partition_ref(partition), collection=collection, id=document_id)
