"""The copy of the system shard's catalog that fronts and workers hold in memory.

Worker 0 feeds it with `CatalogDelta` messages. Rows are immutable records; a call looks up what it needs
between two deltas, so all its checks use one version (SEC-41).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from keyload.codec.credentials import Credential
from keyload.codec.placement import Place, place_of
from keyload.contract.catalog import ResourceDefinition
from keyload.contract.security import ApiKeyRecord, PrincipalRecord
from keyload.contract.tables import (
    ALL_SHARDS,
    BINDINGS,
    DISPATCH_PAUSED,
    KEYS,
    NODES,
    PLACEMENTS,
    PRINCIPALS,
    REPLACEMENTS,
    RESOURCES,
    SWITCHES,
    TABLES,
    UNDER_WAY,
    VOTERS,
    Binding,
    Node,
    Replacement,
    Voters,
)
from keyload.link.messages import CatalogDelta, PartitionKey

Row = tuple[str, tuple[str, ...], bytes | None]
"""Table, key parts, the record as MessagePack."""


class Catalog:
    """Resources, principals, keys, switches and placements as of `version`, the applied index of the system
    shard."""

    def __init__(self) -> None:
        self.version = 0
        self.changes = 0
        """How often rows changed; while it stands still, two versions have equal content."""
        self._rows: dict[str, dict[tuple[str, ...], Any]] = {table: {} for table in TABLES}

    def apply(self, delta: CatalogDelta) -> None:
        """Take over a delta; older ones than the present version change nothing."""
        if delta.version < self.version and not delta.whole:
            return
        if delta.whole or delta.rows:
            self.changes += 1
        if delta.whole:
            self._rows = {table: {} for table in TABLES}
        for table, key, row in delta.rows:
            rows = self._rows[table]
            if row is None:
                rows.pop(tuple(key), None)
            else:
                rows[tuple(key)] = msgspec.msgpack.decode(row, type=TABLES[table])
        self.version = delta.version

    def snapshot(self) -> CatalogDelta:
        """The whole catalog as one delta, for a worker that starts."""
        rows: list[Row] = [
            (table, key, msgspec.msgpack.encode(row))
            for table, content in self._rows.items()
            for key, row in content.items()
        ]
        return CatalogDelta(version=self.version, whole=True, rows=rows)

    def excerpt(
        self, principal_id: str, scope: PartitionKey | None, credential: Credential | None = None
    ) -> CatalogDelta:
        """What a call of one principal in one partition can see of the catalog: the principal itself, the key
        it was found by, and the resources of the partition's database.
        """
        rows: list[Row] = []
        principal = self.principal(principal_id)
        if principal is not None:
            rows.append((PRINCIPALS, (principal_id,), msgspec.msgpack.encode(principal)))
        key = None if credential is None else self.key(credential.key_id)
        if key is not None:
            rows.append((KEYS, (key.id,), msgspec.msgpack.encode(key)))
        if scope is not None:
            tenant_id, database_id = scope[:2]
            rows += [
                (RESOURCES, (tenant_id, database_id, row.name), msgspec.msgpack.encode(row))
                for row in self.resources(tenant_id, database_id)
            ]
        paused = self._rows[SWITCHES].get(DISPATCH_PAUSED)
        if paused is not None:
            rows.append((SWITCHES, DISPATCH_PAUSED, msgspec.msgpack.encode(paused)))
        return CatalogDelta(version=self.version, whole=True, rows=rows)

    def resource(self, tenant_id: str, database_id: str, name: str) -> ResourceDefinition | None:
        """The definition of a resource, None when there is none."""
        return self._rows[RESOURCES].get((tenant_id, database_id, name))

    def resources(self, tenant_id: str, database_id: str) -> Iterator[ResourceDefinition]:
        """All resources of one database, in no particular order."""
        for (tenant, database, _), row in self._rows[RESOURCES].items():
            if tenant == tenant_id and database == database_id:
                yield row

    def principal(self, principal_id: str) -> PrincipalRecord | None:
        """The stored principal, revoked and expired ones included."""
        return self._rows[PRINCIPALS].get((principal_id,))

    def key(self, key_id: str) -> ApiKeyRecord | None:
        """The stored key record, revoked and expired ones included."""
        return self._rows[KEYS].get((key_id,))

    def place(self, partition: PartitionKey, shards: int) -> Place:
        """Where a partition lives; `shards` is the number of data shards. Raises Corruption for a damaged
        directory (CLU-33)."""
        return place_of(self._rows[PLACEMENTS].get(partition), partition, shards)

    @property
    def binding(self) -> Binding | None:
        """The assignment of a partition that has begun and is not settled, None when there is none."""
        return self._rows[BINDINGS].get(UNDER_WAY)

    @property
    def nodes(self) -> dict[int, Node]:
        """The registered nodes by number; none in a store of one node, and before the first leader."""
        return {row.number: row for row in self._rows[NODES].values()}

    @property
    def voters(self) -> Voters | None:
        """The voters of all shards as they were registered or exchanged last."""
        return self._rows[VOTERS].get(ALL_SHARDS)

    @property
    def replacement(self) -> Replacement | None:
        """The exchange of a voter that is under way, None when there is none."""
        return self._rows[REPLACEMENTS].get(UNDER_WAY)

    @property
    def admits_nobody(self) -> bool:
        """Whether there is no principal yet, as before the first administrator is written."""
        return not self._rows[PRINCIPALS]

    @property
    def dispatch_paused(self) -> bool:
        """Whether delivery is switched off for the whole store (HTTP-20)."""
        return self._rows[SWITCHES].get(DISPATCH_PAUSED, False)
